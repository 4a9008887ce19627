package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client"
)

func (a *app) quorumStatusCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "Ask every controller for itself",
		Long: "Ask every controller for itself, with or without an active one. Exit code 3 only if none answers. A member without a vote is\n" +
			"joining; a node that is no member is an observer. What the active controller has not finished is told after them.",
		Example: "  quorate quorum status --controllers c1:9192,c2:9192,c3:9192",
		Args:    cobra.NoArgs,
	}
	c.RunE = a.timed(func(ctx context.Context, _ *cobra.Command, _ []string) error { return a.quorumStatus(ctx) })
	return c
}

// quorumView is what the controllers' answers say together.
type quorumView struct {
	clusterID string
	active    int32 // -1: none
	epoch     uint64
	offset    int64
	chain     uint64
	lineage   int32
	// unconfirmed: the lineage waits for an operator.
	unconfirmed bool
	nodes       []quorumNode
	removed     []*metadatapb.RemovedController
	changes     []*controllerpb.QuorumChange
	// teller is out of the quorum, and nobody else answers; -1: somebody does.
	teller int32
}

type quorumNode struct {
	id          int32
	member      bool
	voter       bool
	state       string
	index       int64
	offset      int64
	chain       uint64
	contactMs   int64
	directoryID []byte
	lineage     int32
	// reason is why a controller is out of the quorum.
	reason string
}

func (a *app) quorumStatus(ctx context.Context) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	answers := c.Statuses(ctx)
	view, ok := viewOf(answers)
	if !ok {
		return unavailable(controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER, "none of %s answers; check --controllers", strings.Join(c.Known(), ", "))
	}
	for _, alarm := range view.alarms() {
		a.warn("%s", alarm)
	}
	for _, n := range view.nodes {
		if n.reason != "" {
			a.warn("controller %d: %s", n.id, n.reason)
		}
	}
	if view.teller >= 0 {
		a.warn("only controller %d answers, which is out of the quorum: this is what it knew last, at metadata offset %d; ask a member with --controllers", view.teller, view.offset)
	}
	if view.unconfirmed {
		a.warnUnconfirmed(view.lineage)
	}
	if a.json() {
		a.print(view.json())
		return nil
	}
	a.printf("cluster %s activeController=%d controllerEpoch=%d metadataOffset=%d chain=%s lineage=%d", view.clusterID, view.active, view.epoch, view.offset, chain(view.chain), view.lineage)
	for _, n := range view.nodes {
		a.printf("%s", n.line())
	}
	for _, c := range view.changes {
		a.printf("changing forMs=%d %s", c.GetForMs(), c.GetWhat())
	}
	for _, r := range view.removed {
		a.printf("removed %d directoryId=%s removedAtMs=%d", r.GetControllerId(), uuid(r.GetDirectoryId()), r.GetRemovedAtMs())
	}
	return nil
}

// viewOf puts the answers together: who is active is told by the answer that names the highest controller epoch, the members
// by that answer too. Who is out is asked for them only if nobody else answers.
func viewOf(answers []client.Answer) (v quorumView, ok bool) {
	var heard []*controllerpb.NodeStatusResponse
	for _, s := range answers {
		if s.Err == nil && !slices.ContainsFunc(heard, func(h *controllerpb.NodeStatusResponse) bool { return h.GetNodeId() == s.Status.GetNodeId() }) {
			heard = append(heard, s.Status)
		}
	}
	if len(heard) == 0 {
		return v, false
	}
	best := slices.MaxFunc(heard, func(x, y *controllerpb.NodeStatusResponse) int {
		return cmp.Or(cmp.Compare(standing(x), standing(y)), cmp.Compare(x.GetLineage(), y.GetLineage()), cmp.Compare(x.GetActiveController().GetControllerEpoch(), y.GetActiveController().GetControllerEpoch()),
			cmp.Compare(x.GetAppliedIndex(), y.GetAppliedIndex()))
	})
	v = quorumView{clusterID: best.GetClusterId(), active: -1, offset: best.GetMetadataOffset(), chain: best.GetChain(), lineage: best.GetLineage(), unconfirmed: best.GetLineageUnconfirmed(), teller: -1}
	if isOut(best) {
		v.teller = best.GetNodeId()
	}
	if named := best.GetActiveController(); named != nil {
		v.active, v.epoch = named.GetNodeId(), named.GetControllerEpoch()
	}
	v.removed, v.changes = best.GetRemoved(), best.GetChanges()
	for _, m := range best.GetMembers() {
		v.nodes = append(v.nodes, quorumNode{id: m.GetNodeId(), member: true, voter: m.GetVoter(), state: "unreachable", index: -1, offset: -1, contactMs: -1, directoryID: m.GetDirectoryId()})
	}
	for _, h := range heard {
		v.hear(h)
	}
	slices.SortFunc(v.nodes, func(x, y quorumNode) int { return cmp.Compare(x.id, y.id) })
	return v, true
}

