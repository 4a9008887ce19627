package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/quorate/quorate/broker/kafka"
	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
)

// Readable estimates what a Read would find: the log's bytes are spread over its offsets as if all records were of one
// size, and a record counts for one byte at least, so that it is 0 only where there is none.
func (r *hostedReplica) Readable(q kafka.ReadRequest) (int, error) {
	v, err := r.look(q.CurrentLeaderEpoch, q.LeaderOnly)
	if err != nil {
		return 0, err
	}
	return r.readable(v, q, v.high)
}

func (r *hostedReplica) readable(v view, q kafka.ReadRequest, bound int64) (int, error) {
	switch judged, _ := partition.JudgePosition(epochsOf{r.log}, q.LastFetchedEpoch, q.Offset, v.start); judged {
	case partition.Diverging:
		return 1, nil
	case partition.OutOfRange:
		return 0, kerr.OffsetOutOfRange
	}
	if q.Offset < v.start || q.Offset > v.end {
		return 0, kerr.OffsetOutOfRange
	}
	records := bound - q.Offset
	if records <= 0 {
		return 0, nil
	}
	perRecord := max(r.log.Size()/max(v.end-v.start, 1), 1)
	if records > int64(q.BytesMax)/perRecord {
		return q.BytesMax, nil
	}
	return int(records * perRecord), nil
}

// ListOffset finds an offset for a timestamp. A leader whose watermark has not reached the start of its epoch does not
// know yet what is committed, and says so (KIP-207).
func (r *hostedReplica) ListOffset(q kafka.ListOffsetRequest) (kafka.TimestampedOffset, error) {
	none := kafka.TimestampedOffset{Offset: -1, TimestampMs: -1, LeaderEpoch: kafka.NoEpoch}
	v, err := r.look(q.CurrentLeaderEpoch, true)
	if err != nil {
		return none, err
	}
	switch q.Timestamp {
	case kafka.EarliestTimestamp:
		return r.offsetAt(v.start), nil
	case kafka.LatestTimestamp:
		if err := r.latestKnown(); err != nil {
			return none, err
		}
		return kafka.TimestampedOffset{Offset: v.high, TimestampMs: -1, LeaderEpoch: v.epoch}, nil
	}
	found, ok, err := r.log.OffsetForTimestamp(q.Timestamp)
	if q.Timestamp == kafka.MaxTimestamp {
		found, ok, err = r.log.MaxTimestampOffset()
	}
	switch {
	case err != nil:
		return none, logError(err)
	case !ok || found.Offset >= v.high:
		// What lies beyond the watermark may be committed already: only a leader that knows may say "none".
		return none, r.latestKnown()
	}
	return kafka.TimestampedOffset{Offset: found.Offset, TimestampMs: found.TimestampMs, LeaderEpoch: found.LeaderEpoch}, nil
}

func (r *hostedReplica) latestKnown() error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.st.IsLatestOffsetKnown() {
		return kerr.OffsetNotAvailable
	}
	return nil
}

// offsetAt is an offset with the leader epoch that it belongs to.
func (r *hostedReplica) offsetAt(offset int64) kafka.TimestampedOffset {
	epoch := kafka.NoEpoch
	for _, e := range r.log.Epochs() {
		if e.StartOffset > offset {
			break
		}
		epoch = e.Epoch
	}
	return kafka.TimestampedOffset{Offset: offset, TimestampMs: -1, LeaderEpoch: epoch}
}

// EpochEnd tells where a leader epoch ends in the leader's log.
func (r *hostedReplica) EpochEnd(current, epoch image.LeaderEpoch) (kafka.EpochEnd, error) {
	none := kafka.EpochEnd{Epoch: kafka.NoEpoch, EndOffset: -1}
	if _, err := r.look(current, true); err != nil {
		return none, err
	}
	end, ok := r.log.EndOffsetForEpoch(epoch)
	if !ok {
		return none, nil
	}
	return kafka.EpochEnd{Epoch: end.Epoch, EndOffset: end.EndOffset}, nil
}
