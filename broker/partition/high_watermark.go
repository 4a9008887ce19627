package partition

import (
	"time"

	"github.com/quorate/quorate/fsm/image"
)

// advance moves the high watermark forward as far as it may go and tells whether it moved. It stands still while the
// committed ISR is smaller than the effective min ISR (KIP-966). It waits for every member of the maximal ISR, and for a
// replica outside that is caught up and may join: else that one would be outrun for ever by a busy log.
func (s *State) advance(f *Facts, now time.Time) bool {
	if s.Role != RoleLeader || s.IsUnderMinISR() {
		return false
	}
	candidate := s.LogEndOffset
	for _, id := range s.ISR.Maximal {
		if id != f.Self && s.follower(id) < 0 {
			return false // a member that is not tracked is as one that never fetched
		}
	}
	for i := range s.Followers {
		r := &s.Followers[i]
		if r.LogEndOffset >= candidate {
			continue
		}
		if image.Contains(s.ISR.Maximal, r.ID) || r.isCaughtUp(s.LogEndOffset, now, f.LagTimeMax) && r.canJoin(f) {
			candidate = r.LogEndOffset
		}
	}
	if candidate <= s.HighWatermark {
		return false
	}
	s.HighWatermark = candidate
	return true
}

// step takes over the new end of the leader's log.
func (e LocalAppend) step(f *Facts, s State) (State, Effects) {
	if s.Role != RoleLeader {
		return s, Effects{}
	}
	s.LogEndOffset = e.LogEndOffset
	moved := s.advance(f, e.Now)
	return s, Effects{HighWatermarkMoved: moved, CompleteWaiters: moved}
}

// FollowerHighWatermark is the watermark of a follower after an answer that held no divergence: the leader's, but not
// above the own log end and not below the own log start. It may be lower than before.
func FollowerHighWatermark(leaderHighWatermark, logStartOffset, logEndOffset int64) int64 {
	return max(min(leaderHighWatermark, logEndOffset), logStartOffset)
}

// IsLatestOffsetKnown tells whether the leader may answer a client's query for the latest offset: not before its
// watermark has reached the start of its epoch, else the answer could go back (KIP-207).
func (s *State) IsLatestOffsetKnown() bool {
	return s.Role != RoleLeader || s.HighWatermark >= s.EpochStartOffset
}
