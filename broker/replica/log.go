package replica

import (
	"errors"
	"fmt"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
)

// ForLog shows a partition log to a fetcher.
func ForLog(l *log.Log) Replica { return logReplica{l} }

type logReplica struct{ log *log.Log }

func (r logReplica) Offsets() (start, high, end int64) { return r.log.Offsets() }

func (r logReplica) LatestEpoch() (image.LeaderEpoch, bool) {
	e, ok := r.log.LatestEpoch()
	return e.Epoch, ok
}

func (r logReplica) EndOffsetForEpoch(epoch image.LeaderEpoch) (partition.EpochEnd, bool) {
	end, ok := r.log.EndOffsetForEpoch(epoch)
	return partition.EpochEnd{Epoch: end.Epoch, EndOffset: end.EndOffset}, ok
}

func (r logReplica) TruncateTo(offset int64) (end int64, err error) { return r.log.TruncateTo(offset) }

func (r logReplica) RestartAt(offset int64) error { return r.log.TruncateFullyAndStartAt(offset) }

// AppendAsFollower marks what the log finds wrong with the records; a failing disk and an unexpected offset are the
// replica's own trouble.
func (r logReplica) AppendAsFollower(records []byte, epoch image.LeaderEpoch) error {
	_, err := r.log.AppendAsFollower(records, epoch)
	if errors.Is(err, log.ErrCorruptBatch) || errors.Is(err, log.ErrInvalidRecord) {
		return fmt.Errorf("%w: %w", ErrBadRecords, err)
	}
	return err
}

func (r logReplica) FollowHighWatermark(leader int64) { r.log.FollowHighWatermark(leader) }

func (r logReplica) AdvanceLogStart(offset int64) error { return r.log.AdvanceLogStart(offset) }
