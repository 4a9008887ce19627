package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/quorate/node"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

type partitionReassign struct {
	plan, replicas string
	keepFactor     bool
	change         changeFlags
}

func (a *app) partitionReassignCommand() *cobra.Command {
	t := &partitionReassign{}
	c := &cobra.Command{
		Use:   "reassign (TOPIC-PARTITION --replicas ID,... | --plan FILE)",
		Short: "Move replicas to other brokers",
		Long: "Move replicas to other brokers: new ones are added, and when they are in sync the old ones leave. A partition that is being\n" +
			"moved already gets the new target. --wait ends when the brokers know of it, --wait=data when the moves are complete.\n" +
			`A plan is a file in the format of kafka-reassign-partitions: {"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[2,3,1]}]}.`,
		Example: "  quorate partition reassign orders-0 --replicas 2,3,1 --wait=data --timeout 10m\n" +
			"  quorate partition reassign --plan moves.json --dry-run",
		Args: cobra.MaximumNArgs(1),
	}
	f := c.Flags()
	f.StringVar(&t.plan, "plan", "", "file with the moves, JSON as Kafka's tools write it")
	f.StringVar(&t.replicas, "replicas", "", "brokers that shall have the partition, the preferred leader first: 2,3,1")
	f.BoolVar(&t.keepFactor, "keep-replication-factor", false, "refuse a target with another number of replicas")
	t.change.register(c, "the moves are complete")
	c.RunE = func(c *cobra.Command, args []string) error {
		moves, err := t.moves(a, c, args)
		if err != nil {
			return err
		}
		return a.timed(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			return a.partitionReassign(ctx, t, moves)
		})(c, args)
	}
	return c
}

func (t *partitionReassign) moves(a *app, c *cobra.Command, args []string) ([]move, error) {
	if err := t.change.check(c); err != nil {
		return nil, err
	}
	switch single := len(args) == 1; {
	case single && t.plan != "", t.replicas != "" && t.plan != "":
		return nil, errors.New("--plan names the partitions and replicas; leave the partition and --replicas out")
	case t.plan != "":
		return readPlan(a.env.FS, t.plan)
	case !single:
		return nil, errors.New("what shall move? give TOPIC-PARTITION with --replicas, or --plan FILE")
	case t.replicas == "":
		return nil, errors.New("--replicas is missing: the brokers that shall have the partition; quorate partition cancel ends a move")
	}
	names, err := parsePartitions(args)
	if err != nil {
		return nil, err
	}
	replicas, err := parseBrokers("--replicas", t.replicas, ",")
	if err != nil {
		return nil, err
	}
	return []move{{names[0], replicas}}, nil
}

func (a *app) partitionReassign(ctx context.Context, t *partitionReassign, moves []move) error {
	request := &controllerpb.AlterPartitionReassignmentsRequest{
		ValidateOnly: t.change.dryRun, RequestId: node.RandomUUID().String(), KeepReplicationFactor: t.keepFactor,
	}
	for _, m := range moves {
		request.Partitions = append(request.Partitions, &controllerpb.ReassignablePartition{
			Topic: m.topic, Partition: m.partition, Replicas: &metadatapb.BrokerIds{Ids: m.replicas},
		})
	}
	return a.alterReassignments(ctx, &t.change, request, "reassigned", func(i int) (string, object) {
		return " replicas=" + image.FormatReplicas(ids(moves[i].replicas)), object{{"replicas", moves[i].replicas}}
	})
}

// alterReassignments sends moves or their ends. More gives what a partition's line and JSON say besides its name.
func (a *app) alterReassignments(ctx context.Context, change *changeFlags, request *controllerpb.AlterPartitionReassignmentsRequest, verb string, more func(i int) (string, object)) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	resp, err := controllerpb.NewOperatorApiClient(c).AlterPartitionReassignments(ctx, request)
	if err != nil {
		return err
	}
	done := changed{offset: resp.GetMetadataOffset(), records: resp.GetRecords(), verb: verb, list: "partitions"}
	var accepted []partitionName
	for i, r := range resp.GetResults() {
		p := partitionName{r.GetTopic(), r.GetPartition()}
		text, fields := more(i)
		it := p.item(itemFailure(r.GetError()), text, fields)
		if it.failed == nil {
			accepted = append(accepted, p)
		}
		done.items = append(done.items, it)
	}
	var waited error
	if len(accepted) > 0 && change.waits() {
		w := a.newWaiter(c, resp.GetMetadataOffset())
		if waited = w.brokers(ctx, resp.GetUnfencedBrokers(), nil); waited == nil && change.waitsForData() {
			waited = w.moved(ctx, accepted)
		}
	}
	return a.finish(done, change.dryRun, waited)
}

// item is a partition of a change.
func (p partitionName) item(failed *failure, text string, fields object) item {
	key := object{{"topic", p.topic}, {"partition", p.partition}}
	return item{name: p.String(), key: key, failed: failed, text: "partition " + p.String() + text, fields: append(key[:2:2], fields...)}
}

// moved waits until none of the partitions is being moved.
func (w *waiter) moved(ctx context.Context, partitions []partitionName) error {
	topics := map[string]bool{}
	request := &controllerpb.ListReassignmentsRequest{Options: &controllerpb.ReadOptions{MinOffset: &w.offset}}
	asked := map[partitionName]bool{}
	for _, p := range partitions {
		asked[p] = true
		if !topics[p.topic] {
			topics[p.topic] = true
			request.Topics = append(request.Topics, p.topic)
		}
	}
	for {
		resp, err := controllerpb.NewReaderApiClient(w.client).ListReassignments(ctx, request)
		var moving []string
		for _, r := range resp.GetReassignments() {
			if p := (partitionName{r.GetTopic(), r.GetState().GetPartition()}); asked[p] {
				moving = append(moving, p.String())
			}
		}
		if err == nil && len(moving) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			what := "it is not known which partitions are still being moved"
			if len(moving) > 0 {
				what = "still being moved: " + strings.Join(moving, ", ")
			}
			return unavailable(controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT, "committed at offset %d; %s; quorate partition reassignments shows them", w.offset, what)
		case <-time.After(waitRecheck):
		}
	}
}
