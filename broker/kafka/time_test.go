package kafka_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quorate/quorate/broker/kafka"
	"github.com/quorate/quorate/quorum/env/envtest"
)

// inBubble runs a test over a network in memory, in virtual time.
func inBubble(t *testing.T, test func(t *testing.T, r *rig), change ...func(*kafka.Config)) {
	synctest.Test(t, func(t *testing.T) {
		n := envtest.NewNetwork()
		r := startOn(t, n.Host("broker"), "10.0.0.1:9092", change...)
		r.network = n.Host("client")
		test(t, r)
	})
}

// A quiet connection is closed, after the idle time and not before, and never while a request is pending.
func TestIdleConnections(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.b.CreateTopic("t", 1, 1)
		w := r.dial()
		began := time.Now()
		do[*kmsg.ApiVersionsResponse](w, at(kmsg.NewPtrApiVersionsRequest(), 0))
		time.Sleep(9 * time.Minute)
		do[*kmsg.ApiVersionsResponse](w, at(kmsg.NewPtrApiVersionsRequest(), 0))
		time.Sleep(9 * time.Minute)
		if r.closes("idle") != 0 {
			t.Fatal("closed although it was used 9 minutes ago")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if r.closes("idle") != 1 {
			t.Errorf("not closed after %v, 11 minutes of them idle", time.Since(began))
		}
	})
}

func TestPendingRequestKeepsTheConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.b.CreateTopic("t", 1, 1)
		r.b.Partition("t", 0).Hold()
		w := r.dial()
		req := produceTo(9, -1, "t", 0, batch(-1, -1, -1, "v"))
		req.TimeoutMillis = 1<<31 - 1 // the listener's own bound is 5 minutes
		w.send(req)
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		if r.closes("idle") != 0 {
			t.Fatal("closed with a pending request")
		}
		r.b.Partition("t", 0).Release()
		if _, resp := w.answer(); resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode != 0 {
			t.Errorf("the answer: %+v", resp)
		}
		time.Sleep(50 * time.Second)
		synctest.Wait()
		if r.closes("idle") != 0 {
			t.Error("the time with a pending request was counted as idle")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if r.closes("idle") != 1 {
			t.Error("not closed when idle afterwards")
		}
	}, func(c *kafka.Config) { c.IdleMax = time.Minute })
}

// A peer that begins a request and stalls is cut off; so is one that takes no answers. Others are not held up.
func TestStalledPeers(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		slow := r.dial()
		slow.write(frame(at(kmsg.NewPtrMetadataRequest(), 1), 1)[:9])
		silent := r.dial()
		silent.write([]byte{0, 0})
		big := r.dial()
		big.write([]byte{5, 0, 0, 0, 0, 0}) // announces 80 MiB
		synctest.Wait()
		do[*kmsg.ApiVersionsResponse](r.dial(), at(kmsg.NewPtrApiVersionsRequest(), 0))
		time.Sleep(29 * time.Second)
		if n := r.closes("stalled"); n != 0 {
			t.Fatalf("%v closed before StallMax", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := r.closes("stalled"); n != 3 {
			t.Errorf("%v of 3 stalled peers were closed", n)
		}
	})
}

func TestPeerThatTakesNoAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.b.CreateTopic("t", 1, 1)
		p := produceTo(9, 1, "t", 0, batch(-1, -1, -1, string(make([]byte, 900<<10))))
		feeder := r.dial()
		for range 8 {
			do[*kmsg.ProduceResponse](feeder, p)
		}
		w := r.dial()
		for range 8 { // 7 MiB of answers, none is read
			w.send(fetchFrom(11, "t", 0, 0, 0))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := r.closes("stalled"); n != 1 {
			t.Errorf("a peer that reads nothing: %v closed", n)
		}
	})
}

// A fetch waits for min bytes until max wait is over, and no longer than the first record.
func TestLongPoll(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.b.CreateTopic("t", 1, 1)
		w, feeder := r.dial(), r.dial()
		began := time.Now()
		resp := do[*kmsg.FetchResponse](w, fetchFrom(11, "t", 0, 0, 500))
		if took := time.Since(began); took != 500*time.Millisecond || len(resp.Topics[0].Partitions[0].RecordBatches) != 0 {
			t.Errorf("an empty fetch took %v: %+v", took, resp)
		}
		began = time.Now()
		w.send(fetchFrom(11, "t", 0, 0, 5000))
		time.Sleep(time.Second)
		do[*kmsg.ProduceResponse](feeder, produceTo(9, 1, "t", 0, batch(-1, -1, -1, "v")))
		_, got := w.answer()
		if took := time.Since(began); took != time.Second || len(got.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches) == 0 {
			t.Errorf("a fetch was answered after %v: %+v", took, got)
		}
		// min bytes beyond what is there waits for the rest of the time, and gives what is there.
		req := fetchFrom(11, "t", 0, 0, 2000)
		req.MinBytes = 10_000
		began = time.Now()
		resp = do[*kmsg.FetchResponse](w, req)
		if took := time.Since(began); took != 2*time.Second || len(resp.Topics[0].Partitions[0].RecordBatches) == 0 {
			t.Errorf("min bytes: answered after %v: %+v", took, resp)
		}
	})
}

// A stopping listener answers what is pending, gives up after its bound, and ends its goroutines.
func TestShutdownAnswersWhatIsPending(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.b.CreateTopic("t", 1, 1)
		r.b.Partition("t", 0).Hold()
		fetcher, producer, stuck := r.dial(), r.dial(), r.dial()
		fetcher.send(fetchFrom(11, "t", 0, 0, 60_000))
		producer.send(produceTo(9, -1, "t", 0, batch(-1, -1, -1, "v")))
		idle := r.dial()
		_ = stuck
		synctest.Wait()
		began := time.Now()
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			r.stop()
		}()
		if _, resp := fetcher.answer(); resp.(*kmsg.FetchResponse).ErrorCode != 0 {
			t.Errorf("the waiting fetch: %+v", resp)
		}
		if !idle.isClosed() {
			t.Error("an idle connection stayed open")
		}
		time.Sleep(time.Second)
		r.b.Partition("t", 0).Release()
		if _, resp := producer.answer(); resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode != 0 {
			t.Errorf("the waiting produce: %+v", resp)
		}
		<-stopped
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the shutdown took %v", took)
		}
		if _, err := r.network.Dial(t.Context(), r.addr); err == nil {
			t.Error("a stopped listener accepts")
		}
	})
}

func TestShutdownIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.b.CreateTopic("t", 1, 1)
		r.b.Partition("t", 0).Hold()
		w := r.dial()
		w.send(produceTo(9, -1, "t", 0, batch(-1, -1, -1, "v")))
		synctest.Wait()
		began := time.Now()
		r.stop()
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("the shutdown took %v, its bound is 5 s", took)
		}
	})
}

// A create whose answer does not come in time may have been made: REQUEST_TIMED_OUT, not a failure.
func TestCreateThatIsNotAppliedInTime(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.b.Applied = func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		req := at(kmsg.NewPtrCreateTopicsRequest(), 7)
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "late", 1, 1
		req.Topics, req.TimeoutMillis = append(req.Topics, topic), 3000
		began := time.Now()
		resp := do[*kmsg.CreateTopicsResponse](r.dial(), req)
		if took := time.Since(began); took != 3*time.Second || resp.Topics[0].ErrorCode != kerr.RequestTimedOut.Code {
			t.Errorf("after %v: %+v", took, resp.Topics[0])
		}
	})
}
