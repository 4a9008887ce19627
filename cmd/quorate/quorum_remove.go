package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/quorate/node"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

func (a *app) quorumRemoveCommand() *cobra.Command {
	var change changeFlags
	var force bool
	c := &cobra.Command{
		Use:   "remove NODE[:DIRECTORYID]",
		Short: "Take a controller out of the quorum for good",
		Long: "Take a controller out of the quorum for good: with this directory it never comes back, with another one it may (quorate quorum add).\n" +
			"The active controller hands over first. It is refused if fewer than a majority of the voters that are left would have caught up.\n" +
			"The process of the controller goes on, reports state removed, and may be stopped.",
		Example: "  quorate quorum remove 1003\n  quorate quorum remove 1003:Zx2GyMCnQ0-pLqMVHDLz7w --dry-run",
		Args:    cobra.ExactArgs(1),
	}
	change.registerQuorum(c)
	c.Flags().BoolVar(&force, "force", false, "also if the voters that are left cannot work before others are back")
	c.RunE = func(c *cobra.Command, args []string) error {
		request, err := parseFormerController(args[0])
		if err != nil {
			return err
		}
		if err := change.check(c); err != nil {
			return err
		}
		request.Force, request.ValidateOnly, request.RequestId = force, change.dryRun, node.RandomUUID().String()
		return a.timed(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			return a.quorumRemove(ctx, &change, request)
		})(c, args)
	}
	return c
}

// parseFormerController reads NODE or NODE:DIRECTORYID.
func parseFormerController(s string) (*controllerpb.RemoveControllerRequest, error) {
	text, directory, named := strings.Cut(s, ":")
	id, err := parseController(text)
	if err != nil || !named {
		return &controllerpb.RemoveControllerRequest{ControllerId: id}, err
	}
	of, err := image.ParseUUID(directory)
	if err != nil {
		return nil, fmt.Errorf("%q: directory id: %w", s, err)
	}
	return &controllerpb.RemoveControllerRequest{ControllerId: id, DirectoryId: of.Bytes()}, nil
}

func (a *app) quorumRemove(ctx context.Context, change *changeFlags, request *controllerpb.RemoveControllerRequest) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	resp, err := controllerpb.NewOperatorApiClient(c).RemoveController(ctx, request)
	if err != nil {
		return err
	}
	id := request.GetControllerId()
	text := fmt.Sprintf("controller %d directoryId=%s", id, uuid(resp.GetDirectoryId()))
	if resp.GetWasRemoved() {
		text += " (it was removed before)"
	}
	done := changed{offset: resp.GetMetadataOffset(), records: resp.GetRecords(), verb: "removed", list: "controllers", items: []item{{
		name: fmt.Sprintf("controller %d", id), text: text,
		fields: object{{"id", id}, {"directoryId", uuid(resp.GetDirectoryId())}, {"wasRemoved", resp.GetWasRemoved()}},
	}}}
	var waited error
	if change.waits() {
		waited = a.newWaiter(c, resp.GetMetadataOffset()).brokers(ctx, resp.GetUnfencedBrokers(), nil)
		if waited == nil {
			waited = a.awaitControllers(ctx, c, "the new quorum", func(s *controllerpb.NodeStatusResponse) bool {
				return s.GetConfigurationIndex() >= resp.GetConfigurationIndex() && s.GetMetadataOffset() >= resp.GetMetadataOffset()
			})
		}
	}
	return a.finish(done, change.dryRun, waited)
}
