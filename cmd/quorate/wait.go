package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
)

// Limits of waiting for a change to be visible.
const (
	// waitRecheck is how often a broker that does not answer is looked up again: it may have been fenced.
	waitRecheck = 250 * time.Millisecond
	// waitReport is the time kept to ask how far a late broker is.
	waitReport = 500 * time.Millisecond
	// brokerAskMax is how long a broker is asked for what only it knows.
	brokerAskMax = 5 * time.Second
)

// waiter waits until brokers have acted on a change that is committed.
type waiter struct {
	a      *app
	client *client.Client
	offset int64

	mu   sync.Mutex
	done map[int32]bool  // brokers that have
	late map[int32]int64 // brokers that have not, with the offset they are at
}

func (a *app) newWaiter(c *client.Client, offset int64) *waiter {
	return &waiter{a: a, client: c, offset: offset, done: map[int32]bool{}, late: map[int32]int64{}}
}

// brokers waits for each of the brokers. Those that are fenced or gone meanwhile are left out and named on stderr. Deleted are topics
// of which no data may be left.
func (w *waiter) brokers(ctx context.Context, ids []int32, deleted [][]byte) error {
	bounded, cancel := context.WithDeadline(ctx, deadline(ctx).Add(-waitReport))
	defer cancel()
	var wg sync.WaitGroup
	for _, id := range ids {
		wg.Go(func() { w.broker(bounded, id, deleted) })
	}
	wg.Wait()
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		return unavailable(controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT, "committed at offset %d; interrupted while waiting for it to be visible", w.offset)
	}
	return w.report(len(deleted) > 0)
}

// visible waits for the brokers, then for the leaders of the topics' partitions.
func (w *waiter) visible(ctx context.Context, ids []int32, topics []string) error {
	if err := w.brokers(ctx, ids, nil); err != nil {
		return err
	}
	return w.leaders(ctx, topics)
}

func deadline(ctx context.Context) time.Time {
	if d, ok := ctx.Deadline(); ok {
		return d
	}
	return time.Now().Add(timeoutDefault)
}

// broker waits for one broker until it has acted, or is left out, or the time is over.
func (w *waiter) broker(ctx context.Context, id int32, deleted [][]byte) {
	var address string // the last one that was found: the look-up that the time cuts off finds none
	for {
		found, active, known := w.look(ctx, id)
		if known && !active {
			w.a.warn("broker %d was fenced or unregistered meanwhile and is left out", id)
			return
		}
		if found != "" {
			address = found
			if at, ok := w.ask(ctx, address, deleted); ok {
				w.note(id, at, true)
				return
			}
		}
		select {
		case <-ctx.Done():
			w.note(id, w.position(address), false)
			return
		case <-time.After(waitRecheck):
		}
	}
}

func (w *waiter) note(id int32, at int64, done bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if done {
		w.done[id] = true
	} else {
		w.late[id] = at
	}
}

// look finds a broker's GRPC address and whether it is unfenced, as the active controller knows it.
func (w *waiter) look(ctx context.Context, id int32) (address string, active, known bool) {
	resp, err := controllerpb.NewReaderApiClient(w.client).ListBrokers(ctx, &controllerpb.ListBrokersRequest{
		Options: &controllerpb.ReadOptions{MinOffset: &w.offset},
	})
	if err != nil {
		return "", false, false
	}
	for _, b := range resp.GetBrokers() {
		if r := b.GetRegistration(); r.GetBrokerId() == id {
			return grpcAddress(r), !r.GetFenced(), true
		}
	}
	return "", false, true
}

// ask waits at the broker. While it is silent the look-up is repeated: it may have been fenced.
func (w *waiter) ask(ctx context.Context, address string, deleted [][]byte) (at int64, ok bool) {
	cc, err := w.client.Conn(address)
	if err != nil {
		return 0, false
	}
	ctx, cancel := context.WithTimeout(ctx, 4*waitRecheck)
	defer cancel()
	resp, err := controllerpb.NewReaderApiClient(cc).WaitMetadata(ctx, &controllerpb.WaitMetadataRequest{MetadataOffset: w.offset, DeletedTopics: deleted})
	return resp.GetMetadataOffset(), err == nil
}

// position is the offset that a late broker says it is at, -1 if it does not answer.
func (w *waiter) position(address string) int64 {
	ctx, cancel := context.WithTimeout(context.Background(), waitReport)
	defer cancel()
	cc, err := w.client.Conn(address)
	if address == "" || err != nil {
		return -1
	}
	resp, err := controllerpb.NewReaderApiClient(cc).NodeStatus(ctx, &controllerpb.NodeStatusRequest{})
	if err != nil {
		return -1
	}
	return resp.GetMetadataOffset()
}

// report says who is late, nil if nobody is.
func (w *waiter) report(data bool) error {
	if len(w.late) == 0 {
		return nil
	}
	ids := make([]int32, 0, len(w.late))
	for id := range w.late {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var parts []string
	for _, id := range ids {
		switch at := w.late[id]; {
		case at < 0:
			parts = append(parts, fmt.Sprintf("broker %d does not answer", id))
		case at >= w.offset && data:
			parts = append(parts, fmt.Sprintf("broker %d still holds data", id))
		case at >= w.offset:
			parts = append(parts, fmt.Sprintf("broker %d has read it and not yet acted on it", id))
		default:
			parts = append(parts, fmt.Sprintf("broker %d is at %d", id, at))
		}
	}
	return unavailable(controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT, "committed at offset %d; %s", w.offset, strings.Join(parts, "; "))
}

// leaders waits until the leader of each partition of the topics has acted too: it may have changed meanwhile, to a broker
// that was fenced when the change was made.
func (w *waiter) leaders(ctx context.Context, topics []string) error {
	for {
		missing, leaderless, err := w.unheard(ctx, topics)
		if err != nil {
			return unavailable(controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT, "committed at offset %d; the leaders are not known: %v", w.offset, explain(err).message)
		}
		if len(missing) == 0 && len(leaderless) == 0 {
			return nil
		}
		if len(missing) > 0 {
			if err := w.brokers(ctx, missing, nil); err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return unavailable(controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT, "committed at offset %d; without a leader: %s", w.offset, strings.Join(leaderless, ", "))
		case <-time.After(waitRecheck):
		}
	}
}

// unheard lists the leaders that have not been heard, and the partitions that have none.
func (w *waiter) unheard(ctx context.Context, topics []string) (missing []int32, leaderless []string, err error) {
	_, described, _, err := w.a.describe(ctx, w.client, &readFlags{node: noNode, minOffset: w.offset}, &controllerpb.DescribeTopicsRequest{Names: topics})
	if err != nil {
		return nil, nil, err
	}
	for _, t := range described {
		for _, p := range t.GetPartitions() {
			s := p.GetState()
			switch {
			case s.Leader == nil:
				leaderless = append(leaderless, fmt.Sprintf("%s-%d", t.GetName(), s.GetPartition()))
			case !w.done[s.GetLeader()] && !slices.Contains(missing, s.GetLeader()):
				missing = append(missing, s.GetLeader())
			}
		}
	}
	return missing, leaderless, nil
}
