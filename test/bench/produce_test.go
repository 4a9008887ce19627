package bench

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/quorate/quorate/test/cluster"
)

const (
	// produceRound is how long each side of a round produces.
	produceRound = 2 * time.Second
	// recordBytes is the size of a record's value.
	recordBytes = 1024
	// recordsBuffered is how many records the client holds for partitions at once.
	recordsBuffered = 4096
)

// producers are the same client twice: acks=all to three replicas, and acks=1 to one.
type producers struct {
	all, one *kgo.Client
	value    []byte
}

func startProducers(b *testing.B) *producers {
	b.Helper()
	c := cluster.Start(b, cluster.Options{})
	c.Must(b, "topic", "create", "all", "--partitions", "6", "--replication-factor", "3")
	c.Must(b, "topic", "create", "one", "--partitions", "6", "--replication-factor", "1")
	c.WholeISRs(b, time.Minute)
	p := &producers{value: make([]byte, recordBytes)}
	_, _ = rand.Read(p.value)
	options := []kgo.Opt{
		kgo.DisableIdempotentWrite(), kgo.MaxBufferedRecords(recordsBuffered), kgo.ProducerBatchCompression(kgo.NoCompression()),
	}
	p.all = c.Client(b, append(options, kgo.DefaultProduceTopic("all"), kgo.RequiredAcks(kgo.AllISRAcks()))...)
	p.one = c.Client(b, append(options, kgo.DefaultProduceTopic("one"), kgo.RequiredAcks(kgo.LeaderAck()))...)
	return p
}

// BenchmarkProduceMany is acknowledged records of 1 KiB a second, acks=all and RF 3, beside acks=1 and RF 1.
func BenchmarkProduceMany(b *testing.B) {
	p := startProducers(b)
	p.flood(b, p.all)
	p.flood(b, p.one)
	var rounds Rounds
	for b.Loop() {
		rounds.Add(p.flood(b, p.all), p.flood(b, p.one))
	}
	rounds.Report(b)
}

// flood produces as fast as the client takes records, and gives those acknowledged a second.
func (p *producers) flood(b *testing.B, client *kgo.Client) float64 {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var acknowledged, failed atomic.Int64
	began := time.Now()
	for time.Since(began) < produceRound {
		client.Produce(ctx, &kgo.Record{Value: p.value}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Add(1)
				return
			}
			acknowledged.Add(1)
		})
	}
	if err := client.Flush(ctx); err != nil || failed.Load() > 0 {
		b.Fatalf("%d records failed, flush: %v", failed.Load(), err)
	}
	return float64(acknowledged.Load()) / time.Since(began).Seconds()
}

// BenchmarkProduceOne is the median time of one record of 1 KiB alone, in milliseconds, acks=all and RF 3, beside acks=1
// and RF 1.
func BenchmarkProduceOne(b *testing.B) {
	p := startProducers(b)
	p.singly(b, p.all)
	p.singly(b, p.one)
	var rounds Rounds
	for b.Loop() {
		rounds.Add(p.singly(b, p.all), p.singly(b, p.one))
	}
	rounds.Report(b)
}

// singly produces a record when the one before is acknowledged, and gives the middle time in milliseconds.
func (p *producers) singly(b *testing.B, client *kgo.Client) float64 {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var took []float64
	for began := time.Now(); time.Since(began) < produceRound; {
		sent := time.Now()
		if err := client.ProduceSync(ctx, &kgo.Record{Value: p.value}).FirstErr(); err != nil {
			b.Fatal(err)
		}
		took = append(took, milliseconds(time.Since(sent)))
	}
	return Median(took)
}
