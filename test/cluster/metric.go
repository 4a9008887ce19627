package cluster

import (
	"bufio"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// Metric is the sum of a metric over the controllers that answer.
func (c *Cluster) Metric(t testing.TB, name string) float64 {
	t.Helper()
	sum := 0.0
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	for _, n := range c.Nodes {
		if !slices.Contains(n.Roles, "controller") {
			continue
		}
		response, err := client.Get("http://" + n.Addresses["http"] + "/metrics")
		if err != nil {
			t.Logf("metrics of %d: %v", n.ID, err)
			continue
		}
		lines := bufio.NewScanner(response.Body)
		for lines.Scan() {
			if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
				var v float64
				if _, err := fmt.Sscan(value, &v); err == nil {
					sum += v
				}
			}
		}
		response.Body.Close()
	}
	return sum
}
