package kafka_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quorate/quorate/broker/kafka"
)

// Answers leave in request order although later requests are decided first, and appends keep the order of requests.
func TestAnswersKeepRequestOrder(t *testing.T) {
	r := start(t)
	const partitions = 4
	r.b.CreateTopic("t", partitions, 1)
	for i := range int32(partitions) {
		r.b.Partition("t", i).Hold()
	}
	w := r.dial()
	var want []int32
	for range 100 {
		switch rand.IntN(3) {
		case 0, 1:
			want = append(want, w.send(produceTo(9, -1, "t", int32(rand.IntN(partitions)), batch(-1, -1, -1, "v"))))
		default:
			want = append(want, w.send(at(kmsg.NewPtrListOffsetsRequest(), 4)))
		}
	}
	var releases sync.WaitGroup
	for _, i := range rand.Perm(partitions) {
		releases.Go(r.b.Partition("t", int32(i)).Release)
	}
	for i, id := range want {
		if got, _ := w.answer(); got != id {
			t.Fatalf("answer %d is to request %d, want %d", i, got, id)
		}
	}
	releases.Wait()
}

// Many connections pipeline; each sees its own order, each record once and in the order it was sent.
func TestPipelinesOfManyConnections(t *testing.T) {
	r := start(t)
	const conns, requests = 8, 60
	r.b.CreateTopic("t", conns, 1)
	var wg sync.WaitGroup
	for c := range int32(conns) {
		w := r.dial()
		wg.Go(func() {
			for i := range requests {
				w.next++
				req := produceTo(9, -1, "t", c, batch(-1, -1, -1, fmt.Sprint(i)))
				w.sent[w.next] = req
				w.nc.Write(frame(req, w.next))
			}
		})
		wg.Go(func() {
			for i := range int64(requests) {
				id, body, err := w.receive()
				if err != nil || id != int32(i)+1 {
					t.Errorf("connection %d, answer %d: id %d, %v", c, i, id, err)
					return
				}
				resp := kmsg.NewPtrProduceResponse()
				resp.Version = 9
				if err := resp.ReadFrom(body[1:]); err != nil || resp.Topics[0].Partitions[0].BaseOffset != i {
					t.Errorf("connection %d, answer %d: %+v, %v", c, i, resp, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A full window stops the reader and loses nothing.
func TestWindowIsBackpressure(t *testing.T) {
	r := start(t, func(c *kafka.Config) { c.PendingMax = 4 })
	r.b.CreateTopic("t", 1, 1)
	p := r.b.Partition("t", 0)
	p.Hold()
	w := r.dial()
	const n = 40
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i := range int32(n) {
			w.nc.Write(frame(produceTo(9, -1, "t", 0, batch(-1, -1, -1, "v")), i+1))
		}
	}()
	// The reader takes PendingMax requests and one more, which it cannot place.
	waitFor(t, func() bool { return p.End() >= 4 })
	if end := p.End(); end > 6 {
		t.Errorf("%d requests were started with a window of 4", end)
	}
	p.Release()
	for i := range int32(n) {
		id, _, err := w.receive()
		if err != nil || id != i+1 {
			t.Fatalf("answer %d: id %d, %v", i, id, err)
		}
	}
	<-sent
}

// Without acks there is no answer, and answers to what follows are not disturbed.
func TestProduceWithoutAcks(t *testing.T) {
	r := start(t)
	r.b.CreateTopic("t", 1, 1)
	w := r.dial()
	for range 3 {
		w.send(produceTo(9, 0, "t", 0, batch(-1, -1, -1, "v")))
	}
	do[*kmsg.ListOffsetsResponse](w, at(kmsg.NewPtrListOffsetsRequest(), 4))
	if got := r.b.Partition("t", 0).End(); got != 3 {
		t.Errorf("%d records were appended, want 3", got)
	}

	// A failure closes the connection, after what was asked before has been answered.
	id := w.send(at(kmsg.NewPtrListOffsetsRequest(), 4))
	w.send(produceTo(9, 0, "nowhere", 0, batch(-1, -1, -1, "v")))
	if got, _ := w.answer(); got != id {
		t.Errorf("answer to %d, want %d", got, id)
	}
	if !w.isClosed() {
		t.Error("the connection is open after a failed produce without acks")
	}
	if r.closes("produce without acknowledgement failed") != 1 {
		t.Error("the close was not counted")
	}
}

// acks=all is decided as broker.md says, each case on one partition.
func TestProduceVerdicts(t *testing.T) {
	r := start(t)
	r.b.CreateTopic("t", 1, 1)
	p := r.b.Partition("t", 0)
	w := r.dial()
	produce := func(acks int16, timeoutMillis int32, records []byte) kmsg.ProduceResponseTopicPartition {
		req := produceTo(9, acks, "t", 0, records)
		req.TimeoutMillis = timeoutMillis
		return do[*kmsg.ProduceResponse](w, req).Topics[0].Partitions[0]
	}
	ok := batch(-1, -1, -1, "v")
	bad := batch(-1, -1, -1, "v")
	bad[len(bad)-1]++
	two := append(batch(-1, -1, -1, "a"), batch(-1, -1, -1, "b")...)
	for _, c := range []struct {
		name    string
		acks    int16
		records []byte
		want    int16
	}{
		{"acks 1", 1, ok, 0},
		{"acks all", -1, ok, 0},
		{"acks 2", 2, ok, kerr.InvalidRequiredAcks.Code},
		{"flipped byte", 1, bad, kerr.CorruptMessage.Code},
		{"two batches", 1, two, kerr.InvalidRecord.Code},
		{"no bytes", 1, nil, kerr.InvalidRecord.Code},
		{"too large", 1, batch(-1, -1, -1, string(make([]byte, 2<<20))), kerr.MessageTooLarge.Code},
	} {
		end := p.End()
		got := produce(c.acks, 1000, c.records)
		if got.ErrorCode != c.want {
			t.Errorf("%s: code %d, want %d", c.name, got.ErrorCode, c.want)
		}
		if c.want != 0 && (p.End() != end || got.BaseOffset != -1 || got.ErrorMessage == nil && c.want != kerr.InvalidRequiredAcks.Code) {
			t.Errorf("%s: appended %d records, answer %+v", c.name, p.End()-end, got)
		}
	}
	p.SetISR(1, 2)
	end := p.End()
	if got := produce(-1, 1000, batch(-1, -1, -1, "v")); got.ErrorCode != kerr.NotEnoughReplicas.Code || p.End() != end {
		t.Errorf("small ISR: code %d, %d appended", got.ErrorCode, p.End()-end)
	}
	if got := produce(1, 1000, batch(-1, -1, -1, "v")); got.ErrorCode != 0 {
		t.Errorf("small ISR, acks 1: code %d", got.ErrorCode)
	}
	p.SetISR(2, 2)
	p.Hold()
	end = p.End()
	if got := produce(-1, 1, batch(-1, -1, -1, "v")); got.ErrorCode != kerr.RequestTimedOut.Code || p.End() != end+1 {
		t.Errorf("watermark stands still: code %d, %d appended", got.ErrorCode, p.End()-end)
	}
}

// A produce that waits ends when its partition changes, with the reason for the change.
func TestWaitingProduceEnds(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(r *rig)
		want   int16
	}{
		{"watermark moves", func(r *rig) { r.b.Partition("t", 0).Release() }, 0},
		{"leadership lost", func(r *rig) { r.b.SetLeader("t", 0, 2) }, kerr.NotLeaderForPartition.Code},
		{"leadership lost and regained", func(r *rig) {
			r.b.SetLeader("t", 0, 2)
			r.b.SetLeader("t", 0, 1)
			r.b.Partition("t", 0).Release()
		}, kerr.NotLeaderForPartition.Code},
		{"ISR too small after the append", func(r *rig) {
			r.b.Partition("t", 0).SetISR(1, 2)
			r.b.Partition("t", 0).Release()
		}, kerr.NotEnoughReplicasAfterAppend.Code},
		{"topic deleted", func(r *rig) {
			w := r.dial()
			req := at(kmsg.NewPtrDeleteTopicsRequest(), 5)
			req.TopicNames, req.TimeoutMillis = []string{"t"}, 1000
			do[*kmsg.DeleteTopicsResponse](w, req)
		}, kerr.NotLeaderForPartition.Code},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t)
			r.b.CreateTopic("t", 1, 1, 2)
			p := r.b.Partition("t", 0)
			p.Hold()
			w := r.dial()
			id := w.send(produceTo(9, -1, "t", 0, batch(-1, -1, -1, "v")))
			waitFor(t, func() bool { return p.End() == 1 })
			c.change(r)
			got, resp := w.answer()
			code := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
			if got != id || code != c.want {
				t.Errorf("answer to %d with code %d, want %d", got, code, c.want)
			}
		})
	}
}

// A fetch that waits ends when its partition changes hands or goes, with the code that its leader epoch calls for.
func TestWaitingFetchEnds(t *testing.T) {
	moves := func(r *rig) { r.b.SetLeader("t", 0, 2) }
	for _, c := range []struct {
		name    string
		version int16 // below 11 a consumer reads from leaders only (KIP-392)
		epoch   int32 // -1: none
		change  func(r *rig)
		want    int16
	}{
		{"leadership lost, no epoch", 10, -1, moves, kerr.NotLeaderForPartition.Code},
		{"leadership lost, with epoch", 11, 0, moves, kerr.FencedLeaderEpoch.Code},
		{"topic deleted", 11, -1, func(r *rig) {
			req := at(kmsg.NewPtrDeleteTopicsRequest(), 5)
			req.TopicNames, req.TimeoutMillis = []string{"t"}, 1000
			do[*kmsg.DeleteTopicsResponse](r.dial(), req)
		}, kerr.NotLeaderForPartition.Code},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.b.CreateTopic("t", 1, 1, 2)
				w := r.dial()
				req := fetchFrom(c.version, "t", 0, 0, 60_000)
				req.Topics[0].Partitions[0].CurrentLeaderEpoch = c.epoch
				id := w.send(req)
				synctest.Wait()
				began := time.Now()
				c.change(r)
				got, resp := w.answer()
				code := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode
				if took := time.Since(began); got != id || code != c.want || took != 0 {
					t.Errorf("answer to %d after %v with code %d, want %d", got, took, code, c.want)
				}
			})
		})
	}
}
