package controller_test

import (
	"fmt"
	"strings"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// follow-states: TOPIC-N, … From here on each record tells which states the partitions and their replicas pass.
func (s *script) followStates() string {
	s.h.followed = nil
	for _, a := range s.d.CmdArgs {
		topic, n := s.topicPartition(a.Key)
		s.h.followed = append(s.h.followed, followed{name: a.Key, id: image.PartitionID{Topic: uuid(topic), Partition: n}})
	}
	return ""
}

// followed is a partition whose states are told.
type followed struct {
	name string
	id   image.PartitionID
	// replicas it had when it was last seen.
	replicas []image.BrokerID
}

// crossings are the states that one record passes, a line each.
func (h *harness) crossings(before, after *image.Image) string {
	var b strings.Builder
	for i := range h.followed {
		f := &h.followed[i]
		if p, ok := before.Partition(f.id); ok {
			f.replicas = p.Replicas
		}
		c := image.Crossed(before, after, f.id, f.replicas)
		if c.Partition != nil {
			fmt.Fprintf(&b, "  %s %s\n", f.name, way(c.Partition))
		}
		for _, r := range c.Replicas {
			fmt.Fprintf(&b, "  %s on %v %s", f.name, r.Broker, way(r.States))
			if r.Reason != "" {
				fmt.Fprintf(&b, " (%s)", r.Reason)
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func way[S fmt.Stringer](states []S) string {
	names := make([]string, len(states))
	for i, s := range states {
		names[i] = s.String()
	}
	return strings.Join(names, " → ")
}

// remove-from-quorum: id=ID directory=DIR, as the record that takes a controller out for good.
func (s *script) removeFromQuorum() string {
	dir := uuid(s.text("directory", "dir"))
	r := &metadatapb.Record{Kind: &metadatapb.Record_RemovedController{RemovedController: &metadatapb.RemovedController{
		ControllerId: int32(s.int("id", 0)), DirectoryId: dir[:], RemovedAtMs: s.h.now.UnixMilli(),
	}}}
	s.h.write([]*metadatapb.Record{r})
	return recordLine(s.h.image, r) + "\n"
}
