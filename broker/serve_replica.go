package broker

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/quorate/quorate/broker/kafka"
	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/broker/replica"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// ReadForReplica implements [replica.Source]: the same checks and the same read as for clients, up to the log end.
func (rs *replicas) ReadForReplica(id image.PartitionID, q replica.ReadRequest) replica.ReadResult {
	r, err := rs.get(id)
	if err != nil {
		return refuse(replica.ReadResult{}, err)
	}
	return r.readForReplica(q)
}

func (r *hostedReplica) readForReplica(q replica.ReadRequest) replica.ReadResult {
	v, err := r.lookForReplica(q)
	out := replica.ReadResult{HighWatermark: v.high, LogStartOffset: v.start, LogEndOffset: v.end}
	if err != nil {
		return refuse(out, err)
	}
	found, err := r.read(v, kafka.ReadRequest{
		Offset: q.FetchOffset, CurrentLeaderEpoch: q.LeaderEpoch, LastFetchedEpoch: q.LastFetchedEpoch,
		LeaderOnly: true, BytesMax: q.BytesMax, OneBatch: q.OneBatch,
	}, v.end)
	if err != nil {
		return refuse(out, err)
	}
	if found.Diverging != nil {
		out.Diverging = &partition.EpochEnd{Epoch: found.Diverging.Epoch, EndOffset: found.Diverging.EndOffset}
		return out // it does not count (KAFKA-13141)
	}
	out.Records = found.Records
	if !q.Counts {
		return out
	}
	code := r.followerFetched(partition.FollowerFetched{
		Follower: q.Replica, LeaderEpoch: q.LeaderEpoch, BrokerEpoch: q.BrokerEpoch,
		FetchOffset: q.FetchOffset, LogStartOffset: q.LogStartOffset, LeaderLogEndOffset: v.end, At: q.At,
	})
	if err := codeError(code); err != nil {
		return refuse(out, err)
	}
	return out
}

// lookForReplica checks that the follower may be served: leader epoch, leadership, assignment, broker epoch.
func (r *hostedReplica) lookForReplica(q replica.ReadRequest) (view, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	v := view{leads: r.st.Role == partition.RoleLeader, epoch: r.st.LeaderEpoch}
	v.start, v.high, v.end = r.log.Offsets()
	f := r.facts()
	return v, codeError(r.st.CheckFollower(&f, q.Replica, q.LeaderEpoch, q.BrokerEpoch))
}

// refuse puts an error into the result. Records that were read are not handed out with it.
func refuse(out replica.ReadResult, err error) replica.ReadResult {
	out.Records = nil
	code := controllerpb.ErrorCode(kerr.UnknownServerError.Code)
	var known *kerr.Error
	if errors.As(err, &known) {
		code = controllerpb.ErrorCode(known.Code)
	}
	out.Error = controllerpb.NewError(code, "%v", err)
	return out
}
