package broker

import "github.com/prometheus/client_golang/prometheus"

// partitionCollector counts the hosted partitions when it is asked.
type partitionCollector struct {
	replicas *replicas
	hosted, leaders, underReplicated, underMinISR,
	offline *prometheus.Desc
}

func newPartitionCollector(rs *replicas) *partitionCollector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("quorate_broker_partitions_"+name, help, nil, nil)
	}
	return &partitionCollector{
		replicas:        rs,
		hosted:          desc("hosted", "Partitions hosted here."),
		leaders:         desc("led", "Partitions led by this broker."),
		underReplicated: desc("under_replicated", "Partitions led here whose ISR lacks a replica."),
		underMinISR:     desc("under_min_isr", "Partitions led here whose ISR is below min.insync.replicas."),
		offline:         desc("offline", "Partitions whose log could not be opened here."),
	}
}

// Describe implements [prometheus.Collector].
func (pc *partitionCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{pc.hosted, pc.leaders, pc.underReplicated, pc.underMinISR, pc.offline} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (pc *partitionCollector) Collect(ch chan<- prometheus.Metric) {
	c := pc.replicas.count()
	for _, m := range []struct {
		desc *prometheus.Desc
		n    int
	}{
		{pc.hosted, c.hosted}, {pc.leaders, c.leaders}, {pc.underReplicated, c.underReplicated},
		{pc.underMinISR, c.underMinISR}, {pc.offline, c.offline},
	} {
		ch <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, float64(m.n))
	}
}
