package partition

import (
	"slices"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// tryExpand proposes to let a follower into the ISR and returns the proposal, nil if it may not join. Joining takes a
// position at or above the watermark and the start of the leader epoch: the watermark alone may be behind records of
// earlier epochs that are committed (KIP-966's model). How long it lagged does not matter.
func (s *State) tryExpand(f *Facts, r *Follower) *Proposal {
	if s.ISR.Pending != nil || image.Contains(s.ISR.Committed, r.ID) || !r.canJoin(f) {
		return nil
	}
	if r.LogEndOffset < s.HighWatermark || s.EpochStartOffset == UnknownOffset || r.LogEndOffset < s.EpochStartOffset {
		return nil
	}
	changed := []image.BrokerID{r.ID}
	isr := image.With(s.ISR.Committed, r.ID)
	s.propose(f, Expand, isr, changed)
	s.ISR.Maximal = isr
	return s.ISR.Pending
}

// step proposes to drop every member of the ISR that was not caught up for longer than the lag limit. A follower at
// the leader's log end is never dropped, however long ago it fetched. It also forgets the controller's refusals, so that
// a replica refused for a reason that never reached the log is asked for again.
func (e CheckLag) step(f *Facts, s State) (State, Effects) {
	if s.Role != RoleLeader {
		return s, Effects{}
	}
	s.forgetRefusals()
	if s.ISR.Pending != nil {
		return s, Effects{}
	}
	var out []image.BrokerID
	for _, id := range s.ISR.Committed {
		if id == f.Self {
			continue
		}
		if i := s.follower(id); i < 0 || !s.Followers[i].isCaughtUp(s.LogEndOffset, e.Now, f.LagTimeMax) {
			out = append(out, id)
		}
	}
	if len(out) == 0 {
		return s, Effects{}
	}
	s.propose(f, Shrink, image.Without(s.ISR.Committed, out...), out)
	return s, Effects{Submit: s.ISR.Pending}
}

// propose makes the proposal pending. Each member's epoch is that of the fetch its position rests on.
func (s *State) propose(f *Facts, kind Kind, isr, changed []image.BrokerID) {
	members := make([]Member, len(isr))
	for i, id := range isr {
		members[i] = Member{id, image.NoBrokerEpoch}
		if id == f.Self {
			members[i].Epoch = f.SelfEpoch
		} else if j := s.follower(id); j >= 0 {
			members[i].Epoch = s.Followers[j].LastFetch.BrokerEpoch
		}
	}
	s.Proposals++
	s.ISR.Pending = &Proposal{
		Number: s.Proposals, Kind: kind, LeaderEpoch: s.LeaderEpoch, PartitionEpoch: s.PartitionEpoch,
		ISR: members, Changed: changed,
	}
}

// step settles a proposal by its answer. Only an answer to the pending proposal counts: a change is replaced by newer
// metadata, and then nothing that is said about the old one is news.
func (e AlterPartitionAnswered) step(f *Facts, s State) (State, Effects) {
	p := s.ISR.Pending
	if p == nil || !p.Equal(e.Proposal) {
		return s, Effects{Answer: Ignored}
	}
	switch e.Code {
	case controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED:
		return e.accepted(f, s)
	case controllerpb.ErrorCode_ERROR_CODE_OPERATION_NOT_ATTEMPTED, controllerpb.ErrorCode_ERROR_CODE_INELIGIBLE_REPLICA:
		return e.reverted(f, s)
	case controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION,
		controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_ID,
		controllerpb.ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH,
		controllerpb.ErrorCode_ERROR_CODE_INVALID_UPDATE_VERSION,
		controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST,
		controllerpb.ErrorCode_ERROR_CODE_NEW_LEADER_ELECTED:
		return s, Effects{Answer: Waiting} // the change may have been applied; the newer record tells
	default:
		return s, Effects{Answer: Repeated, Submit: p}
	}
}

// accepted installs the ISR that the controller names. If the change has also begun a new leader epoch, metadata
// installs everything at once.
func (e AlterPartitionAnswered) accepted(f *Facts, s State) (State, Effects) {
	if e.LeaderEpoch != s.LeaderEpoch || e.PartitionEpoch < s.PartitionEpoch {
		return s, Effects{Answer: Waiting}
	}
	fx := Effects{Answer: Expanded}
	if s.ISR.Pending.Kind == Shrink {
		fx.Answer = Shrunk
	}
	s.ISR, s.PartitionEpoch = committed(e.ISR), e.PartitionEpoch
	s.overtake(e.MinISR, e.MetadataOffset)
	fx.HighWatermarkMoved = s.advance(f, e.Now)
	fx.CompleteWaiters = true
	return s, fx
}

// reverted goes back to the committed ISR. The two codes prove that the partition epoch was current and nothing was
// applied; any other failure may hide an applied change. A refused newcomer no longer holds the watermark.
func (e AlterPartitionAnswered) reverted(f *Facts, s State) (State, Effects) {
	p := s.ISR.Pending
	s.ISR = committed(s.ISR.Committed)
	if e.Code == controllerpb.ErrorCode_ERROR_CODE_INELIGIBLE_REPLICA && p.Kind == Expand {
		s.Followers = slices.Clone(s.Followers)
		for _, id := range p.Changed {
			if i := s.follower(id); i >= 0 {
				b, _ := f.Brokers.Broker(id)
				refused := registrationOf(b)
				s.Followers[i].refused = &refused
			}
		}
	}
	moved := s.advance(f, e.Now)
	return s, Effects{Answer: Reverted, HighWatermarkMoved: moved, CompleteWaiters: moved}
}

func (s *State) forgetRefusals() {
	for i := range s.Followers {
		if s.Followers[i].refused != nil {
			s.Followers = slices.Clone(s.Followers)
			for j := range s.Followers {
				s.Followers[j].refused = nil
			}
			return
		}
	}
}
