package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/quorate/node"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

type topicCreate struct {
	partitions, replicationFactor int32
	assignment                    string
	configs                       []string
	change                        changeFlags
}

func (a *app) topicCreateCommand() *cobra.Command {
	t := &topicCreate{}
	c := &cobra.Command{
		Use:   "create NAME...",
		Short: "Create topics",
		Long: "Create topics, and wait until every unfenced broker has made its replicas and every partition's leader leads.\n" +
			"Without --partitions or --replication-factor the cluster's defaults count.",
		Example: "  quorate topic create orders --partitions 12 --replication-factor 3 --config min.insync.replicas=2\n" +
			"  quorate topic create pinned --replica-assignment 1:2:3,2:3:1",
		Args: cobra.MinimumNArgs(1),
	}
	f := c.Flags()
	f.Int32Var(&t.partitions, "partitions", 0, "number of partitions")
	f.Int32Var(&t.replicationFactor, "replication-factor", 0, "replicas a partition")
	f.StringVar(&t.assignment, "replica-assignment", "", "brokers of each partition, the preferred leader first: 1:2:3,2:3:1")
	f.StringArrayVar(&t.configs, "config", nil, "key=value of the topic; may be repeated")
	t.change.register(c, "")
	c.RunE = requested(a, t.request, func(ctx context.Context, request *controllerpb.CreateTopicsRequest) error {
		return a.topicCreate(ctx, t, request)
	})
	return c
}

// request builds what is sent; its error is one of the command line.
func (t *topicCreate) request(c *cobra.Command, names []string) (*controllerpb.CreateTopicsRequest, error) {
	if err := t.change.check(c); err != nil {
		return nil, err
	}
	assignments, err := parseAssignment(c, t.assignment)
	if err != nil {
		return nil, err
	}
	if assignments != nil && (c.Flags().Changed("partitions") || c.Flags().Changed("replication-factor")) {
		return nil, errors.New("--replica-assignment says how many partitions and replicas there are; leave --partitions and --replication-factor out")
	}
	request := &controllerpb.CreateTopicsRequest{ValidateOnly: t.change.dryRun, RequestId: node.RandomUUID().String()}
	for _, name := range names {
		topic := &controllerpb.CreatableTopic{Name: name, Assignments: assignments, TopicId: node.RandomUUID().Bytes()}
		if c.Flags().Changed("partitions") {
			topic.Partitions = &t.partitions
		}
		if c.Flags().Changed("replication-factor") {
			topic.ReplicationFactor = &t.replicationFactor
		}
		for _, pair := range t.configs {
			key, value, ok := strings.Cut(pair, "=")
			if !ok {
				return nil, fmt.Errorf("--config %s: want key=value", pair)
			}
			topic.Configs = append(topic.Configs, &controllerpb.ConfigEntry{Name: key, Value: &value})
		}
		request.Topics = append(request.Topics, topic)
	}
	return request, nil
}

// parseAssignment parses a command's --replica-assignment, 1:2:3,2:3:1, as Kafka's kafka-topics does. It is nil if it is left out.
func parseAssignment(c *cobra.Command, v string) ([]*controllerpb.ReplicaAssignment, error) {
	switch {
	case !c.Flags().Changed("replica-assignment"):
		return nil, nil
	case v == "":
		return nil, errors.New("--replica-assignment is empty; name the brokers of each partition, as in 1:2:3,2:3:1, or leave it out")
	}
	var out []*controllerpb.ReplicaAssignment
	for i, part := range strings.Split(v, ",") {
		r := &controllerpb.ReplicaAssignment{Partition: int32(i)}
		for id := range strings.SplitSeq(part, ":") {
			n, err := strconv.ParseInt(id, 10, 32)
			if err != nil {
				return nil, fmt.Errorf("--replica-assignment: %q is not a broker id in %q", id, part)
			}
			r.BrokerIds = append(r.BrokerIds, int32(n))
		}
		out = append(out, r)
	}
	return out, nil
}

func (a *app) topicCreate(ctx context.Context, t *topicCreate, request *controllerpb.CreateTopicsRequest) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	resp, err := controllerpb.NewOperatorApiClient(c).CreateTopics(ctx, request)
	if err != nil {
		return err
	}
	done := changed{offset: resp.GetMetadataOffset(), records: resp.GetRecords(), verb: "created"}
	var created []string
	for _, r := range resp.GetTopics() {
		it := item{name: r.GetName(), failed: itemFailure(r.GetError())}
		it.fields = object{
			{"name", r.GetName()}, {"topicId", uuid(r.GetTopicId())}, {"partitions", r.GetPartitions()}, {"replicationFactor", r.GetReplicationFactor()},
		}
		it.text = fmt.Sprintf("topic %s %s partitions=%d replicationFactor=%d", r.GetName(), uuid(r.GetTopicId()), r.GetPartitions(), r.GetReplicationFactor())
		if it.failed == nil {
			created = append(created, r.GetName())
		}
		done.items = append(done.items, it)
	}
	var waited error
	if len(created) > 0 && t.change.waits() {
		waited = a.newWaiter(c, resp.GetMetadataOffset()).visible(ctx, resp.GetUnfencedBrokers(), created)
	}
	return a.finish(done, t.change.dryRun, waited)
}
