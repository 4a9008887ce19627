package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/quorate/quorate/fsm/image"
	brokerpb "github.com/quorate/quorate/proto/broker/v1"
)

// heldBy is what one of the replicas holds, nil if that is not known.
func (e *electable) heldBy(broker int32) *brokerpb.HeldReplica {
	i := slices.IndexFunc(e.replicas, func(r electableReplica) bool { return r.broker == broker })
	if i < 0 {
		return nil
	}
	return e.replicas[i].held
}

// table shows the replicas, without the newline at its end.
func (e *electable) table() string {
	var out bytes.Buffer
	s := e.state
	fmt.Fprintf(&out, "partition %s has no leader: le=%d isr=%s elr=%s\n", e.name, s.GetLeaderEpoch(), image.FormatReplicas(ids(s.GetIsr())), image.FormatReplicas(ids(s.GetElr())))
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "  REPLICA\tSTATE\tLAST EPOCH\tEND OFFSET\tHIGH WATERMARK\tBYTES\tNOTE\n")
	for _, r := range e.replicas {
		if r.held == nil {
			fmt.Fprintf(w, "  %d\t%s\t-\t-\t-\t-\t%s\n", r.broker, r.state, r.note)
			continue
		}
		epoch := "-"
		if r.held.LastEpoch != nil {
			epoch = fmt.Sprint(r.held.GetLastEpoch())
		}
		fmt.Fprintf(w, "  %d\t%s\t%s\t%d\t%d\t%d\t%s\n", r.broker, r.state, epoch, r.held.GetLogEndOffset(), r.held.GetHighWatermark(), r.held.GetSizeBytes(), r.note)
	}
	w.Flush()
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}

// json is the table for programs; -1 stands for what is not known.
func (e *electable) json() list {
	out := list{}
	for _, r := range e.replicas {
		row := object{{"broker", r.broker}, {"state", r.state}}
		if h := r.held; h != nil {
			row = append(row, object{
				{"lastEpoch", lastEpoch(h)}, {"logStartOffset", h.GetLogStartOffset()}, {"endOffset", h.GetLogEndOffset()},
				{"highWatermark", h.GetHighWatermark()}, {"sizeBytes", h.GetSizeBytes()},
			}...)
		} else {
			row = append(row, object{{"lastEpoch", -1}, {"logStartOffset", -1}, {"endOffset", -1}, {"highWatermark", -1}, {"sizeBytes", -1}}...)
		}
		out = append(out, append(row, field{"note", r.note}))
	}
	return out
}
