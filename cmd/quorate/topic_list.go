package main

import (
	"context"

	"github.com/spf13/cobra"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

func (a *app) topicListCommand() *cobra.Command {
	var r readFlags
	var deleting bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List topics by name",
		Example: "  quorate topic list -o json\n  quorate topic list --deleting",
		Args:    cobra.NoArgs,
	}
	c.Flags().BoolVar(&deleting, "deleting", false, "deleted topics whose data is not gone everywhere, with the state on each broker")
	r.register(c)
	c.RunE = a.timed(func(ctx context.Context, _ *cobra.Command, _ []string) error {
		if deleting {
			return a.topicListDeleting(ctx, &r)
		}
		return a.topicList(ctx, &r)
	})
	return c
}

func (a *app) topicList(ctx context.Context, r *readFlags) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	offset, topics, _, err := a.describe(ctx, c, r, &controllerpb.DescribeTopicsRequest{})
	if err != nil {
		return err
	}
	if !a.json() {
		a.printf("metadataOffset=%d", offset)
		for _, t := range topics {
			a.printf("topic %s %s partitions=%d", t.GetName(), uuid(t.GetTopicId()), len(t.GetPartitions()))
		}
		return nil
	}
	out := list{}
	for _, t := range topics {
		out = append(out, object{{"name", t.GetName()}, {"topicId", uuid(t.GetTopicId())}, {"partitions", len(t.GetPartitions())}})
	}
	a.print(object{{"metadataOffset", offset}, {"topics", out}})
	return nil
}
