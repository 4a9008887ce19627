package quorum

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/fsm/image"
)

// stateCollector exposes how many partitions and replicas are in each state. All values of one scrape come from one
// image, and cost a look at each broker.
type stateCollector struct {
	image                func() *image.Image
	partitions, replicas *prometheus.Desc
}

func newStateCollector(current func() *image.Image) *stateCollector {
	return &stateCollector{
		image: current,
		partitions: prometheus.NewDesc("quorate_metadata_partition_states",
			"Partitions by state, those of deleted topics included until their data is gone everywhere.", []string{"state"}, nil),
		replicas: prometheus.NewDesc("quorate_metadata_replica_states",
			"Replicas by state, those of deleted topics included until their data is gone everywhere.", []string{"state"}, nil),
	}
}

// Describe is part of [prometheus.Collector].
func (c *stateCollector) Describe(to chan<- *prometheus.Desc) {
	to <- c.partitions
	to <- c.replicas
}

// Collect is part of [prometheus.Collector].
func (c *stateCollector) Collect(to chan<- prometheus.Metric) {
	counts := c.image().StateCounts()
	for s := image.PartitionOnline; s < image.PartitionStates; s++ {
		to <- prometheus.MustNewConstMetric(c.partitions, prometheus.GaugeValue, float64(counts.Partitions[s]), s.String())
	}
	for s := image.ReplicaNew; s < image.ReplicaStates; s++ {
		to <- prometheus.MustNewConstMetric(c.replicas, prometheus.GaugeValue, float64(counts.Replicas[s]), s.String())
	}
}
