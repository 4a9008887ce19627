package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quorate/quorate/fsm/image"
	brokerpb "github.com/quorate/quorate/proto/broker/v1"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// electable is what is known of a partition without a leader before an unclean election.
type electable struct {
	name     partitionName
	state    *metadatapb.Partition
	replicas []electableReplica // in the order of the replicas
}

// electableReplica is one row of the table that an operator sees.
type electableReplica struct {
	broker int32
	state  string                // as the metadata has it
	held   *brokerpb.HeldReplica // nil: not known
	why    string                // why it is not known
	note   string
}

func (r *electableReplica) isLive() bool { return r.state == "UNFENCED" }

// What an offset of possible loss rests on.
const (
	// lossNone: the leader was in sync.
	lossNone = "none"
	// lossLogEnd: the leader has a record of the last leadership, so its log is a prefix of that leader's.
	lossLogEnd = "log-end"
	// lossHighWatermark: it has none, so its end may be one that no later leader had; what it knew as committed is there.
	lossHighWatermark = "high-watermark"
	// lossUnknown: the leader was not asked or did not answer.
	lossUnknown = "unknown"
)

// choice is who shall lead and what that may cost.
type choice struct {
	// leader is who shall lead. The controller is told so in every case: should that broker be fenced meanwhile, another one
	// is not elected unasked.
	leader int32
	basis  string
	// lossFrom is the first offset that may be lost; -1 if that is not known or nothing is.
	lossFrom int64
	refused  *failure
}

// choose takes the replica that is furthest: the highest epoch of its last record, then the highest log end, then the order of
// the replicas (KIP-966, unclean recovery). Only unfenced brokers can lead. If one of those does not say how far it is,
// only a named leader or force goes on without it. Named is noNode for the furthest.
func (e *electable) choose(named int32, force bool) choice {
	if clean := e.inSync(); clean >= 0 {
		e.replicas[clean].note = "in sync"
		e.annotate(clean)
		return choice{leader: e.replicas[clean].broker, basis: lossNone, lossFrom: -1}
	}
	live, silent := e.liveAndSilent()
	chosen := -1
	switch {
	case named != noNode:
		chosen = slices.IndexFunc(e.replicas, func(r electableReplica) bool { return r.broker == named })
		if chosen < 0 || !e.replicas[chosen].isLive() {
			e.annotate(-1)
			return choice{refused: refused(controllerpb.ErrorCode_ERROR_CODE_ELIGIBLE_LEADERS_NOT_AVAILABLE,
				"broker %d cannot lead: it has to be one of the replicas %s and unfenced; unfenced are %s",
				named, image.FormatReplicas(ids(e.state.GetReplicas())), image.FormatReplicas(ids(live)))}
		}
	case len(live) == 0:
		e.annotate(-1)
		return choice{refused: refused(controllerpb.ErrorCode_ERROR_CODE_ELIGIBLE_LEADERS_NOT_AVAILABLE,
			"none of the replicas %s is on an unfenced broker; start one of them", image.FormatReplicas(ids(e.state.GetReplicas())))}
	case len(silent) > 0 && !force:
		e.annotate(-1)
		return choice{refused: refused(controllerpb.ErrorCode_ERROR_CODE_ELIGIBLE_LEADERS_NOT_AVAILABLE,
			"unfenced replicas %s do not say how far they are, and one of them may be the furthest: try again, name a leader with --candidate ID, or go on without them with --force",
			image.FormatReplicas(ids(silent)))}
	default:
		chosen = e.furthest()
	}
	e.annotate(chosen)
	c := choice{leader: e.replicas[chosen].broker, basis: lossUnknown, lossFrom: -1}
	if held := e.replicas[chosen].held; held != nil {
		c.basis, c.lossFrom = lossHighWatermark, held.GetHighWatermark()
		if held.LastEpoch != nil && held.GetLastEpoch() == e.state.GetLeaderEpoch()-1 {
			c.basis, c.lossFrom = lossLogEnd, held.GetLogEndOffset()
		}
	}
	return c
}

