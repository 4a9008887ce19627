package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

func (a *app) partitionReassignmentsCommand() *cobra.Command {
	var r readFlags
	c := &cobra.Command{
		Use:     "reassignments [TOPIC...]",
		Short:   "List the partitions whose replicas are being moved",
		Long:    "List the partitions whose replicas are being moved, with those they shall have and those that are not in sync yet.",
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
	if a.json() {
		out := list{}
		for _, m := range resp.GetReassignments() {
			s := m.GetState()
			out = append(out, object{
				{"topic", m.GetTopic()}, {"partition", s.GetPartition()}, {"replicas", numbers(s.GetReplicas())}, {"isr", numbers(s.GetIsr())},
				{"addingReplicas", numbers(s.GetAddingReplicas())}, {"removingReplicas", numbers(s.GetRemovingReplicas())},
				{"target", numbers(m.GetTarget())}, {"original", numbers(s.GetOriginalReplicas())}, {"waitingFor", numbers(waitingFor(m))},
			})
		}
		a.print(object{{"metadataOffset", resp.GetMetadataOffset()}, {"partitions", out}})
		return nil
	}
	a.printf("metadataOffset=%d", resp.GetMetadataOffset())
	for _, m := range resp.GetReassignments() {
		a.printf("partition %s-%d target=%s waiting-for=%s %s", m.GetTopic(), m.GetState().GetPartition(),
			image.FormatReplicas(ids(m.GetTarget())), image.FormatReplicas(ids(waitingFor(m))), partitionOf(m.GetState()))
	}
	return nil
}

// waitingFor are the replicas of the target that are not in sync.
func waitingFor(m *controllerpb.Reassignment) []int32 {
	var out []int32
	for _, id := range image.Without(ids(m.GetTarget()), ids(m.GetState().GetIsr())...) {
		out = append(out, int32(id))
	}
	return out
}
