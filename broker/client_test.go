package broker

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A franz-go client produces idempotently with acks=all to two brokers and reads the same records back, while the
// leader stops in order in the middle.
func TestClientProducesAndConsumesAcrossAHandOver(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		network, q := startQuorum(t)
		b1, b2 := startBroker(t, network, 1, dirs[0]), startBroker(t, network, 2, dirs[1])
		awaitReady(t, b1, b2)
		q.put(topicRecord("orders", 1), partitionRecord(1, 0, 1, 1, 2))
		host := network.Host("client")
		cl, err := kgo.NewClient(
			kgo.SeedBrokers("b2:9092"), kgo.DefaultProduceTopic("orders"), kgo.ConsumeTopics("orders"),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.ProducerBatchCompression(kgo.Lz4Compression()),
			kgo.Dialer(func(ctx context.Context, _, address string) (net.Conn, error) { return host.Dial(ctx, address) }),
		)
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		var want []string
		for i := range 300 {
			value := fmt.Sprintf("order %d", i)
			want = append(want, value)
			if err := cl.ProduceSync(t.Context(), kgo.StringRecord(value)).FirstErr(); err != nil {
				t.Fatalf("record %d: %v", i, err)
			}
			if i == 150 {
				go b1.stop()
			}
		}
		var got []string
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for len(got) < len(want) {
			fetches := cl.PollFetches(ctx) // the stopped broker shows as an error, and the client goes on elsewhere
			if ctx.Err() != nil {
				t.Errorf("read %d of %d records: %v", len(got), len(want), fetches.Err())
				break
			}
			fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("records (-want +got):\n%s", d)
		}
		b1.end(t)
		b2.end(t)
	})
}
