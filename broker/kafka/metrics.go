package kafka

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Reasons why connections end, as counted and logged.
const (
	reasonDone             = "done"
	reasonPeerClosed       = "peer closed"
	reasonShutdown         = "shutting down"
	reasonIdle             = "idle"
	reasonStalled          = "stalled"
	reasonSize             = "size out of bounds"
	reasonForeign          = "another protocol"
	reasonMalformed        = "malformed request"
	reasonUnknownKey       = "unknown key"
	reasonVersion          = "version not served"
	reasonTooMany          = "too many connections"
	reasonTooManyOfAddress = "too many connections of one address"
	reasonHandshake        = "TLS handshake failed"
	reasonProduceFailed    = "produce without acknowledgement failed"
)

// reasons are all of them. Each is shown from the start: a counter that begins with its first event has no rate.
var reasons = [...]string{
	reasonDone, reasonPeerClosed, reasonShutdown, reasonIdle, reasonStalled, reasonSize, reasonForeign, reasonMalformed,
	reasonUnknownKey, reasonVersion, reasonTooMany, reasonTooManyOfAddress, reasonHandshake, reasonProduceFailed,
}

// Metrics counts what a listener does. One value serves any number of servers.
type Metrics struct {
	connections prometheus.Gauge
	closes      *prometheus.CounterVec
	requests    *prometheus.HistogramVec
}

// NewMetrics makes the metrics and registers them, unless the registerer is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		connections: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "quorate_kafka_connections", Help: "Open client connections."}),
		closes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_kafka_connections_closed_total", Help: "Client connections closed or refused, by reason."}, []string{"reason"}),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "quorate_kafka_request_seconds", Help: "Time from a request's arrival until its answer was written, by API.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10)}, []string{"api"}),
	}
	for _, reason := range reasons {
		m.closes.WithLabelValues(reason)
	}
	if reg != nil {
		reg.MustRegister(m.connections, m.closes, m.requests)
	}
	return m
}

// metrics are the metrics of one server, with its APIs looked up.
type metrics struct {
	*Metrics
	byKey map[int16]prometheus.Observer
}

func (m *Metrics) forTable(t *table) *metrics {
	if m == nil {
		m = NewMetrics(nil)
	}
	out := &metrics{Metrics: m, byKey: map[int16]prometheus.Observer{}}
	for i := range t.entries {
		out.byKey[t.entries[i].key] = m.requests.WithLabelValues(t.entries[i].name)
	}
	return out
}

func (m *metrics) closed(reason string) { m.closes.WithLabelValues(reason).Inc() }

func (m *metrics) answered(r *request, now time.Time) {
	m.byKey[r.key].Observe(now.Sub(r.arrived).Seconds())
}
