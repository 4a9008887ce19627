package kafka_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/quorate/quorate/broker/kafka"
	"github.com/quorate/quorate/broker/kafka/kafkatest"
)

// franz is a franz-go client, unmodified.
func franz(t *testing.T, r *rig, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(r.addr), kgo.RetryTimeout(10 * time.Second)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// The default client, which is idempotent, produces with every codec and reads all back in order; the codec is that
// of the stored batch.
func TestFranzProducesAndConsumes(t *testing.T) {
	for codec, c := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		t.Run(fmt.Sprint("codec ", codec), func(t *testing.T) {
			r := start(t)
			r.b.CreateTopic("t", 3, 1)
			ctx := within(t)
			producer := franz(t, r, kgo.ProducerBatchCompression(c), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(16<<10))
			const n = 3000
			for i := range n {
				producer.Produce(ctx, &kgo.Record{Topic: "t", Partition: int32(i % 3), Value: compressible(i)}, func(rec *kgo.Record, err error) {
					if err != nil {
						t.Errorf("record %d: %v", i, err)
					}
				})
			}
			if err := producer.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			for p := range int32(3) {
				for _, b := range r.b.Partition("t", p).Batches() {
					if int(b.Codec()) != codec {
						t.Fatalf("a stored batch has codec %d", b.Codec())
					}
					if b.ProducerID() < 0 {
						t.Fatal("a stored batch has no producer id: the client does not think itself idempotent")
					}
				}
			}
			next := []int{0, 1, 2}
			consume(t, r, n, func(rec *kgo.Record) {
				if want := compressible(next[rec.Partition]); !bytes.Equal(rec.Value, want) {
					t.Errorf("partition %d offset %d: %q, want %q", rec.Partition, rec.Offset, rec.Value, want)
				}
				next[rec.Partition] += 3
			})
		})
	}
}

// compressible is a value that a codec makes smaller even alone: the client keeps what a codec would make larger.
func compressible(i int) []byte {
	return fmt.Appendf(nil, "%s %d", strings.Repeat("again and ", 20), i)
}

func consume(t *testing.T, r *rig, n int, each func(*kgo.Record)) {
	t.Helper()
	ctx := within(t)
	consumer := franz(t, r, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond))
	for got := 0; got < n; {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d of %d records: %v", got, n, err)
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			got++
			each(rec)
		})
	}
}

func TestFranzAcks(t *testing.T) {
	for name, opt := range map[string][]kgo.Opt{
		"none":   {kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite()},
		"leader": {kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t)
			r.b.CreateTopic("t", 1, 1)
			cl := franz(t, r, opt...)
			if err := cl.ProduceSync(within(t), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			waitFor(t, func() bool { return r.b.Partition("t", 0).End() == 1 })
		})
	}
}

// A leadership that comes back after a while, and an ISR that shrinks and grows, cost no record and double none.
func TestFranzSurvivesRefusals(t *testing.T) {
	r := start(t)
	r.b.CreateTopic("t", 1, 1)
	ctx := within(t)
	cl := franz(t, r, kgo.MetadataMinAge(10*time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }),
		kgo.ProducerBatchMaxBytes(1<<10), kgo.ProducerLinger(0))
	const n = 400
	for i := range n {
		switch i {
		case 100:
			r.b.SetLeader("t", 0, -1)
		case 150:
			r.b.SetLeader("t", 0, 1)
		case 200:
			r.b.Partition("t", 0).SetISR(1, 2)
		case 250:
			r.b.Partition("t", 0).SetISR(2, 2)
		}
		cl.Produce(ctx, &kgo.Record{Topic: "t", Value: fmt.Append(nil, i)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Errorf("record %d: %v", i, err)
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	consume(t, r, n, func(rec *kgo.Record) { seen[string(rec.Value)]++ })
	if len(seen) != n || r.b.Partition("t", 0).End() != n {
		t.Errorf("%d different records of %d sent, log end %d", len(seen), n, r.b.Partition("t", 0).End())
	}
}

func TestFranzAdmin(t *testing.T) {
	r := start(t)
	ctx := within(t)
	adm := kadm.NewClient(franz(t, r))
	value := "86400000"
	created, err := adm.CreateTopic(ctx, 3, 1, map[string]*string{"retention.ms": &value}, "orders")
	if err != nil || created.NumPartitions != 3 || created.ID == (kadm.TopicID{}) || created.Configs["retention.ms"].Source.String() != "DYNAMIC_TOPIC_CONFIG" {
		t.Fatalf("create: %+v, %v", created, err)
	}
	if _, err := adm.CreateTopic(ctx, 3, 1, nil, "orders"); !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Errorf("create again: %v", err)
	}
	if _, err := adm.CreateTopic(ctx, 1, 3, nil, "wide"); !errors.Is(err, kerr.InvalidReplicationFactor) {
		t.Errorf("create with too many replicas: %v", err)
	}
	topics, err := adm.ListTopics(ctx)
	if err != nil || !slices.Equal(topics.Names(), []string{"orders"}) || len(topics["orders"].Partitions) != 3 || topics["orders"].Partitions[2].Leader != 1 {
		t.Errorf("list: %+v, %v", topics, err)
	}
	meta, err := adm.BrokerMetadata(ctx)
	if err != nil || meta.Controller != 1 || meta.Cluster != kafkatest.ClusterID || len(meta.Brokers) != 1 {
		t.Errorf("brokers: %+v, %v", meta, err)
	}
	configs, err := adm.DescribeTopicConfigs(ctx, "orders")
	if err != nil || len(configs) != 1 || configs[0].Err != nil {
		t.Fatalf("describe configs: %+v, %v", configs, err)
	}
	if i := slices.IndexFunc(configs[0].Configs, func(c kadm.Config) bool { return c.Key == "retention.ms" }); *configs[0].Configs[i].Value != value {
		t.Errorf("described: %+v", configs[0].Configs[i])
	}
	if broker, err := adm.DescribeBrokerConfigs(ctx, 1); err != nil || broker[0].Err != nil || len(broker[0].Configs) == 0 {
		t.Errorf("describe broker configs: %+v, %v", broker, err)
	}
	ends, err := adm.ListEndOffsets(ctx, "orders")
	if err != nil || ends["orders"][0].Offset != 0 {
		t.Errorf("end offsets: %+v, %v", ends, err)
	}
	deleted, err := adm.DeleteTopics(ctx, "orders", "nope")
	if err != nil || deleted["orders"].Err != nil || !errors.Is(deleted["nope"].Err, kerr.UnknownTopicOrPartition) {
		t.Errorf("delete: %+v, %v", deleted, err)
	}
}

func TestFranzOverTLS(t *testing.T) {
	server, client := kafkatest.TLS(t)
	r := start(t, func(c *kafka.Config) { c.TLS = server })
	r.b.CreateTopic("t", 1, 1)
	dialer := &tls.Dialer{Config: client}
	cl := franz(t, r, kgo.Dialer(dialer.DialContext))
	if err := cl.ProduceSync(within(t), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}
