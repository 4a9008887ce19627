package broker

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/broker/replica"
)

// partitionCollector counts hosted and fetched partitions when it is asked.
type partitionCollector struct {
	replicas *replicas
	fetches  *replica.Manager
	gauges   []partitionGauge
}

type partitionGauge struct {
	desc  *prometheus.Desc
	value func(counts, replica.Counts) int64
}

func newPartitionCollector(rs *replicas, fetches *replica.Manager) *partitionCollector {
	pc := &partitionCollector{replicas: rs, fetches: fetches}
	add := func(name, help string, value func(counts, replica.Counts) int64) {
		pc.gauges = append(pc.gauges, partitionGauge{prometheus.NewDesc("quorate_broker_"+name, help, nil, nil), value})
	}
	add("partitions_hosted", "Partitions hosted here.", func(c counts, _ replica.Counts) int64 { return int64(c.hosted) })
	add("partitions_led", "Partitions led by this broker.", func(c counts, _ replica.Counts) int64 { return int64(c.leaders) })
	add("partitions_under_replicated", "Partitions led here whose ISR lacks a replica.", func(c counts, _ replica.Counts) int64 { return int64(c.underReplicated) })
	add("partitions_under_min_isr", "Partitions led here whose ISR is below min.insync.replicas.", func(c counts, _ replica.Counts) int64 { return int64(c.underMinISR) })
	add("partitions_offline", "Partitions whose log could not be opened here.", func(c counts, _ replica.Counts) int64 { return int64(c.offline) })
	add("fetches_delayed", "Followed partitions whose fetch failed and will be tried again.", func(_ counts, f replica.Counts) int64 { return int64(f.Delayed) })
	add("fetches_failed", "Followed partitions whose fetch is left alone until the metadata changes.", func(_ counts, f replica.Counts) int64 { return int64(f.Failed) })
	add("fetch_lag_max", "Largest number of offsets by which a followed partition is behind.", func(_ counts, f replica.Counts) int64 { return f.LagMax })
	return pc
}

// Describe implements [prometheus.Collector].
func (pc *partitionCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, g := range pc.gauges {
		ch <- g.desc
	}
}

// Collect implements [prometheus.Collector].
func (pc *partitionCollector) Collect(ch chan<- prometheus.Metric) {
	c, f := pc.replicas.count(), pc.fetches.Counts()
	for _, g := range pc.gauges {
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(g.value(c, f)))
	}
}
