package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
)

func (a *app) topicDescribeCommand() *cobra.Command {
	var r readFlags
	request := &controllerpb.DescribeTopicsRequest{}
	c := &cobra.Command{
		Use:   "describe [NAME...]",
		Short: "Show topics with their partitions",
		Long: "Show topics with their partitions; all topics if none is named. Of a partition le is the leader epoch, which grows with every\n" +
			"election, and pe the partition epoch, which grows with every change.",
		Example: "  quorate topic describe orders -o json\n  quorate topic describe --unhealthy",
	}
	c.Flags().BoolVar(&request.States, "states", false, "with the state of each partition and replica")
	c.Flags().BoolVar(&request.Unhealthy, "unhealthy", false, "only partitions that are not healthy, with the reason")
	r.register(c)
	c.RunE = a.timed(func(ctx context.Context, _ *cobra.Command, args []string) error {
		request.Names = args
		return a.topicDescribe(ctx, &r, request)
	})
	return c
}

// reportUnknown tells which topics do not exist, and returns the first of these errors, if any.
func (a *app) reportUnknown(topics []string, offset int64) *failure {
	var first *failure
	for _, name := range topics {
		f := refused(controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION,
			"topic %s does not exist at metadata offset %d; quorate topic list shows all", controllerpb.Echo(name), offset)
		if first == nil {
			first = f
		}
		fmt.Fprintf(a.stderr, "error: %v\n", f)
	}
	return first
}

func (a *app) topicDescribe(ctx context.Context, r *readFlags, request *controllerpb.DescribeTopicsRequest) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	offset, topics, unknown, err := a.describe(ctx, c, r, request)
	if err != nil {
		return err
	}
	first := a.reportUnknown(unknown, offset)
	if a.json() {
		o := object{{"metadataOffset", offset}, {"topics", topicsJSON(topics)}}
		if first != nil {
			o = append(o, field{"error", first.json()})
		}
		a.print(o)
	} else {
		a.printTopics(offset, topics)
	}
	if first != nil {
		return shown{first.exit}
	}
	return nil
}

// describe reads topics, in pieces that are put together.
func (a *app) describe(ctx context.Context, c *client.Client, r *readFlags, request *controllerpb.DescribeTopicsRequest) (offset int64, topics []*controllerpb.TopicDescription, unknown []string, err error) {
	request.Options = r.options()
	err = a.read(ctx, c, r, func(ctx context.Context, reader controllerpb.ReaderApiClient) error {
		offset, topics, unknown = -1, nil, nil
		stream, err := reader.DescribeTopics(ctx, request)
		if err != nil {
			return err
		}
		return eachPiece(stream, func(piece *controllerpb.DescribeTopicsResponse) error {
			offset = piece.GetMetadataOffset()
			topics = append(topics, piece.GetTopics()...)
			unknown = append(unknown, piece.GetUnknown()...)
			return nil
		})
	})
	return offset, topics, unknown, err
}

func (a *app) printTopics(offset int64, topics []*controllerpb.TopicDescription) {
	a.printf("metadataOffset=%d", offset)
	for _, t := range topics {
		line := "topic " + t.GetName() + " " + uuid(t.GetTopicId())
		for _, cv := range t.GetConfigs() {
			line += " " + cv.GetName() + "=" + cv.GetValue()
		}
		a.printf("%s", line)
		for _, p := range t.GetPartitions() {
			line := partitionOf(p.GetState()).String()
			if p.GetReason() != "" {
				line += " (" + p.GetReason() + ")"
			}
			a.printf("  %d %s", p.GetState().GetPartition(), line)
			if len(p.GetReplicaStates()) > 0 {
				a.printf("    state=%s replicas %s", partitionState(p.GetPartitionState()), statesText(p.GetReplicaStates()))
			}
		}
	}
}

func topicsJSON(topics []*controllerpb.TopicDescription) list {
	out := list{}
	for _, t := range topics {
		configs := object{}
		for _, cv := range t.GetConfigs() {
			configs = append(configs, field{cv.GetName(), cv.GetValue()})
		}
		partitions := list{}
		for _, p := range t.GetPartitions() {
			partitions = append(partitions, partitionJSON(p))
		}
		out = append(out, object{{"name", t.GetName()}, {"topicId", uuid(t.GetTopicId())}, {"configs", configs}, {"partitions", partitions}})
	}
	return out
}

func partitionJSON(d *controllerpb.PartitionDescription) object {
	s := d.GetState()
	leader := int32(-1)
	if s.Leader != nil {
		leader = s.GetLeader()
	}
	o := object{
		{"partition", s.GetPartition()}, {"leader", leader}, {"leaderEpoch", s.GetLeaderEpoch()}, {"partitionEpoch", s.GetPartitionEpoch()},
		{"replicas", numbers(s.GetReplicas())}, {"isr", numbers(s.GetIsr())}, {"elr", numbers(s.GetElr())}, {"lastKnownElr", numbers(s.GetLastKnownElr())},
		{"addingReplicas", numbers(s.GetAddingReplicas())}, {"removingReplicas", numbers(s.GetRemovingReplicas())},
		{"leaderRecoveryState", partitionOf(s).RecoveryState()}, {"reason", d.GetReason()},
	}
	if len(d.GetReplicaStates()) > 0 {
		o = append(o, field{"state", partitionState(d.GetPartitionState())}, field{"replicaStates", statesJSON(d.GetReplicaStates())})
	}
	return o
}
