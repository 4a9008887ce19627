package chaos

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/quorate/quorate/test/cluster"
)

const (
	// churnPause is between two topics that come and go: some twenty records a second, a snapshot each ten seconds.
	churnPause = 100 * time.Millisecond
	// churnKept is how many of them exist at a time.
	churnKept = 10
)

// StartChurn lets topics come and go until the test ends, so that the metadata log grows, snapshots are taken, and a
// controller that was away long enough has to install one. Whether a request gets through amid the faults is not the
// question here. It returns a function that stops it and tells how many creations were acknowledged.
func StartChurn(t testing.TB, c *cluster.Cluster) (stop func() int) {
	t.Helper()
	client := c.Client(t)
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	n := 0
	done.Go(func() {
		admin := kadm.NewClient(client)
		tick := time.NewTicker(churnPause)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			call, end := context.WithTimeout(ctx, 3*time.Second)
			if _, err := admin.CreateTopic(call, 2, 3, nil, fmt.Sprintf("churn-%d", i)); err == nil {
				n++
			}
			if i >= churnKept {
				_, _ = admin.DeleteTopic(call, fmt.Sprintf("churn-%d", i-churnKept))
			}
			end()
		}
	})
	stop = func() int {
		cancel()
		done.Wait()
		return n
	}
	t.Cleanup(func() { stop() })
	return stop
}
