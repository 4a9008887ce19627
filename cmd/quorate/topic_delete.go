package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/quorate/node"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

type topicDelete struct {
	byID   bool
	change changeFlags
}

func (a *app) topicDeleteCommand() *cobra.Command {
	t := &topicDelete{}
	c := &cobra.Command{
		Use:   "delete NAME...",
		Short: "Delete topics",
		Long: "Delete topics. Their names are free at once. --wait waits until every unfenced broker knows it,\n" +
			"--wait=data until none holds data of the topics any more.",
		Example: "  quorate topic delete orders --wait=data",
		Args:    cobra.MinimumNArgs(1),
	}
	c.Flags().BoolVar(&t.byID, "by-id", false, "the arguments are topic ids")
	t.change.register(c, "no data of it is left")
	c.RunE = requested(a, t.request, func(ctx context.Context, request *controllerpb.DeleteTopicsRequest) error {
		return a.topicDelete(ctx, t, request)
	})
	return c
}

func (t *topicDelete) request(c *cobra.Command, args []string) (*controllerpb.DeleteTopicsRequest, error) {
	if err := t.change.check(c); err != nil {
		return nil, err
	}
	request := &controllerpb.DeleteTopicsRequest{ValidateOnly: t.change.dryRun, RequestId: node.RandomUUID().String()}
	for _, arg := range args {
		if !t.byID {
			request.Topics = append(request.Topics, &controllerpb.DeletableTopic{Name: &arg})
			continue
		}
		id, err := image.ParseUUID(arg)
		if err != nil {
			return nil, fmt.Errorf("--by-id: %w", err)
		}
		request.Topics = append(request.Topics, &controllerpb.DeletableTopic{TopicId: id.Bytes()})
	}
	return request, nil
}

func (a *app) topicDelete(ctx context.Context, t *topicDelete, request *controllerpb.DeleteTopicsRequest) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	resp, err := controllerpb.NewOperatorApiClient(c).DeleteTopics(ctx, request)
	if err != nil {
		return err
	}
	done := changed{offset: resp.GetMetadataOffset(), records: resp.GetRecords(), verb: "deleted"}
	var deleted [][]byte
	for _, r := range resp.GetTopics() {
		it := item{name: r.GetName(), failed: itemFailure(r.GetError())}
		it.fields = object{{"name", r.GetName()}, {"topicId", uuid(r.GetTopicId())}}
		it.text = fmt.Sprintf("topic %s %s", r.GetName(), uuid(r.GetTopicId()))
		if it.failed == nil {
			deleted = append(deleted, r.GetTopicId())
		}
		done.items = append(done.items, it)
	}
	var waited error
	if len(deleted) > 0 && t.change.waits() {
		if !t.change.waitsForData() {
			deleted = nil
		}
		waited = a.newWaiter(c, resp.GetMetadataOffset()).brokers(ctx, resp.GetUnfencedBrokers(), deleted)
	}
	return a.finish(done, t.change.dryRun, waited)
}
