package quorum

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/history"
)

// historyDir is the folder of the history in the data directory.
const historyDir = "history"

// makeHistory makes the history, unless none is to be kept.
func (n *Node) makeHistory() error {
	if n.cfg.HistoryRetentionTime < 0 || n.cfg.HistoryRetentionBytes < 0 {
		return nil
	}
	h, err := history.New(history.Config{
		Dir:           filepath.Join(n.cfg.DataDir, historyDir),
		RetentionTime: n.cfg.HistoryRetentionTime, RetentionBytes: n.cfg.HistoryRetentionBytes,
		Position: n.fsm.mark, Sources: n.historySources,
		Env: n.cfg.Env, Logger: n.cfg.Logger,
	})
	if err != nil {
		return err
	}
	n.fsm.history = h
	return nil
}

// runHistory opens the history and lets it run until the function returned is called.
func (n *Node) runHistory(ctx context.Context) (end func()) {
	h := n.fsm.history
	if h == nil {
		return func() {}
	}
	h.Open()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Run(ctx)
	}()
	return func() { cancel(); <-done }
}

// History is what this node keeps of the entries it has applied; nil: nothing.
func (n *Node) History() *history.History { return n.fsm.history }

// historySources are asked for what the history lacks: this node's own log, then the other controllers.
func (n *Node) historySources() []history.Source {
	if !n.open.Load() {
		return nil
	}
	sources := []history.Source{{Name: "own log", Read: func(ctx context.Context, from, end image.MetadataOffset, take func(history.Piece) error) error {
		return n.fromLog(ctx, history.Gap{From: from, To: end, Reason: history.ReasonCompacted}, take)
	}}}
	for c := range n.fsm.Image().Controllers() {
		address := grpcAddress(c.Record().GetListeners())
		if c.ID == n.cfg.NodeID || address == "" {
			continue
		}
		sources = append(sources, history.Source{Name: fmt.Sprintf("controller %v at %s", c.ID, address),
			Read: func(ctx context.Context, from, end image.MetadataOffset, take func(history.Piece) error) error {
				conn, err := n.client.Conn(address)
				if err != nil {
					return err
				}
				return readPeer(ctx, conn, from, end, take)
			}})
	}
	return sources
}

// historyCollectors expose the history's counters to Prometheus.
func (n *Node) historyCollectors() []prometheus.Collector {
	h := n.fsm.history
	if h == nil {
		return nil
	}
	m := h.Metrics()
	out := []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "quorate_history_bytes", Help: "Bytes of the history's segments."}, func() float64 { return float64(h.Bytes()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "quorate_history_gaps", Help: "Ranges of metadata offsets that the history lacks now."},
			func() float64 { return float64(h.Missing()) }),
	}
	for _, c := range []struct {
		name, help string
		value      *atomic.Int64
	}{
		{"entries", "Entries appended.", &m.Entries},
		{"written_bytes", "Bytes appended.", &m.BytesWritten},
		{"dropped", "Entries for which the queue had no room.", &m.Dropped},
		{"gaps_recorded", "Gaps that arose.", &m.Gaps},
		{"gaps_filled", "Gaps that were closed again.", &m.GapsFilled},
		{"entries_filled", "Entries fetched into gaps.", &m.EntriesFilled},
		{"write_errors", "Failed writes.", &m.WriteErrors},
		{"damaged", "Places in files that could not be read.", &m.Damaged},
		{"segments_removed", "Segments that retention removed.", &m.SegmentsRemoved},
	} {
		out = append(out, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "quorate_history_" + c.name + "_total", Help: c.help},
			func() float64 { return float64(c.value.Load()) }))
	}
	return out
}

// readPeer reads log and history of another controller.
func readPeer(ctx context.Context, conn grpc.ClientConnInterface, from, end image.MetadataOffset, take func(history.Piece) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	to := int64(end)
	stream, err := controllerpb.NewReaderApiClient(conn).ReadLog(ctx, &controllerpb.ReadLogRequest{
		Options: &controllerpb.ReadOptions{Local: true}, FromOffset: int64(from), ToOffset: &to, FromOldest: true,
	})
	for err == nil {
		var r *controllerpb.ReadLogResponse
		if r, err = stream.Recv(); err != nil {
			break
		}
		piece := history.Piece{}
		if g := r.GetGap(); g != nil {
			piece.Gap = &history.Gap{From: image.MetadataOffset(g.GetFromOffset()), To: image.MetadataOffset(g.GetToOffset()), Reason: history.ReasonCompacted}
		} else if piece.Entry, err = history.EntryOf(r.GetEntry().GetRaftIndex(), r.GetEntry().GetEntry()); err != nil {
			return err
		}
		if err = take(piece); err != nil {
			return err
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// readPast hands over what history and log hold between two offsets, in order: entries whole, and what is missing. With a
// topic, what is certainly not about it may be left out.
func (n *Node) readPast(ctx context.Context, from, end image.MetadataOffset, about *history.Topic, take func(history.Piece) error) error {
	next := from
	if h := n.fsm.history; h != nil && h.End().Offset >= from {
		last := min(end, h.End().Offset)
		if begins := h.Begins(); begins > next {
			if err := n.fromLog(ctx, history.Gap{From: next, To: min(begins-1, end), Reason: history.ReasonRetention}, take); err != nil {
				return err
			}
			next = begins
		}
		err := h.Read(ctx, next, last, about, func(p history.Piece) error {
			if p.Gap != nil {
				return n.fromLog(ctx, *p.Gap, take)
			}
			next = p.Entry.LastOffset + 1
			return take(p)
		})
		if err != nil {
			return err
		}
		next = max(next, last+1)
	}
	if next > end {
		return nil
	}
	return n.fromLog(ctx, history.Gap{From: next, To: end, Reason: history.ReasonCompacted}, take)
}

// fromLog hands over what the Raft log holds of a range, judged anew, so that fenced entries are left out; what it does not
// reach back to is a gap.
func (n *Node) fromLog(ctx context.Context, g history.Gap, take func(history.Piece) error) error {
	if g.From > g.To {
		return nil
	}
	walker, err := n.walkFrom(g.From)
	var e *fsm.Entry
	if err == nil {
		e, err = walker.Next()
	}
	if errors.Is(err, fsm.ErrCompacted) {
		begins := n.logBegins(g.From, g.To)
		if err := take(history.Piece{Gap: &history.Gap{From: g.From, To: begins - 1, Reason: g.Reason}}); err != nil || begins > g.To {
			return err
		}
		if walker, err = n.walkFrom(begins); err == nil {
			e, err = walker.Next()
		}
	}
	for err == nil && e.BaseOffset <= g.To {
		if e.LastOffset >= g.From {
			if err := take(history.Piece{Entry: e}); err != nil {
				return err
			}
		}
		if e.LastOffset >= g.To {
			return nil
		}
		if err = ctx.Err(); err == nil {
			e, err = walker.Next()
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
