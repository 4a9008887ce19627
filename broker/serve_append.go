package broker

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/quorate/quorate/broker/kafka"
	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

const acksAll = -1

// CanAppend makes the checks that come before the records are looked at.
func (r *hostedReplica) CanAppend(requiredAcks int16) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return codeError(r.st.AdmitAppend(requiredAcks == acksAll))
}

// AppendAsLeader appends one batch and moves the watermark. The state cannot change between the check and the append:
// the lock is held shared, so reads go on beside a slow write.
func (r *hostedReplica) AppendAsLeader(batch []byte, requiredAcks int16) (kafka.AppendResult, error) {
	parsed, err := log.ParseProduce(batch, r.log.Config().MessageBytesMax)
	if err != nil {
		return kafka.AppendResult{}, logError(err)
	}
	appended, epoch, err := r.append(parsed, requiredAcks)
	if err != nil {
		return kafka.AppendResult{}, err
	}
	r.mu.Lock()
	fx, err := r.stepLocked(partition.LocalAppend{LogEndOffset: r.log.LogEndOffset(), Now: r.deps.now()})
	r.mu.Unlock()
	if err != nil {
		return kafka.AppendResult{}, logError(err)
	}
	r.carryOut(fx)
	if !appended.Duplicate {
		r.deps.appended(r.id)
	}
	return kafka.AppendResult{
		FirstOffset: appended.FirstOffset, LastOffset: appended.LastOffset, LogStartOffset: appended.LogStartOffset,
		LogAppendTimeMs: appended.LogAppendTimeMs, LeaderEpoch: epoch,
	}, nil
}

func (r *hostedReplica) append(batch log.ProduceBatch, requiredAcks int16) (log.Appended, image.LeaderEpoch, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if err := codeError(r.st.AdmitAppend(requiredAcks == acksAll)); err != nil {
		return log.Appended{}, 0, err
	}
	appended, err := r.log.Append(batch, r.st.LeaderEpoch)
	return appended, r.st.LeaderEpoch, logError(err)
}

// IsReplicated decides an append with acks=all.
func (r *hostedReplica) IsReplicated(offset int64, epoch image.LeaderEpoch) (bool, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.st.Role == partition.RoleLeader && epoch < r.ledSince {
		return false, kerr.NotLeaderForPartition
	}
	code, decided := r.st.AcksAllVerdict(offset)
	return decided && code == controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED, codeError(code)
}

// codeError is the refusal that a client is told; nil for UNSPECIFIED.
func codeError(code controllerpb.ErrorCode) error {
	if code == controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED {
		return nil
	}
	if known := kerr.ErrorForCode(int16(code)); known != nil {
		return known
	}
	return kerr.UnknownServerError
}

// logError is an error of the log as a client is told it, with the log's own text.
func logError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %v", codeError(log.CodeOf(err)), err)
}
