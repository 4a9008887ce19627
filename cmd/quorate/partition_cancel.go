package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/quorate/node"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

func (a *app) partitionCancelCommand() *cobra.Command {
	var plan string
	var change changeFlags
	c := &cobra.Command{
		Use:   "cancel (TOPIC-PARTITION... | --plan FILE)",
		Short: "End moves of replicas: the partitions get their original replicas back",
		Long: "End moves of replicas: the partitions get their original replicas back, in their order, also after several new targets.\n" +
			"The replicas that a plan names are not looked at.",
		Example: "  quorate partition cancel orders-0 orders-1\n  quorate partition cancel --plan moves.json",
	}
	c.Flags().StringVar(&plan, "plan", "", "file with the moves, as for reassign")
	change.register(c, "")
	c.RunE = func(c *cobra.Command, args []string) error {
		names, err := cancelled(a, plan, args)
		if err != nil {
			return err
		}
		if err := change.check(c); err != nil {
			return err
		}
		request := &controllerpb.AlterPartitionReassignmentsRequest{ValidateOnly: change.dryRun, RequestId: node.RandomUUID().String()}
		for _, p := range names {
			request.Partitions = append(request.Partitions, &controllerpb.ReassignablePartition{Topic: p.topic, Partition: p.partition})
		}
		return a.timed(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			return a.alterReassignments(ctx, &change, request, "cancelled the move of", func(int) (string, object) { return "", nil })
		})(c, args)
	}
	return c
}

// cancelled are the partitions that the command line or its plan names.
func cancelled(a *app, plan string, args []string) ([]partitionName, error) {
	switch {
	case plan != "" && len(args) > 0:
		return nil, errors.New("--plan names the partitions; leave the others out")
	case plan == "" && len(args) == 0:
		return nil, errors.New("which moves? give TOPIC-PARTITION..., or --plan FILE")
	case plan == "":
		return parsePartitions(args)
	}
	moves, err := readPlan(a.env.FS, plan)
	var names []partitionName
	for _, m := range moves {
		names = append(names, m.partitionName)
	}
	return names, err
}