// inSync is the row of a live replica that leads without loss, -1 if there is none.
func (e *electable) inSync() int {
	eligible := e.state.GetIsr()
	if len(eligible) == 0 {
		eligible = e.state.GetElr()
	}
	return slices.IndexFunc(e.replicas, func(r electableReplica) bool { return r.isLive() && slices.Contains(eligible, r.broker) })
}

func (e *electable) liveAndSilent() (live, silent []int32) {
	for _, r := range e.replicas {
		if r.isLive() {
			live = append(live, r.broker)
			if r.held == nil {
				silent = append(silent, r.broker)
			}
		}
	}
	return live, silent
}

// furthest is the row of the live replica that is furthest. One that is not known comes last.
func (e *electable) furthest() int {
	best := -1
	for i := range e.replicas {
		if e.replicas[i].isLive() && (best < 0 || compareReplicas(e.replicas[i].held, e.replicas[best].held) > 0) {
			best = i
		}
	}
	return best
}

// compareReplicas compares by the epoch of the last record, then by the log end; nil is before all others.
func compareReplicas(x, y *brokerpb.HeldReplica) int {
	if x == nil || y == nil {
		return cmp.Compare(btoi(x != nil), btoi(y != nil))
	}
	return cmp.Or(cmp.Compare(lastEpoch(x), lastEpoch(y)), cmp.Compare(x.GetLogEndOffset(), y.GetLogEndOffset()))
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// lastEpoch is -1 for a log that never had a record.
func lastEpoch(h *brokerpb.HeldReplica) int32 {
	if h.LastEpoch == nil {
		return -1
	}
	return h.GetLastEpoch()
}

// annotate writes the notes of the rows beside the chosen one, -1 for none.
func (e *electable) annotate(chosen int) {
	var leader *brokerpb.HeldReplica
	if chosen >= 0 {
		leader = e.replicas[chosen].held
		e.replicas[chosen].note = cmp.Or(e.replicas[chosen].note, "shall lead")
	}
	for i := range e.replicas {
		r := &e.replicas[i]
		note := r.note
		add := func(format string, args ...any) {
			if note != "" {
				note += "; "
			}
			note += fmt.Sprintf(format, args...)
		}
		if slices.Contains(e.state.GetLastKnownElr(), r.broker) {
			add("last known leader")
		}
		if !r.isLive() {
			add("cannot lead")
		}
		switch {
		case r.held == nil:
			add("%s", r.why)
		case i == chosen:
		case lastEpoch(r.held) < 0:
			add("empty")
		case leader == nil:
		case compareReplicas(r.held, leader) > 0:
			add("further than broker %d", e.replicas[chosen].broker)
		case lastEpoch(r.held) < lastEpoch(leader):
			add("older leader epoch")
		case r.held.GetLogEndOffset() < leader.GetLogEndOffset():
			add("%d records less", leader.GetLogEndOffset()-r.held.GetLogEndOffset())
		default:
			add("as far")
		}
		r.note = note
	}
}

// loss says in words what may be lost.
func (c choice) loss(held *brokerpb.HeldReplica) string {
	switch {
	case c.basis == lossNone:
		return ""
	case held != nil && held.GetLogEndOffset() == 0:
		return " (whatever was acknowledged is lost: its log is empty)"
	}
	switch c.basis {
	case lossLogEnd:
		return fmt.Sprintf(" (acknowledged records from offset %d on may be lost: its log ends there)", c.lossFrom)
	case lossHighWatermark:
		return fmt.Sprintf(" (acknowledged records from offset %d on may be lost: it has none of the last leadership, and no more is known to be committed in its log, which ends at %d)",
			c.lossFrom, held.GetLogEndOffset())
	}
	return " (acknowledged records may be lost: it is not known how far it is)"
}
