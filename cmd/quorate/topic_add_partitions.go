package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/quorate/node"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

type topicAddPartitions struct {
	partitions int32
	assignment string
	change     changeFlags
}

func (a *app) topicAddPartitionsCommand() *cobra.Command {
	t := &topicAddPartitions{}
	c := &cobra.Command{
		Use:   "add-partitions NAME... --partitions N",
		Short: "Give topics more partitions",
		Long: "Give topics more partitions, and wait as create does. --partitions is their number afterwards. Records stay where they are;\n" +
			"keys that producers send go to other partitions from then on.",
		Example: "  quorate topic add-partitions orders --partitions 12\n" +
			"  quorate topic add-partitions orders --partitions 5 --replica-assignment 1:2:3,2:3:1",
		Args: cobra.MinimumNArgs(1),
	}
	c.Flags().Int32Var(&t.partitions, "partitions", 0, "number of partitions afterwards")
	c.Flags().StringVar(&t.assignment, "replica-assignment", "", "brokers of each new partition, the preferred leader first: 1:2:3,2:3:1")
	t.change.register(c, "")
	c.RunE = requested(a, t.request, func(ctx context.Context, request *controllerpb.CreatePartitionsRequest) error {
		return a.topicAddPartitions(ctx, t, request)
	})
	return c
}

func (t *topicAddPartitions) request(c *cobra.Command, names []string) (*controllerpb.CreatePartitionsRequest, error) {
	if err := t.change.check(c); err != nil {
		return nil, err
	}
	if !c.Flags().Changed("partitions") {
		return nil, errors.New("--partitions is missing: the number of partitions afterwards")
	}
	assignments, err := parseAssignment(c, t.assignment)
	if err != nil {
		return nil, err
	}
	request := &controllerpb.CreatePartitionsRequest{ValidateOnly: t.change.dryRun, RequestId: node.RandomUUID().String()}
	for _, name := range names {
		topic := &controllerpb.CreatePartitionsTopic{Name: name, Count: t.partitions}
		for _, list := range assignments {
			topic.Assignments = append(topic.Assignments, &metadatapb.BrokerIds{Ids: list.GetBrokerIds()})
		}
		request.Topics = append(request.Topics, topic)
	}
	return request, nil
}

func (a *app) topicAddPartitions(ctx context.Context, t *topicAddPartitions, request *controllerpb.CreatePartitionsRequest) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	resp, err := controllerpb.NewOperatorApiClient(c).CreatePartitions(ctx, request)
	if err != nil {
		return err
	}
	done := changed{offset: resp.GetMetadataOffset(), records: resp.GetRecords(), verb: "extended"}
	var extended []string
	for _, r := range resp.GetTopics() {
		it := item{name: r.GetName(), failed: itemFailure(r.GetError())}
		it.fields = object{{"name", r.GetName()}, {"partitions", t.partitions}}
		it.text = fmt.Sprintf("topic %s partitions=%d", r.GetName(), t.partitions)
		if it.failed == nil {
			extended = append(extended, r.GetName())
		}
		done.items = append(done.items, it)
	}
	var waited error
	if len(extended) > 0 && t.change.waits() {
		waited = a.newWaiter(c, resp.GetMetadataOffset()).visible(ctx, resp.GetUnfencedBrokers(), extended)
	}
	return a.finish(done, t.change.dryRun, waited)
}
