package kafka_test

import (
	"encoding/binary"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quorate/quorate/broker/kafka"
)

// unfinished begins a request of 1 MiB and sends no more than the given bytes of it.
func (r *rig) unfinished(sent int) {
	w := r.dial()
	b := append(binary.BigEndian.AppendUint32(nil, 1<<20), make([]byte, sent)...)
	go w.nc.Write(b) // ends with the connection: what is not read is held up
}

func smallBudget(c *kafka.Config) { c.BufferedBytesMax = 2 << 20 }

// Peers that announce much and send little take nothing from anyone: an announced size is not a reservation.
func TestAnnouncedBytesReserveNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.b.CreateTopic("t", 1, 1)
		for range 140 {
			r.unfinished(10)
		}
		synctest.Wait()
		w := r.dial()
		began := time.Now()
		do[*kmsg.ApiVersionsResponse](w, at(kmsg.NewPtrApiVersionsRequest(), 0))
		do[*kmsg.ProduceResponse](w, produceTo(9, 1, "t", 0, batch(-1, -1, -1, strings.Repeat("x", 900<<10))))
		if took := time.Since(began); took != 0 {
			t.Errorf("requests waited %v for peers that stall", took)
		}
		time.Sleep(29 * time.Second)
		if n := r.closes("stalled"); n != 0 {
			t.Errorf("%v closed before StallMax although nobody waited", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := r.closes("stalled"); n != 140 {
			t.Errorf("%v of 140 stalled peers were closed", n)
		}
	}, smallBudget)
}

// Peers that fill the budget and stall are closed when a request has waited a second for them, and small requests do
// not wait at all.
func TestStalledPeersGiveWayToThoseWhoWait(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.b.CreateTopic("t", 1, 1)
		for range 40 {
			r.unfinished(300 << 10)
		}
		time.Sleep(time.Millisecond) // all of them have what they can get
		synctest.Wait()
		w := r.dial()
		began := time.Now()
		do[*kmsg.ApiVersionsResponse](w, at(kmsg.NewPtrApiVersionsRequest(), 0))
		if took := time.Since(began); took != 0 {
			t.Errorf("a small request waited %v", took)
		}
		resp := do[*kmsg.ProduceResponse](w, produceTo(9, 1, "t", 0, batch(-1, -1, -1, strings.Repeat("x", 100<<10))))
		if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
			t.Errorf("the produce: code %d", code)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("a produce waited %v", took)
		}
		if n := r.closes("stalled"); n == 0 {
			t.Error("nobody was closed as stalled")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := r.closes("stalled"); n != 40 {
			t.Errorf("%v of 40 stalled peers were closed", n)
		}
		do[*kmsg.ApiVersionsResponse](w, at(kmsg.NewPtrApiVersionsRequest(), 0))
	}, smallBudget)
}

// A request must arrive whole within StallMax: a byte now and then buys no time, nor does a larger buffer.
func TestTricklingPeerHasOneStallMax(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		w := r.dial()
		w.write(binary.BigEndian.AppendUint32(nil, 4<<20))
		w.nc.SetWriteDeadline(time.Time{})
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			for {
				if _, err := w.nc.Write(make([]byte, 40<<10)); err != nil { // grows its buffer until shortly before StallMax
					return
				}
				time.Sleep(time.Second)
			}
		}()
		began := time.Now()
		<-gone
		if took := time.Since(began); took < 29*time.Second || took > 32*time.Second || r.closes("stalled") != 1 {
			t.Errorf("closed after %v, %v as stalled", took, r.closes("stalled"))
		}
	})
}

// A request that waits for data, or for the controller, holds no buffer: it has been decoded.
func TestLongPollsHoldNoBuffer(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.b.CreateTopic("t", 1, 1)
		for range 8 {
			poll := at(kmsg.NewPtrFetchRequest(), 11)
			poll.MaxWaitMillis, poll.MinBytes, poll.MaxBytes = 20_000, 1, 1<<20
			topic := kmsg.NewFetchRequestTopic()
			topic.Topic = "t"
			partition := kmsg.NewFetchRequestTopicPartition()
			partition.PartitionMaxBytes = 1 << 20
			topic.Partitions = append(topic.Partitions, partition)
			poll.Topics = append(poll.Topics, topic)
			poll.Rack = strings.Repeat("r", 30<<10) // a buffer of its own
			for range 15 {
				poll.ForgottenTopics = append(poll.ForgottenTopics, kmsg.FetchRequestForgottenTopic{Topic: poll.Rack})
			}
			w := r.dial()
			w.send(poll)
		}
		synctest.Wait()
		w, began := r.dial(), time.Now()
		do[*kmsg.ProduceResponse](w, produceTo(9, 1, "t", 0, batch(-1, -1, -1, strings.Repeat("x", 900<<10))))
		if took := time.Since(began); took != 0 {
			t.Errorf("a produce waited %v for requests that wait themselves", took)
		}
	}, smallBudget)
}
