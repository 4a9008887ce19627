package kafka

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quorate/quorate/fsm/image"
)

// Versions of Fetch from which on behaviour differs.
const (
	fetchAnyReplicaMin = 11 // KIP-392: a consumer may read from a follower
	fetchTopicIDMin    = 13 // KIP-516
	fetchReplicaTagMin = 15 // KIP-903: the replica id moved into a tag
	fetchHintsMin      = 16 // KIP-951
)

// fetch reads records, and waits for them as long as the client wants. Refusals, in order:
//   - a session: FETCH_SESSION_ID_NOT_FOUND; none is ever opened, and clients go on without
//   - a replica: CLUSTER_AUTHORIZATION_FAILED for each partition; brokers copy logs over gRPC
//   - unknown topic id: UNKNOWN_TOPIC_ID; unknown name or partition: UNKNOWN_TOPIC_OR_PARTITION
//   - not hosted: NOT_LEADER_OR_FOLLOWER; broken log: KAFKA_STORAGE_ERROR
//   - leader epoch, leadership, offset: see [Partition].Read
//
// The answer comes at once if max wait is not positive, no partition is named, a partition fails or diverges, or min
// bytes are there; else when that happens or the wait is over. The first partition with records gives at least one
// batch; others stay within the limits.
func (s *Server) fetch(r *request) {
	req := r.body.(*kmsg.FetchRequest)
	if req.SessionID != 0 || req.SessionEpoch > 0 {
		resp := response[*kmsg.FetchResponse](r)
		resp.ErrorCode = kerr.FetchSessionIDNotFound.Code
		resp.Topics = []kmsg.FetchResponseTopic{}
		r.reply(resp)
		return
	}
	f := &fetchCall{s: s, r: r, req: req}
	f.resolve()
	wait := min(time.Duration(req.MaxWaitMillis)*time.Millisecond, s.cfg.WaitMax)
	if wait <= 0 || len(f.keys) == 0 || f.failed || f.isReady() {
		f.answer()
		return
	}
	w := &waiter{keys: f.keys, deadline: r.arrived.Add(wait), ctx: r.ctx, check: f.check, expire: f.answer, hurry: true}
	r.parked.Store(w)
	s.purgatory.add(w)
}

// fetchCall is one Fetch under way.
type fetchCall struct {
	s   *Server
	r   *request
	req *kmsg.FetchRequest

	items  []fetchItem
	keys   []image.PartitionID // of the items that can be read, distinct
	failed bool
}

// fetchItem is one partition of the request.
type fetchItem struct {
	topic, partition int // in the request
	id               image.PartitionID
	read             ReadRequest
	err              error
}

func (f *fetchCall) resolve() {
	im := f.s.backend.Metadata.Image()
	isReplica := f.req.ReplicaID >= 0 || f.r.version >= fetchReplicaTagMin && f.req.ReplicaState.ID >= 0
	seen := map[image.PartitionID]bool{}
	for i := range f.req.Topics {
		t := &f.req.Topics[i]
		topic, err := findTopic(im, f.r.version >= fetchTopicIDMin, t.Topic, t.TopicID)
		if isReplica {
			err = kerr.ClusterAuthorizationFailed
		}
		for k := range t.Partitions {
			in := &t.Partitions[k]
			item := fetchItem{topic: i, partition: k, err: err}
			if err == nil {
				item.id = image.PartitionID{Topic: topic.ID(), Partition: in.Partition}
				if _, ok := topic.Partition(in.Partition); !ok {
					item.err = kerr.UnknownTopicOrPartition
				}
			}
			item.read = f.readRequest(in)
			f.failed = f.failed || item.err != nil
			if item.err == nil && !seen[item.id] {
				seen[item.id] = true
				f.keys = append(f.keys, item.id)
			}
			f.items = append(f.items, item)
		}
	}
}

func (f *fetchCall) readRequest(in *kmsg.FetchRequestTopicPartition) ReadRequest {
	r := ReadRequest{
		Offset:             in.FetchOffset,
		CurrentLeaderEpoch: image.LeaderEpoch(in.CurrentLeaderEpoch),
		LastFetchedEpoch:   image.LeaderEpoch(in.LastFetchedEpoch),
		LeaderOnly:         f.r.version < fetchAnyReplicaMin,
		BytesMax:           max(int(in.PartitionMaxBytes), 0),
	}
	if f.req.IsolationLevel != int8(ReadUncommitted) {
		r.Isolation = ReadCommitted
	}
	return r
}

func (f *fetchCall) bytesMax() int {
	return min(max(int(f.req.MaxBytes), 0), f.s.cfg.FetchBytesMax)
}

