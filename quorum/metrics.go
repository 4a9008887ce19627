package quorum

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts what the node does. Fields may be read at any time.
type Metrics struct {
	Claims, ClaimsRefused           atomic.Int64
	EntriesCommitted                atomic.Int64
	ProposalsFenced                 atomic.Int64
	OperationsDecided               atomic.Int64
	OperationsRefused               atomic.Int64
	StreamsOpen                     atomic.Int64
	StreamSnapshots, StreamsFromLog atomic.Int64
	ChainMismatches                 atomic.Int64
}

// register exposes the counters, and the values that the functions read, to Prometheus.
func (m *Metrics) register(r prometheus.Registerer, gauges map[string]func() float64) error {
	counters := map[string]*atomic.Int64{
		"quorate_controller_claims_total":             &m.Claims,
		"quorate_controller_claims_refused_total":     &m.ClaimsRefused,
		"quorate_controller_entries_committed_total":  &m.EntriesCommitted,
		"quorate_controller_proposals_fenced_total":   &m.ProposalsFenced,
		"quorate_controller_operations_decided_total": &m.OperationsDecided,
		"quorate_controller_operations_refused_total": &m.OperationsRefused,
		"quorate_stream_snapshots_total":              &m.StreamSnapshots,
		"quorate_stream_from_log_total":               &m.StreamsFromLog,
		"quorate_chain_mismatches_total":              &m.ChainMismatches,
	}
	for name, value := range counters {
		c := prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name}, func() float64 { return float64(value.Load()) })
		if err := r.Register(c); err != nil {
			return err
		}
	}
	gauges["quorate_streams_open"] = func() float64 { return float64(m.StreamsOpen.Load()) }
	for name, read := range gauges {
		if err := r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name}, read)); err != nil {
			return err
		}
	}
	return nil
}
