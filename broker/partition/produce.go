package partition

import controllerpb "github.com/quorate/quorate/proto/controller/v1"

// AdmitAppend tells whether a client's append is accepted: only the leader appends, and acks=all asks for a committed
// ISR of at least the effective min ISR. If it is refused, nothing may be appended.
func (s *State) AdmitAppend(acksAll bool) controllerpb.ErrorCode {
	switch {
	case s.Role != RoleLeader:
		return controllerpb.ErrorCode_ERROR_CODE_NOT_LEADER_OR_FOLLOWER
	case acksAll && s.IsUnderMinISR():
		return controllerpb.ErrorCode_ERROR_CODE_NOT_ENOUGH_REPLICAS
	default:
		return controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED
	}
}

// AcksAllVerdict tells what an acks=all append is answered whose last offset is required-1, and whether it is decided
// at all. The verdict takes the maximal ISR: a watermark that has passed the offset passed it on every member of it.
func (s *State) AcksAllVerdict(required int64) (code controllerpb.ErrorCode, decided bool) {
	switch {
	case s.Role != RoleLeader:
		return controllerpb.ErrorCode_ERROR_CODE_NOT_LEADER_OR_FOLLOWER, true
	case s.HighWatermark < required:
		return controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED, false
	case len(s.ISR.Maximal) < s.EffectiveMinISR():
		return controllerpb.ErrorCode_ERROR_CODE_NOT_ENOUGH_REPLICAS_AFTER_APPEND, true
	default:
		return controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED, true
	}
}