// isReady tells whether an answer would be due now.
func (f *fetchCall) isReady() bool {
	want := max(int(f.req.MinBytes), 0)
	for i := range f.items {
		got, err := f.readable(&f.items[i])
		if want -= got; err != nil || want <= 0 {
			return true
		}
	}
	return false
}

// readable tells how many bytes an item would give now. An error or a divergence calls for an answer.
func (f *fetchCall) readable(item *fetchItem) (int, error) {
	if item.err != nil {
		return 0, item.err
	}
	p, err := f.s.backend.Partitions.Lookup(item.id)
	if err != nil {
		return 0, err
	}
	return p.Readable(item.read)
}

// check looks at the request again after a change of one partition.
func (f *fetchCall) check(id image.PartitionID) bool {
	if !f.isReadyAfter(id) {
		return false
	}
	f.answer()
	return true
}

// isReadyAfter looks at the changed partition first; only a client that wants more than it gives costs a full look.
func (f *fetchCall) isReadyAfter(id image.PartitionID) bool {
	for i := range f.items {
		if f.items[i].id != id {
			continue
		}
		got, err := f.readable(&f.items[i])
		if err != nil || got >= int(f.req.MinBytes) {
			return true
		}
		if got > 0 {
			return f.isReady()
		}
	}
	return false
}

// answer hands the reading over to the connection's writer. The records count against the bytes that all answers may
// hold until they are written.
func (f *fetchCall) answer() {
	granted := 0
	f.r.replyBy(func() kmsg.Response {
		granted = f.s.fetching.take(f.bytesMax())
		resp, used := f.read(granted)
		f.s.fetching.give(granted - min(used, granted))
		granted = min(used, granted)
		return resp
	}, func() { f.s.fetching.give(granted) })
}

// read builds the response within a limit; it returns the bytes of records in it.
func (f *fetchCall) read(limit int) (*kmsg.FetchResponse, int) {
	h := &hints{s: f.s, im: f.s.backend.Metadata.Image()}
	resp := response[*kmsg.FetchResponse](f.r)
	resp.Topics = make([]kmsg.FetchResponseTopic, len(f.req.Topics))
	for i := range f.req.Topics {
		t := kmsg.NewFetchResponseTopic()
		t.Topic, t.TopicID = f.req.Topics[i].Topic, f.req.Topics[i].TopicID
		t.Partitions = make([]kmsg.FetchResponseTopicPartition, 0, len(f.req.Topics[i].Partitions))
		resp.Topics[i] = t
	}
	used := 0
	for i := range f.items {
		item := &f.items[i]
		out := f.readItem(item, limit-used, used == 0, h)
		used += len(out.RecordBatches)
		resp.Topics[item.topic].Partitions = append(resp.Topics[item.topic].Partitions, out)
	}
	if f.r.version >= fetchHintsMin {
		resp.Brokers = h.fetchBrokers()
	}
	return resp, used
}

func (f *fetchCall) readItem(item *fetchItem, left int, first bool, h *hints) kmsg.FetchResponseTopicPartition {
	out := kmsg.NewFetchResponseTopicPartition()
	out.Partition = f.req.Topics[item.topic].Partitions[item.partition].Partition
	out.HighWatermark = -1
	out.RecordBatches = []byte{}
	if item.read.Isolation == ReadCommitted {
		out.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
	}
	res, err := f.readPartition(item, left, first)
	if err != nil {
		out.ErrorCode = codeOf(err)
		if f.r.version >= fetchHintsMin {
			if hint, ok := h.find(item.id, out.ErrorCode); ok {
				out.CurrentLeader.LeaderID, out.CurrentLeader.LeaderEpoch = int32(hint.leader), int32(hint.epoch)
			}
		}
		return out
	}
	out.LogStartOffset = res.LogStartOffset
	if res.Diverging != nil {
		out.DivergingEpoch.Epoch, out.DivergingEpoch.EndOffset = int32(res.Diverging.Epoch), res.Diverging.EndOffset
	}
	out.HighWatermark, out.LastStableOffset = res.HighWatermark, res.LastStableOffset
	if res.Records != nil {
		out.RecordBatches = res.Records
	}
	return out
}

func (f *fetchCall) readPartition(item *fetchItem, left int, first bool) (ReadResult, error) {
	if item.err != nil {
		return ReadResult{}, item.err
	}
	p, err := f.s.backend.Partitions.Lookup(item.id)
	if err != nil {
		return ReadResult{}, err
	}
	read := item.read
	read.BytesMax = min(read.BytesMax, max(left, 0))
	read.OneBatch = first
	return p.Read(read)
}