// isOut tells whether the quorum has given up the node that answers, or has gone on without it.
func isOut(s *controllerpb.NodeStatusResponse) bool {
	return s.GetState() == "removed" || s.GetState() == "superseded"
}

// standing is the weight of an answer: the word of a node that is out counts only where there is no other.
func standing(s *controllerpb.NodeStatusResponse) int {
	if isOut(s) {
		return 0
	}
	return 1
}

// hear takes a node's own word. One with another directory than the member's was formatted anew and is no member: it
// stands beside the member, which is gone.
func (v *quorumView) hear(h *controllerpb.NodeStatusResponse) {
	i := slices.IndexFunc(v.nodes, func(n quorumNode) bool {
		return n.id == h.GetNodeId() && bytes.Equal(n.directoryID, h.GetDirectoryId())
	})
	if i < 0 {
		v.nodes = append(v.nodes, quorumNode{id: h.GetNodeId(), directoryID: h.GetDirectoryId()})
		i = len(v.nodes) - 1
	}
	n := &v.nodes[i]
	n.state, n.index, n.offset, n.chain = h.GetState(), int64(h.GetAppliedIndex()), h.GetMetadataOffset(), h.GetChain()
	n.contactMs, n.lineage, n.reason = h.GetLastContactMs(), h.GetLineage(), h.GetStateReason()
	if n.id == v.active {
		v.offset, v.chain = n.offset, n.chain
	}
}

// alarms names nodes that stand at one offset with different chains: their logs differ.
func (v *quorumView) alarms() []string {
	var out []string
	for i, x := range v.nodes {
		for _, y := range v.nodes[:i] {
			if x.offset >= 0 && x.lineage == y.lineage && x.offset == y.offset && x.chain != y.chain {
				out = append(out, fmt.Sprintf("nodes %d and %d have different chains at metadata offset %d: their logs differ; stop one and compare metadata dumps", y.id, x.id, x.offset))
			}
		}
	}
	return out
}

func (n quorumNode) line() string {
	role := "observer"
	switch {
	case n.voter:
		role = "voter"
	case n.member:
		role = "joining"
	}
	return fmt.Sprintf("node %d %s state=%s appliedIndex=%d metadataOffset=%d chain=%s lastContactMs=%d directoryId=%s",
		n.id, role, n.state, n.index, n.offset, chain(n.chain), n.contactMs, uuid(n.directoryID))
}

func (v *quorumView) json() object {
	nodes := list{}
	for _, n := range v.nodes {
		nodes = append(nodes, object{
			{"id", n.id}, {"voter", n.voter}, {"state", n.state}, {"appliedIndex", n.index}, {"metadataOffset", n.offset}, {"chain", chain(n.chain)},
			{"lastContactMs", n.contactMs}, {"directoryId", uuid(n.directoryID)}, {"lineage", n.lineage}, {"stateReason", n.reason}, {"member", n.member},
		})
	}
	removed := list{}
	for _, r := range v.removed {
		removed = append(removed, object{{"id", r.GetControllerId()}, {"directoryId", uuid(r.GetDirectoryId())}, {"removedAtMs", r.GetRemovedAtMs()}})
	}
	changes := list{}
	for _, c := range v.changes {
		changes = append(changes, object{{"what", c.GetWhat()}, {"forMs", c.GetForMs()}})
	}
	return object{
		{"clusterId", v.clusterID}, {"activeController", v.active}, {"controllerEpoch", v.epoch}, {"metadataOffset", v.offset}, {"chain", chain(v.chain)}, {"nodes", nodes},
		{"lineage", v.lineage}, {"lineageConfirmed", !v.unconfirmed}, {"removed", removed},
		{"changes", changes},
	}
}
