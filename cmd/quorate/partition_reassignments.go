package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/fsm/image"
	brokerpb "github.com/quorate/quorate/proto/broker/v1"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

func (a *app) partitionReassignmentsCommand() *cobra.Command {
	var r readFlags
	c := &cobra.Command{
		Use:   "reassignments [TOPIC...]",
		Short: "List the partitions whose replicas are being moved, and how far they are",
		Long: "List the partitions whose replicas are being moved, with those they shall have and those that are not in sync yet.\n" +
			"The brokers are asked what the new replicas hold: bytes that are there, and bytes to go until they have as much as their leader.\n" +
			"One that is not in sync and has not grown for " + stuckAfter.String() + " is stuck. Brokers that do not answer are named.",
		Example: "  quorate partition reassignments -o json",
	}
	r.register(c)
	c.RunE = a.timed(func(ctx context.Context, _ *cobra.Command, topics []string) error {
		return a.partitionReassignments(ctx, &r, topics)
	})
	return c
}

func (a *app) partitionReassignments(ctx context.Context, r *readFlags, topics []string) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	var resp *controllerpb.ListReassignmentsResponse
	err = a.read(ctx, c, r, func(ctx context.Context, reader controllerpb.ReaderApiClient) (err error) {
		resp, err = reader.ListReassignments(ctx, &controllerpb.ListReassignmentsRequest{Options: r.options(), Topics: topics})
		return err
	})
	if err != nil {
		return err
	}
	var wanted []replicaKey
	for _, m := range resp.GetReassignments() {
		s := m.GetState()
		if s.Leader != nil {
			wanted = append(wanted, keyOf(s, s.GetLeader()))
		}
		for _, id := range s.GetAddingReplicas() {
			if s.Leader == nil || id != s.GetLeader() {
				wanted = append(wanted, keyOf(s, id))
			}
		}
	}
	held, err := a.askReplicas(ctx, c, wanted)
	if err != nil && r.node == noNode {
		return err
	}
	if err != nil { // a node's own image needs no active controller
		a.warn("the brokers are not asked: %v", explain(err))
		held = &heldReplicas{}
	}
	moves := make([]moveProgress, 0, len(resp.GetReassignments()))
	for _, m := range resp.GetReassignments() {
		moves = append(moves, progressOf(m, moveFacts{
			find:        func(broker int32) (*brokerpb.HeldReplica, string) { return held.find(keyOf(m.GetState(), broker)) },
			fencedSince: held.fencedSince,
		}))
	}
	for _, id := range held.silentBrokers() {
		a.warn("broker %d %s: what it holds is not counted", id, held.silent[id])
	}
	unknown := a.reportUnknown(resp.GetUnknown(), resp.GetMetadataOffset())
	a.printMoves(resp.GetMetadataOffset(), moves, held.silentBrokers(), unknown)
	if unknown != nil {
		return shown{unknown.exit}
	}
	return nil
}

func (a *app) printMoves(offset int64, moves []moveProgress, silent []int32, unknown *failure) {
	out := list{}
	var bytes, toGo int64
	if !a.json() {
		a.printf("metadataOffset=%d", offset)
	}
	for _, p := range moves {
		there, missing := p.totals()
		bytes, toGo = bytes+there, toGo+missing
		if a.json() {
			out = append(out, p.json())
			continue
		}
		s := p.move.GetState()
		a.printf("partition %s-%d target=%s waiting-for=%s %s", p.move.GetTopic(), s.GetPartition(),
			image.FormatReplicas(ids(p.move.GetTarget())), image.FormatReplicas(ids(waitingFor(p.move))), partitionOf(s))
		for _, r := range p.adding {
			a.printf("%s", r.line())
		}
	}
	switch {
	case a.json():
		o := object{{"metadataOffset", offset}, {"partitions", out}, {"bytes", bytes}, {"bytesToGo", toGo}, {"silentBrokers", numbers(silent)}}
		if unknown != nil {
			o = append(o, field{"error", unknown.json()})
		}
		a.print(o)
	case len(moves) > 0:
		a.printf("in all partitions=%d bytes=%d to-go=%d", len(moves), bytes, toGo)
	}
}

// waitingFor are the replicas of the target that are not in sync.
func waitingFor(m *controllerpb.Reassignment) []int32 {
	var out []int32
	for _, id := range image.Without(ids(m.GetTarget()), ids(m.GetState().GetIsr())...) {
		out = append(out, int32(id))
	}
	return out
}
