package replica

import (
	"errors"
	"fmt"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
	brokerpb "github.com/quorate/quorate/proto/broker/v1"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// use applies what a leader says of one partition, under the fetcher's lock. It is dropped if the partition is not
// fetched any more, or if its position or leader epoch was told anew after the request that is answered.
func (f *fetcher) use(answered int64, e *brokerpb.FetchedPartition) {
	id, ok := idOf(e)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.partitions[id]
	if p == nil || p.status != StatusFetching || !p.told || p.toldIn > answered {
		return
	}
	p.leaderEnd = e.GetLogEndOffset()
	switch {
	case e.GetError() != nil:
		f.refused(p, e)
	case e.GetDiverging() != nil:
		f.diverged(p, e.GetDiverging())
	default:
		f.advance(p, e)
	}
}

// refused reacts to an error of the leader. A leader of a later epoch ends the fetching until metadata names it; whatever
// else is wrong may be right in a moment.
func (f *fetcher) refused(p *follow, e *brokerpb.FetchedPartition) {
	switch code := e.GetError().GetCode(); code {
	case controllerpb.ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH:
		f.fail(p, "fetch", &controllerpb.RefusedError{Err: e.GetError()})
	case controllerpb.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE:
		f.outOfRange(p, e)
	default:
		f.manager.logger.Debug("replica fetch delayed", "partition", p.Partition, "leader", p.Leader, "code", code.KafkaName())
		f.delay(p)
	}
}

// outOfRange moves to where the leader's log can be read. The bounds were told under the present leader epoch.
func (f *fetcher) outOfRange(p *follow, e *brokerpb.FetchedPartition) {
	start, _, end := p.Replica.Offsets()
	r := partition.RecoverOutOfRange(start, end, e.GetLogStartOffset(), e.GetLogEndOffset())
	f.manager.logger.Warn("replica fetch out of range", "partition", p.Partition, "leader", p.Leader, "logStart", start, "logEnd", end,
		"leaderLogStart", e.GetLogStartOffset(), "leaderLogEnd", e.GetLogEndOffset(), "restart", r.Restart, "offset", r.Offset)
	var err error
	switch {
	case r.Restart:
		err = p.Replica.RestartAt(r.Offset)
	case r.Offset < end:
		_, err = p.Replica.TruncateTo(r.Offset)
	}
	f.moved(p, "recover from out of range", err)
}

// diverged cuts the log where the leader says that it parts. The watermark is left alone.
func (f *fetcher) diverged(p *follow, d *brokerpb.EpochEndOffset) {
	leader := partition.EpochEnd{Epoch: partition.NoLeaderEpoch, EndOffset: partition.UnknownOffset}
	if d.LeaderEpoch != nil {
		leader.Epoch = image.LeaderEpoch(d.GetLeaderEpoch())
	}
	if d.EndOffset != nil {
		leader.EndOffset = d.GetEndOffset()
	}
	_, high, end := p.Replica.Offsets()
	to := partition.TruncationOffset(p.Replica, leader, p.offset, end)
	level := f.manager.logger.Info
	if to < high {
		level = f.manager.logger.Warn // only an unclean election takes committed records away
	}
	level("replica log is cut", "partition", p.Partition, "leader", p.Leader, "leaderEpoch", p.LeaderEpoch, "lastEpoch", p.lastEpoch,
		"logEnd", end, "highWatermark", high, "to", to)
	_, err := p.Replica.TruncateTo(to)
	f.moved(p, "cut the log", err)
}

// advance appends records and takes the leader's offsets over.
func (f *fetcher) advance(p *follow, e *brokerpb.FetchedPartition) {
	if len(e.GetRecords()) > 0 {
		err := p.Replica.AppendAsFollower(e.GetRecords(), p.LeaderEpoch)
		if errors.Is(err, ErrBadRecords) {
			f.manager.logger.Warn("bad records, will fetch them again", "partition", p.Partition, "leader", p.Leader, "offset", p.offset, "error", err)
			f.delay(p)
			return
		}
		if f.moved(p, "append", err); p.status != StatusFetching {
			return
		}
	}
	p.backoff = 0
	p.Replica.FollowHighWatermark(e.GetHighWatermark())
	if leader := e.GetLogStartOffset(); leader > p.logStart && leader <= p.offset {
		if err := p.Replica.AdvanceLogStart(leader); err != nil {
			f.fail(p, "advance the log start", err)
			return
		}
		p.logStart = leader
	}
}

// moved goes on at the new end of the log. A log that was to change and did not is tried again later: else leader and
// follower would say the same to each other for ever.
func (f *fetcher) moved(p *follow, what string, err error) {
	if err != nil {
		f.fail(p, what, err)
		return
	}
	offset, epoch, start := p.offset, p.lastEpoch, p.logStart
	p.locate()
	if p.offset == offset && p.lastEpoch == epoch && p.logStart == start {
		f.manager.logger.Warn("replica fetch makes no progress", "partition", p.Partition, "leader", p.Leader, "doing", what,
			"offset", offset, "lastEpoch", fmt.Sprint(epoch))
		f.delay(p)
		return
	}
	f.tell(p)
}
