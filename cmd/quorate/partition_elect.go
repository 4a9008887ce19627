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
	preferred, unclean, all, force bool
	candidate                      int32
	change                         changeFlags
	names                          []partitionName
}

func (a *app) partitionElectCommand() *cobra.Command {
	t := &partitionElect{}
	c := &cobra.Command{
		Use:   "elect (--preferred | --unclean) (TOPIC-PARTITION... | --all)",
		Short: "Elect leaders: the preferred replicas, or for want of a better one any",
		Long: "Elect leaders. --preferred makes the first replica the leader if it is in sync. --unclean gives a leader to a partition that\n" +
			"has none, from outside the ISR if nobody in it can lead: records that were acknowledged may be lost then.\n" +
			"It asks the replicas how far they are, shows that, and takes the furthest: the highest leader epoch of the last record, then the\n" +
			"highest end offset. The answer says from which offset on records may be lost. If an unfenced replica does not answer, nothing is\n" +
			"elected without --candidate or --force. --dry-run shows the table and what would be written.",
		Example: "  quorate partition elect --preferred --all\n  quorate partition elect --unclean orders-2 --candidate 3",
	}
	f := c.Flags()
	f.BoolVar(&t.preferred, "preferred", false, "elect the first replica")
	f.BoolVar(&t.unclean, "unclean", false, "elect from outside the ISR if need be")
	f.BoolVar(&t.all, "all", false, "all partitions that can need it; only those that change are shown")
	f.Int32Var(&t.candidate, "candidate", noNode, "with --unclean and one partition: the broker that shall lead (default the furthest that can)")
	f.Lookup("candidate").DefValue = "0" // -1 stands for it
	f.BoolVar(&t.force, "force", false, "with --unclean: go on without unfenced replicas that do not say how far they are")
	t.change.register(c, "")
	c.RunE = requested(a, t.request, func(ctx context.Context, request *controllerpb.ElectLeadersRequest) error {
		if t.unclean {
			return a.partitionElectUnclean(ctx, t)
		}
		return a.partitionElect(ctx, t, request)
	})
	return c
}

func (t *partitionElect) request(c *cobra.Command, args []string) (*controllerpb.ElectLeadersRequest, error) {
	if err := t.change.check(c); err != nil {
		return nil, err
	}
	named := c.Flags().Changed("candidate")
	switch {
	case t.preferred == t.unclean:
		return nil, errors.New("which election? give one of --preferred and --unclean")
	case t.all == (len(args) > 0):
		return nil, errors.New("which partitions? give TOPIC-PARTITION... or --all, and not both")
	case named && (!t.unclean || len(args) != 1):
		return nil, errors.New("--candidate goes with --unclean and one partition")
	case t.force && !t.unclean:
		return nil, errors.New("--force goes with --unclean")
	case named && t.candidate < 0:
		return nil, fmt.Errorf("--candidate is %d; it is a broker id", t.candidate)
	}
	names, err := parsePartitions(args)
	if err != nil {
		return nil, err
	}
	t.names = names
	request := &controllerpb.ElectLeadersRequest{
		Type: controllerpb.ElectionType_ELECTION_TYPE_PREFERRED, AllPartitions: t.all, ValidateOnly: t.change.dryRun, RequestId: node.RandomUUID().String(),
	}
	for _, p := range names {
		request.Partitions = append(request.Partitions, &controllerpb.ElectablePartition{Topic: p.topic, Partition: p.partition})
	}
	return request, nil
}

// partitionElect makes preferred replicas leaders.
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
		it := p.item(itemFailure(r.GetError()), fmt.Sprintf(" leader=%d", r.GetLeader()), object{{"leader", r.GetLeader()}, {"recordsMayBeLost", r.GetRecordsMayBeLost()}})
		elected = elected || it.failed == nil
		done.items = append(done.items, it)
	}
	return a.finishElection(done, t, a.brokersKnow(ctx, c, &t.change, resp, elected))
}

// finishElection prints what was elected; that nothing was to be elected among all partitions is told, too.
func (a *app) finishElection(done changed, t *partitionElect, waited error) error {
	if len(done.items) == 0 && t.all && waited == nil && !a.json() {
		a.printf("no partition needs an election, metadataOffset=%d", done.offset)
	}
	return a.finish(done, t.change.dryRun, waited)
}
