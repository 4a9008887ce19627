package broker

import "github.com/prometheus/client_golang/prometheus"

// metrics are the broker's own; the packages below it have theirs.
type metrics struct {
	state      prometheus.Gauge
	fenced     prometheus.Gauge
	epoch      prometheus.Gauge
	followed   prometheus.Gauge
	acted      prometheus.Gauge
	diverged   prometheus.Counter
	streamEnds *prometheus.CounterVec
	failed     *prometheus.CounterVec

	isrShrinks, isrExpands, isrFailures prometheus.Counter
	logStrays                           prometheus.Gauge
	deletionsPending                    prometheus.Gauge
	deletionsFailed                     prometheus.Gauge
}

func newMetrics() *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "quorate", Subsystem: "broker", Name: name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "quorate", Subsystem: "broker", Name: name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "quorate", Subsystem: "broker", Name: name, Help: help}, []string{label})
	}
	return &metrics{
		state:            gauge("state", "Lifecycle state, with the numbers of Kafka's BrokerState."),
		fenced:           gauge("fenced", "1 while the last heartbeat answer said that the broker is fenced."),
		epoch:            gauge("epoch", "Broker epoch, -1 until registered."),
		followed:         gauge("metadata_followed_offset", "Metadata offset of the newest image."),
		acted:            gauge("metadata_acted_offset", "Metadata offset that the broker has acted on."),
		diverged:         counter("metadata_diverged_total", "Times that another node had another chain at an equal offset. Must stay 0."),
		streamEnds:       vec("metadata_stream_ends_total", "Metadata streams that ended, by reason.", "reason"),
		failed:           vec("failed_operations_total", "Operations on one partition that failed, by kind.", "operation"),
		isrShrinks:       counter("isr_shrinks_total", "ISR shrinks that the controller accepted."),
		isrExpands:       counter("isr_expands_total", "ISR expands that the controller accepted."),
		isrFailures:      counter("isr_update_failures_total", "ISR changes that the controller did not accept."),
		logStrays:        gauge("stray_logs", "Directories set aside because the metadata does not know them."),
		deletionsPending: gauge("deletions_pending", "Deleted topics of which this broker still holds data."),
		deletionsFailed:  gauge("deletions_failed", "Deleted topics whose data could not be removed."),
	}
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.state, m.fenced, m.epoch, m.followed, m.acted, m.diverged, m.streamEnds, m.failed,
		m.isrShrinks, m.isrExpands, m.isrFailures, m.logStrays, m.deletionsPending, m.deletionsFailed,
	}
}
