package main

import (
	"context"
	"slices"
	"sync"

	brokerpb "github.com/quorate/quorate/proto/broker/v1"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client"
)

// Limits of asking brokers what they hold.
const (
	// replicaBrokersMax is how many brokers are asked at once.
	replicaBrokersMax = 8
	// replicasPerRequest is how many partitions a broker is asked for in one request; it answers no more.
	replicasPerRequest = 1000
)

// replicaKey is one replica.
type replicaKey struct {
	topicID   string // 16 bytes
	partition int32
	broker    int32
}

// heldReplicas is what brokers said of their logs.
type heldReplicas struct {
	registered map[int32]*metadatapb.RegisterBroker

	mu     sync.Mutex
	held   map[replicaKey]*brokerpb.HeldReplica
	silent map[int32]string // why a broker that was asked did not answer
}

// find returns what a broker said of one replica, or why that is not known.
func (h *heldReplicas) find(k replicaKey) (held *brokerpb.HeldReplica, why string) {
	if why, silent := h.silent[k.broker]; silent {
		return nil, why
	}
	held, ok := h.held[k]
	switch {
	case !ok:
		return nil, "was not asked"
	case held.GetError() != nil:
		return nil, "cannot tell: " + held.GetError().GetMessage()
	}
	return held, ""
}

// silentBrokers are those that did not answer, by id.
func (h *heldReplicas) silentBrokers() []int32 {
	ids := make([]int32, 0, len(h.silent))
	for id := range h.silent {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// state is a broker's state as the metadata has it.
func (h *heldReplicas) state(id int32) string {
	if r, ok := h.registered[id]; ok {
		return brokerState(r)
	}
	return "UNREGISTERED"
}

// fencedSince is the time of day at which a broker was fenced; ok is false if it is not.
func (h *heldReplicas) fencedSince(id int32) (ms int64, ok bool) {
	r, known := h.registered[id]
	return r.GetStateSinceMs(), known && r.GetFenced()
}

// askReplicas asks the brokers for replicas, all of one broker in as many requests as it takes, and several brokers at
// once. It fails only if it is not known where the brokers are.
func (a *app) askReplicas(ctx context.Context, c *client.Client, wanted []replicaKey) (*heldReplicas, error) {
	h := &heldReplicas{registered: map[int32]*metadatapb.RegisterBroker{}, held: map[replicaKey]*brokerpb.HeldReplica{}, silent: map[int32]string{}}
	if len(wanted) == 0 {
		return h, nil
	}
	resp, err := controllerpb.NewReaderApiClient(c).ListBrokers(ctx, &controllerpb.ListBrokersRequest{})
	if err != nil {
		return nil, err
	}
	for _, b := range resp.GetBrokers() {
		h.registered[b.GetRegistration().GetBrokerId()] = b.GetRegistration()
	}
	byBroker := map[int32][]replicaKey{}
	for _, k := range wanted {
		byBroker[k.broker] = append(byBroker[k.broker], k)
	}
	places := make(chan struct{}, replicaBrokersMax)
	var wg sync.WaitGroup
	for id, keys := range byBroker {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			for part := range slices.Chunk(keys, replicasPerRequest) {
				if why := h.ask(ctx, c, id, part); why != "" {
					h.mu.Lock()
					h.silent[id] = why
					h.mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	return h, nil
}

// ask asks one broker and returns why it did not answer.
func (h *heldReplicas) ask(ctx context.Context, c *client.Client, id int32, keys []replicaKey) (why string) {
	registered, ok := h.registered[id]
	if !ok {
		return "is not registered"
	}
	address := grpcAddress(registered)
	cc, err := c.Conn(address)
	if address == "" || err != nil {
		return "names no GRPC listener"
	}
	request := &brokerpb.DescribeReplicasRequest{}
	for _, k := range keys {
		request.Partitions = append(request.Partitions, &brokerpb.ReplicaPartition{TopicId: []byte(k.topicID), Partition: k.partition})
	}
	ctx, cancel := context.WithTimeout(ctx, brokerAskMax)
	defer cancel()
	resp, err := brokerpb.NewReplicaStatusApiClient(cc).DescribeReplicas(ctx, request)
	switch {
	case err != nil:
		return "does not answer"
	case resp.GetBrokerId() != id || len(resp.GetReplicas()) != len(keys):
		return "does not answer: another process is at its address"
	case resp.GetBrokerEpoch() != registered.GetBrokerEpoch():
		return "is being restarted"
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, r := range resp.GetReplicas() {
		h.held[keys[i]] = r
	}
	return ""
}
