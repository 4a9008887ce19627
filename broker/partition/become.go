package partition

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/fsm/image"
)

// step installs a record that names this broker as leader (Kafka: Partition.makeLeader). A record with a lower
// partition epoch is skipped; the leader epoch decides nothing but whether the leadership is a new one.
func (e BecomeLeader) step(f *Facts, s State) (State, Effects) {
	p := &e.Partition
	if p.Leader != f.Self {
		panic(fmt.Sprintf("partition: %v was told to lead by a record that names %v", f.Self, p.Leader))
	}
	if p.PartitionEpoch < s.PartitionEpoch {
		return s, Effects{Skipped: true}
	}
	fx := Effects{NewLeader: s.Role != RoleLeader, NewLeaderEpoch: p.LeaderEpoch > s.LeaderEpoch}
	newEpoch := fx.NewLeader || fx.NewLeaderEpoch
	if fx.NewLeader {
		s.HighWatermark = e.HighWatermark
	}
	s.ISR = s.installISR(p, newEpoch)
	s.assign(f, p)
	s.Role, s.Leader, s.LogEndOffset = RoleLeader, p.Leader, e.LogEndOffset
	s.learnMinISR(e.MinISR, e.MetadataOffset)
	s.PartitionEpoch = p.PartitionEpoch
	if newEpoch {
		s.LeaderEpoch, s.EpochStartOffset = p.LeaderEpoch, e.LogEndOffset
		fx.StartEpoch = &EpochStart{p.LeaderEpoch, e.LogEndOffset}
		s.resetFollowers(e.Now)
	}
	fx.HighWatermarkMoved = s.advance(f, e.Now)
	fx.CompleteWaiters = true
	if newEpoch {
		fx.Fetch = FetchStop
	}
	return s, fx
}

// installISR takes over a record's ISR. What is pending is forgotten, for its answer can bring nothing newer. Only a
// record that is the very one the proposal rests on proves nothing about it, and the proposal stays pending: else a
// snapshot that repeats the record would let the watermark pass a replica that may be about to enter.
func (s *State) installISR(p *image.Partition, newEpoch bool) ISR {
	if q := s.ISR.Pending; !newEpoch && q != nil && q.PartitionEpoch == p.PartitionEpoch {
		return s.ISR
	}
	return committed(p.ISR)
}

// assign takes over the assignment: new replicas are tracked as unknown, others keep what is known of them.
func (s *State) assign(f *Facts, p *image.Partition) {
	followers := make([]Follower, 0, len(p.Replicas))
	for _, id := range p.Replicas {
		if id == f.Self {
			continue
		}
		if i := s.follower(id); i >= 0 {
			followers = append(followers, s.Followers[i])
		} else {
			followers = append(followers, newFollower(id))
		}
	}
	s.Followers = followers
	s.Replicas, s.AddingReplicas, s.RemovingReplicas = p.Replicas, p.AddingReplicas, p.RemovingReplicas
}

// resetFollowers forgets what an earlier leader epoch knew. Positions are forgotten too: another leader may have cut
// the follower in between. A member of the ISR gets one whole lag period to fetch.
func (s *State) resetFollowers(now time.Time) {
	for i := range s.Followers {
		s.Followers[i] = newFollower(s.Followers[i].ID)
		if image.Contains(s.ISR.Committed, s.Followers[i].ID) {
			s.Followers[i].LastCaughtUp = now
		}
	}
}

// step installs a record that names another leader or none (Kafka: Partition.makeFollower). Nothing is cut and the
// watermark stays: a follower cuts only where a leader tells it that the logs part (KIP-101).
func (e BecomeFollower) step(f *Facts, s State) (State, Effects) {
	p := &e.Partition
	if p.Leader == f.Self {
		panic(fmt.Sprintf("partition: %v was told to follow by a record that names it", f.Self))
	}
	if p.PartitionEpoch < s.PartitionEpoch {
		return s, Effects{Skipped: true}
	}
	fx := Effects{NewLeaderEpoch: p.LeaderEpoch > s.LeaderEpoch}
	switch {
	case p.Leader == image.NoBroker, e.InControlledShutdown && !image.Contains(p.ISR, f.Self):
		fx.Fetch = FetchStop
	case fx.NewLeaderEpoch || s.Role != RoleFollower:
		fx.Fetch = FetchRestart
	}
	fx.CompleteWaiters = s.Role == RoleLeader || fx.NewLeaderEpoch
	return State{
		Role: RoleFollower, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch,
		Replicas: p.Replicas, AddingReplicas: p.AddingReplicas, RemovingReplicas: p.RemovingReplicas,
		EpochStartOffset: UnknownOffset, Proposals: s.Proposals,
	}, fx
}

// step ends the replica's life. A later record finds it as [New] left it, except for the count of proposals.
func (e Deleted) step(_ *Facts, s State) (State, Effects) {
	next := New()
	next.Proposals = s.Proposals
	return next, Effects{Fetch: FetchStop, CompleteWaiters: true}
}

// step looks at the watermark again: a replica that held it from outside the ISR may have lost the right to.
func (e MetadataChanged) step(f *Facts, s State) (State, Effects) {
	if s.Role != RoleLeader {
		return s, Effects{}
	}
	before := s.EffectiveMinISR()
	s.learnMinISR(e.MinISR, e.MetadataOffset)
	changed := s.EffectiveMinISR() != before
	moved := s.advance(f, e.Now)
	return s, Effects{HighWatermarkMoved: moved, CompleteWaiters: moved || changed}
}
