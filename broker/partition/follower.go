package partition

import (
	"slices"
	"time"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// isCaughtUp tells whether the follower stands at the leader's log end, or did so within the lag limit.
func (r *Follower) isCaughtUp(leaderLogEndOffset int64, now time.Time, lagTimeMax time.Duration) bool {
	if r.LogEndOffset == leaderLogEndOffset {
		return true
	}
	return !r.LastCaughtUp.IsZero() && now.Sub(r.LastCaughtUp) <= lagTimeMax
}

// canJoin tells whether metadata lets the follower into an ISR: registered, neither fenced nor in controlled shutdown,
// and its position told by the life that is registered now (KIP-841, KIP-903). A replica that the controller has refused
// is not asked for again until its registration changes or the next lag check.
func (r *Follower) canJoin(f *Facts) bool {
	b, ok := f.Brokers.Broker(r.ID)
	if !ok || !b.IsActive() || r.LastFetch.BrokerEpoch == image.NoBrokerEpoch || r.LastFetch.BrokerEpoch != b.Epoch {
		return false
	}
	return r.refused == nil || *r.refused != registrationOf(b)
}

// fetched takes over a fetch. The second case of catching up means: it has now all that the leader had when it last
// asked, so a busy log does not drive out a follower that is one fetch behind.
func (r Follower) fetched(e *FollowerFetched) Follower {
	switch {
	case e.FetchOffset >= e.LeaderLogEndOffset:
		r.LastCaughtUp = later(r.LastCaughtUp, e.At)
	case e.FetchOffset >= r.LastFetch.LeaderLogEndOffset && !r.LastFetch.At.IsZero():
		r.LastCaughtUp = later(r.LastCaughtUp, r.LastFetch.At)
	}
	r.LogEndOffset, r.LogStartOffset = e.FetchOffset, e.LogStartOffset
	r.LastFetch = LastFetch{
		At: e.At, BrokerEpoch: e.BrokerEpoch,
		LeaderLogEndOffset: max(e.LeaderLogEndOffset, r.LastFetch.LeaderLogEndOffset),
	}
	return r
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// step takes over a follower's position, then tries to let it into the ISR, then to move the watermark. A fetch of
// another leader epoch or of a former life of the broker is refused and changes nothing. A replica that does not lead
// any more takes nothing and refuses nothing.
func (e FollowerFetched) step(f *Facts, s State) (State, Effects) {
	if s.Role != RoleLeader {
		return s, Effects{}
	}
	if code := s.CheckFollower(f, e.Follower, e.LeaderEpoch, e.BrokerEpoch); code != controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED {
		return s, Effects{Refused: code}
	}
	i := s.follower(e.Follower)
	before := s.Followers[i].LogEndOffset
	s.Followers = slices.Clone(s.Followers)
	s.Followers[i] = s.Followers[i].fetched(&e)
	var fx Effects
	fx.Submit = s.tryExpand(f, &s.Followers[i])
	if e.FetchOffset != before {
		fx.HighWatermarkMoved = s.advance(f, e.At)
		fx.CompleteWaiters = fx.HighWatermarkMoved
	}
	return s, fx
}
