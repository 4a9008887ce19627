package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/quorate/quorate/broker/kafka"
	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
)

// view is what a read may see: the state's verdict and the log's bounds, of one moment.
type view struct {
	leads            bool
	epoch            image.LeaderEpoch
	start, high, end int64
}

// look checks epoch, then leadership (KIP-320), and takes the bounds.
func (r *hostedReplica) look(epoch image.LeaderEpoch, leaderOnly bool) (view, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if err := codeError(r.st.CheckRead(epoch, leaderOnly)); err != nil {
		return view{}, err
	}
	v := view{leads: r.st.Role == partition.RoleLeader, epoch: r.st.LeaderEpoch}
	v.start, v.high, v.end = r.log.Offsets()
	return v, nil
}

// still checks that what was seen is still so: bytes read meanwhile may belong to another leader's log otherwise.
func (r *hostedReplica) still(v view, epoch image.LeaderEpoch, leaderOnly bool) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.st.LeaderEpoch == v.epoch && (r.st.Role == partition.RoleLeader) == v.leads {
		return nil
	}
	if err := codeError(r.st.CheckRead(epoch, leaderOnly)); err != nil {
		return err
	}
	return kerr.NotLeaderForPartition
}

// Read is the one read path of clients and followers: epoch, leadership, divergence, bounds, in this order.
func (r *hostedReplica) Read(q kafka.ReadRequest) (kafka.ReadResult, error) {
	v, err := r.look(q.CurrentLeaderEpoch, q.LeaderOnly)
	if err != nil {
		return kafka.ReadResult{}, err
	}
	return r.read(v, q, v.high)
}

// read reads below the bound, which is the watermark for consumers and the log end for followers.
func (r *hostedReplica) read(v view, q kafka.ReadRequest, bound int64) (kafka.ReadResult, error) {
	result := kafka.ReadResult{HighWatermark: v.high, LastStableOffset: v.high, LogStartOffset: v.start}
	switch judged, end := partition.JudgePosition(epochsOf{r.log}, q.LastFetchedEpoch, q.Offset, v.start); judged {
	case partition.Diverging:
		result.Diverging = &kafka.EpochEnd{Epoch: end.Epoch, EndOffset: end.EndOffset}
		return result, r.still(v, q.CurrentLeaderEpoch, q.LeaderOnly)
	case partition.OutOfRange:
		return result, kerr.OffsetOutOfRange
	}
	records, err := r.log.Read(log.ReadRequest{
		Offset: q.Offset, UpperBound: bound, BytesMax: q.BytesMax, AtLeastOne: q.OneBatch,
	})
	if err != nil {
		return result, logError(err)
	}
	result.Records = records
	return result, r.still(v, q.CurrentLeaderEpoch, q.LeaderOnly)
}

// epochsOf shows a log's epoch cache to the package partition.
type epochsOf struct{ log *log.Log }

// EndOffsetForEpoch implements [partition.Epochs].
func (e epochsOf) EndOffsetForEpoch(epoch image.LeaderEpoch) (partition.EpochEnd, bool) {
	end, ok := e.log.EndOffsetForEpoch(epoch)
	return partition.EpochEnd{Epoch: end.Epoch, EndOffset: end.EndOffset}, ok
}
