package bench

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/test/cluster"
)

// failoverWait bounds what follows a kill: the first change, and the return of the killed one.
const failoverWait = 60 * time.Second

// BenchmarkFailover kills the active controller, a real process, and tells how long it took until a client that lives on had
// a change committed by the next one, in milliseconds, beside bare hashicorp/raft whose leader is stopped.
// An iteration is a kill.
func BenchmarkFailover(b *testing.B) {
	c := cluster.Start(b, cluster.Options{})
	controllers, err := client.New(client.Config{Network: env.OS("").Network, Controllers: c.Controllers, ClusterID: c.ClusterID})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = controllers.Close() })
	bare, err := OpenBare(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = bare.Close() })
	var rounds Rounds
	var all []float64
	for n := 0; b.Loop(); n++ {
		ours := milliseconds(killActive(b, c, controllers, n))
		reference, err := bare.Failover()
		if err != nil {
			b.Fatal(err)
		}
		rounds.Add(ours, milliseconds(reference))
		all = append(all, ours)
	}
	rounds.Report(b)
	b.ReportMetric(quantile(all, 0), "measured-min")
	b.ReportMetric(quantile(all, 100), "measured-max")
}

// killActive kills the active controller, times the first change of the next one, and starts the killed one again.
func killActive(b *testing.B, c *cluster.Cluster, controllers *client.Client, n int) time.Duration {
	b.Helper()
	create(b, controllers, fmt.Sprintf("before-%d", n), 0) // the client follows the active controller
	active, ok := controllers.Cached()
	if !ok {
		b.Fatal("the client follows nobody")
	}
	began := time.Now()
	c.Signal(b, int(active.ID), syscall.SIGKILL)
	create(b, controllers, fmt.Sprintf("after-%d", n), active.ControllerEpoch)
	took := time.Since(began)
	c.Restart(b, int(active.ID))
	cluster.Eventually(b, failoverWait, "three controllers hold the same", func() error {
		q, err := c.Quorum(b)
		if err != nil {
			return err
		}
		for _, node := range q.Nodes {
			if node.MetadataOffset != q.MetadataOffset {
				return fmt.Errorf("%+v", q.Nodes)
			}
		}
		return nil
	})
	return took
}

// create creates a topic of one partition, until it is committed under a higher controller epoch than the one given.
func create(b *testing.B, controllers *client.Client, name string, above uint64) {
	b.Helper()
	api := controllerpb.NewOperatorApiClient(controllers)
	ctx, cancel := context.WithTimeout(context.Background(), failoverWait)
	defer cancel()
	for try := 0; ; try++ {
		partitions, factor := int32(1), int32(1)
		_, err := api.CreateTopics(ctx, &controllerpb.CreateTopicsRequest{Topics: []*controllerpb.CreatableTopic{{
			Name: fmt.Sprintf("%s-%d", name, try), Partitions: &partitions, ReplicationFactor: &factor,
		}}})
		if active, ok := controllers.Cached(); err == nil && ok && active.ControllerEpoch > above {
			return
		}
		if ctx.Err() != nil {
			b.Fatalf("create %s: %v", name, err)
		}
	}
}
