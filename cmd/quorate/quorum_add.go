package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/quorate/node"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

func (a *app) quorumAddCommand() *cobra.Command {
	var change changeFlags
	c := &cobra.Command{
		Use:   "add NODE[@host:port:DIRECTORYID]",
		Short: "Take a controller into the quorum",
		Long: "Take a controller into the quorum. It runs already, formatted with --no-initial-controllers, with controller.quorum.bootstrap.servers\n" +
			"naming this quorum, and has registered; then its node id is enough, for it has told its RAFT address and its directory id. It catches\n" +
			"up without a vote first, at most for --timeout, and is taken out again if it does not. Nothing is changed if another answers at the\n" +
			"address, or nobody within 5 s. If the active controller dies meanwhile, the next one goes on: quorate quorum status tells.",
		Example: "  quorate quorum add 1004\n  quorate quorum add 1004@c4:9292:Zx2GyMCnQ0-pLqMVHDLz7w --timeout 5m",
		Args:    cobra.ExactArgs(1),
	}
	change.registerQuorum(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		request, err := parseNewController(args[0])
		if err != nil {
			return err
		}
		if err := change.check(c); err != nil {
			return err
		}
		request.ValidateOnly, request.RequestId = change.dryRun, node.RandomUUID().String()
		return a.timed(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			return a.quorumAdd(ctx, &change, request)
		})(c, args)
	}
	return c
}

// registerQuorum adds the flags of a command that changes the quorum.
func (f *changeFlags) registerQuorum(c *cobra.Command) {
	f.register(c, "")
	c.Flags().Lookup("wait").Usage = "end when every controller that answers knows of the change"
}

// parseNewController reads NODE or NODE@host:port:DIRECTORYID.
func parseNewController(s string) (*controllerpb.AddControllerRequest, error) {
	if !strings.Contains(s, "@") {
		id, err := parseController(s)
		return &controllerpb.AddControllerRequest{ControllerId: id}, err
	}
	list, err := node.ParseInitialControllers(s)
	if err == nil && len(list) != 1 {
		err = errors.New("one controller is added at a time")
	}
	if err != nil {
		return nil, err
	}
	return &controllerpb.AddControllerRequest{
		ControllerId: int32(list[0].NodeID), DirectoryId: list[0].DirectoryID.Bytes(), RaftAddress: list[0].RaftAddress,
	}, nil
}

func (a *app) quorumAdd(ctx context.Context, change *changeFlags, request *controllerpb.AddControllerRequest) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	resp, err := controllerpb.NewOperatorApiClient(c).AddController(ctx, request)
	if err != nil {
		return err
	}
	id := request.GetControllerId()
	text := fmt.Sprintf("controller %d directoryId=%s raft=%s", id, uuid(resp.GetDirectoryId()), resp.GetRaftAddress())
	if resp.GetWasVoter() {
		text += " (it was a voter already)"
	}
	done := changed{offset: resp.GetMetadataOffset(), verb: "added", list: "controllers", items: []item{{
		name: fmt.Sprintf("controller %d", id), text: text,
		fields: object{{"id", id}, {"directoryId", uuid(resp.GetDirectoryId())}, {"raftAddress", resp.GetRaftAddress()}, {"wasVoter", resp.GetWasVoter()}},
	}}}
	var waited error
	if change.waits() {
		waited = a.awaitControllers(ctx, c, "the new quorum", func(s *controllerpb.NodeStatusResponse) bool {
			return s.GetConfigurationIndex() >= resp.GetConfigurationIndex()
		})
	}
	return a.finish(done, change.dryRun, waited)
}
