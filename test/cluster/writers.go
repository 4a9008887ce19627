package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// WriterOptions configure the producers that run while nodes die.
type WriterOptions struct {
	// Name makes values unique when several sets of writers use one topic.
	Name string
	// Idempotent and Plain are numbers of producers of each kind; all use acks=all.
	Idempotent, Plain int
	// Pause is between two records of one producer. Default 2 ms.
	Pause time.Duration
	// Pad is the number of bytes that each value is made longer by.
	Pad int
	// BatchBytesMax bounds a batch, for topics with small segments. Default: the client's.
	BatchBytesMax int32
}

// Ack is one acknowledged record.
type Ack struct {
	Partition  int32
	Offset     int64
	Value      string
	Idempotent bool
	At         time.Time
}

// Writers produce unique values until they are stopped, and remember what was acknowledged.
type Writers struct {
	topic  string
	cancel context.CancelFunc
	done   sync.WaitGroup
	sent   atomic.Int64
	failed atomic.Int64

	mu   sync.Mutex
	acks []Ack
}

// Client makes a franz-go client of the cluster, closed when the test ends.
func (c *Cluster) Client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	base := []kgo.Opt{
		kgo.SeedBrokers(c.Kafka...),
		kgo.MetadataMinAge(200 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
	}
	client, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// StartWriters starts the producers.
func (c *Cluster) StartWriters(t testing.TB, topic string, o WriterOptions) *Writers {
	t.Helper()
	if o.Pause == 0 {
		o.Pause = 2 * time.Millisecond
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &Writers{topic: topic, cancel: cancel}
	for i := range o.Idempotent {
		w.run(ctx, c.Client(t, writerOpts(o)...), fmt.Sprintf("%sidem%d", o.Name, i), o, true)
	}
	for i := range o.Plain {
		w.run(ctx, c.Client(t, append(writerOpts(o), kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))...),
			fmt.Sprintf("%splain%d", o.Name, i), o, false)
	}
	t.Cleanup(func() { w.cancel(); w.done.Wait() })
	return w
}

func writerOpts(o WriterOptions) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0),
		kgo.RecordDeliveryTimeout(60 * time.Second),
		kgo.ProduceRequestTimeout(5 * time.Second),
	}
	if o.BatchBytesMax > 0 {
		opts = append(opts, kgo.ProducerBatchMaxBytes(o.BatchBytesMax))
	}
	return opts
}

func (w *Writers) run(ctx context.Context, client *kgo.Client, name string, o WriterOptions, idempotent bool) {
	w.done.Go(func() {
		tick := time.NewTicker(o.Pause)
		pad := strings.Repeat(".", o.Pad)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				flush, cancel := context.WithTimeout(context.Background(), 60*time.Second)
				defer cancel()
				_ = client.Flush(flush)
				return
			case <-tick.C:
			}
			value := fmt.Sprintf("%s-%08d%s", name, n, pad)
			w.sent.Add(1)
			// TryProduce does not block: with a partition that has no leader the buffer fills, and the rest is not sent.
			client.TryProduce(context.Background(), &kgo.Record{Topic: w.topic, Key: []byte(value[:len(value)-len(pad)]), Value: []byte(value)}, func(r *kgo.Record, err error) {
				if err != nil {
					w.failed.Add(1)
					return
				}
				w.mu.Lock()
				w.acks = append(w.acks, Ack{Partition: r.Partition, Offset: r.Offset, Value: value, Idempotent: idempotent, At: time.Now()})
				w.mu.Unlock()
			})
		}
	})
}

// Stop ends the producers and waits for what is under way.
func (w *Writers) Stop(t testing.TB) {
	t.Helper()
	w.cancel()
	w.done.Wait()
	t.Logf("%s: %d sent, %d acknowledged, %d failed", w.topic, w.sent.Load(), len(w.Acks()), w.failed.Load())
}

// Acks is what was acknowledged so far.
func (w *Writers) Acks() []Ack {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.acks)
}

// LongestGap is the longest time without an acknowledgement between two moments.
func (w *Writers) LongestGap(from, to time.Time) time.Duration {
	last, longest := from, time.Duration(0)
	acks := w.Acks()
	slices.SortFunc(acks, func(a, b Ack) int { return a.At.Compare(b.At) })
	for _, a := range acks {
		if a.At.Before(from) || a.At.After(to) {
			continue
		}
		longest = max(longest, a.At.Sub(last))
		last = a.At
	}
	return max(longest, to.Sub(last))
}

// VerifyAcknowledged reads the topic back and checks that each acknowledged value is at its offset, and that the
// values of idempotent producers stand there once.
func (c *Cluster) VerifyAcknowledged(t testing.TB, w *Writers) {
	t.Helper()
	at := map[Ack]bool{}
	count := map[string]int{}
	for _, r := range c.ReadAll(t, w.topic) {
		count[string(r.Value)]++
		at[Ack{Partition: r.Partition, Offset: r.Offset, Value: string(r.Value)}] = true
	}
	lost, twice := 0, 0
	for _, a := range w.Acks() {
		if !at[Ack{Partition: a.Partition, Offset: a.Offset, Value: a.Value}] {
			if lost++; lost <= 10 {
				t.Errorf("acknowledged %s at %s-%d offset %d, but it is not there", a.Value, w.topic, a.Partition, a.Offset)
			}
		}
		if a.Idempotent && count[a.Value] != 1 {
			if twice++; twice <= 10 {
				t.Errorf("%s of an idempotent producer stands %d times", a.Value, count[a.Value])
			}
		}
	}
	if lost+twice > 0 {
		t.Errorf("of %d acknowledged records %d are lost, %d not exactly once", len(w.Acks()), lost, twice)
	}
}

// ReadAll reads a topic from its beginning to the high watermarks it has now.
func (c *Cluster) ReadAll(t testing.TB, topic string, opts ...kgo.Opt) []*kgo.Record {
	t.Helper()
	client := c.Client(t, append([]kgo.Opt{kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}, opts...)...)
	defer client.Close()
	ends := c.EndOffsets(t, topic)
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	defer cancel()
	var records []*kgo.Record
	read := map[int32]int64{}
	behind := func() bool {
		for p, end := range ends {
			if read[p] < end {
				return true
			}
		}
		return false
	}
	for behind() {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("read %s: at %v of %v", topic, read, ends)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			records = append(records, r)
			read[r.Partition] = max(read[r.Partition], r.Offset+1)
		})
	}
	return records
}

// AwaitAcks waits until there are at least n acknowledgements.
func (w *Writers) AwaitAcks(t testing.TB, n int) {
	t.Helper()
	Eventually(t, 60*time.Second, "acknowledgements", func() error {
		if got := len(w.Acks()); got < n {
			return fmt.Errorf("%d of %d, %d failed", got, n, w.failed.Load())
		}
		return nil
	})
}
