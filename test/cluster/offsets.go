package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// EndOffsets is the high watermark of each partition.
func (c *Cluster) EndOffsets(t testing.TB, topic string) map[int32]int64 {
	t.Helper()
	client := c.Client(t)
	defer client.Close()
	ends := map[int32]int64{}
	Eventually(t, 60*time.Second, "end offsets of "+topic, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		listed, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
		if err != nil {
			return err
		}
		if err := listed.Error(); err != nil {
			return err
		}
		listed.Each(func(o kadm.ListedOffset) { ends[o.Partition] = o.Offset })
		return nil
	})
	return ends
}
