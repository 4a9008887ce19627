package partition

import (
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// CheckLeaderEpoch compares the leader epoch of a request with the own one (KIP-320). [NoLeaderEpoch] is accepted.
func (s *State) CheckLeaderEpoch(epoch image.LeaderEpoch) controllerpb.ErrorCode {
	switch {
	case epoch == NoLeaderEpoch || epoch == s.LeaderEpoch:
		return controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED
	case epoch < s.LeaderEpoch:
		return controllerpb.ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH
	default:
		return controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_LEADER_EPOCH
	}
}

// CheckRead tells whether a read may be served: first the epoch is looked at, then, where only the leader may answer,
// the role. Consumers with client metadata (Fetch version 11 and above) are served by any replica (KIP-392).
func (s *State) CheckRead(epoch image.LeaderEpoch, leaderOnly bool) controllerpb.ErrorCode {
	if code := s.CheckLeaderEpoch(epoch); code != controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED {
		return code
	}
	if leaderOnly && s.Role != RoleLeader || s.Role == RoleNone {
		return controllerpb.ErrorCode_ERROR_CODE_NOT_LEADER_OR_FOLLOWER
	}
	return controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED
}

// CheckFollower tells whether a follower's fetch may be served and counted: the leader epoch must be the own one, the
// replica must lead, the follower must be assigned, and no later life of it may be registered (KIP-903). A follower that
// is not assigned may know a newer assignment than the leader, so it is told to ask again.
func (s *State) CheckFollower(f *Facts, id image.BrokerID, epoch image.LeaderEpoch, broker image.BrokerEpoch) controllerpb.ErrorCode {
	if code := s.CheckRead(epoch, true); code != controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED {
		return code
	}
	if s.follower(id) < 0 {
		if epoch != NoLeaderEpoch {
			return controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_LEADER_EPOCH
		}
		return controllerpb.ErrorCode_ERROR_CODE_NOT_LEADER_OR_FOLLOWER
	}
	if b, ok := f.Brokers.Broker(id); ok && broker != image.NoBrokerEpoch && broker < b.Epoch {
		return controllerpb.ErrorCode_ERROR_CODE_NOT_LEADER_OR_FOLLOWER
	}
	return controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED
}
