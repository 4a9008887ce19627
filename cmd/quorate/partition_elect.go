package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/quorate/node"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

type partitionElect struct {
	preferred, unclean, all bool
	candidate               int32
	change                  changeFlags
}

func (a *app) partitionElectCommand() *cobra.Command {
	t := &partitionElect{}
	c := &cobra.Command{
		Use:   "elect (--preferred | --unclean) (TOPIC-PARTITION... | --all)",
		Short: "Elect leaders: the preferred replicas, or for want of a better one any",
		Long: "Elect leaders. --preferred makes the first replica the leader if it is in sync. --unclean gives a leader to a partition that\n" +
			"has none, from outside the ISR if nobody in it can lead: records that were acknowledged may be lost then, and the answer says so.",
		Example: "  quorate partition elect --preferred --all\n  quorate partition elect --unclean orders-2 --candidate 3",
	}
	f := c.Flags()
	f.BoolVar(&t.preferred, "preferred", false, "elect the first replica")
	f.BoolVar(&t.unclean, "unclean", false, "elect from outside the ISR if need be")
	f.BoolVar(&t.all, "all", false, "all partitions that can need it; only those that change are shown")
	f.Int32Var(&t.candidate, "candidate", noNode, "with --unclean and one partition: the broker that shall lead (default the first that can)")
	f.Lookup("candidate").DefValue = "0" // -1 stands for it
	t.change.register(c, "")
	c.RunE = func(c *cobra.Command, args []string) error {
		request, err := t.request(c, args)
		if err != nil {
			return err
		}
		return a.timed(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			return a.partitionElect(ctx, t, request)
		})(c, args)
	}
	return c
}

func (t *partitionElect) request(c *cobra.Command, args []string) (*controllerpb.ElectLeadersRequest, error) {
	if err := t.change.check(c); err != nil {
		return nil, err
	}
	named := c.Flags().Changed("candidate")
	switch {
	case t.preferred == t.unclean:
		return nil, errors.New("which election? give --preferred or --unclean")
	case t.all == (len(args) > 0):
		return nil, errors.New("which partitions? give TOPIC-PARTITION..., or --all")
	case named && (!t.unclean || len(args) != 1):
		return nil, errors.New("--candidate goes with --unclean and one partition")
	case named && t.candidate < 0:
		return nil, fmt.Errorf("--candidate is %d; it is a broker id", t.candidate)
	}
	names, err := parsePartitions(args)
	if err != nil {
		return nil, err
	}
	request := &controllerpb.ElectLeadersRequest{
		Type: controllerpb.ElectionType_ELECTION_TYPE_PREFERRED, AllPartitions: t.all, ValidateOnly: t.change.dryRun, RequestId: node.RandomUUID().String(),
	}
	if t.unclean {
		request.Type = controllerpb.ElectionType_ELECTION_TYPE_UNCLEAN
	}
	for _, p := range names {
		one := &controllerpb.ElectablePartition{Topic: p.topic, Partition: p.partition}
		if named {
			one.Candidate = &t.candidate
		}
		request.Partitions = append(request.Partitions, one)
	}
	return request, nil
}

func (a *app) partitionElect(ctx context.Context, t *partitionElect, request *controllerpb.ElectLeadersRequest) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	resp, err := controllerpb.NewOperatorApiClient(c).ElectLeaders(ctx, request)
	if err != nil {
		return err
	}
	done := changed{offset: resp.GetMetadataOffset(), records: resp.GetRecords(), verb: "elected", list: "partitions"}
	elected := false
	for _, r := range resp.GetResults() {
		p := partitionName{r.GetTopic(), r.GetPartition()}
		text := fmt.Sprintf(" leader=%d", r.GetLeader())
		if r.GetRecordsMayBeLost() {
			text += " (acknowledged records may be lost: it was not in the ISR)"
		}
		it := p.item(itemFailure(r.GetError()), text, object{{"leader", r.GetLeader()}, {"recordsMayBeLost", r.GetRecordsMayBeLost()}})
		elected = elected || it.failed == nil
		done.items = append(done.items, it)
	}
	var waited error
	if elected && t.change.waits() {
		waited = a.newWaiter(c, resp.GetMetadataOffset()).brokers(ctx, resp.GetUnfencedBrokers(), nil)
	}
	return a.finish(done, t.change.dryRun, waited)
}
