package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/quorate/node"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// featureUpdate is feature upgrade and feature downgrade.
type featureUpdate struct {
	change changeFlags
	verb   string
	kind   controllerpb.FeatureUpdateType
	unsafe bool
}

func (a *app) featureUpgradeCommand() *cobra.Command {
	t := &featureUpdate{verb: "upgraded", kind: controllerpb.FeatureUpdateType_FEATURE_UPDATE_TYPE_UPGRADE}
	return a.featureUpdateCommand(t, &cobra.Command{
		Use:   "upgrade FEATURE=LEVEL...",
		Short: "Finalize higher levels of features",
		Long: "Finalize higher levels of features, all that are named or none. Every registered node, fenced or not, must support the level;\n" +
			"from then on a node that does not is refused when it registers.",
		Example: "  quorate feature upgrade eligible.leader.replicas.version=1 --dry-run",
	})
}

func (a *app) featureUpdateCommand(t *featureUpdate, c *cobra.Command) *cobra.Command {
	c.Args = cobra.MinimumNArgs(1)
	t.change.register(c, "")
	c.RunE = requested(a, t.request, func(ctx context.Context, request *controllerpb.UpdateFeaturesRequest) error {
		return a.featureUpdate(ctx, t, request)
	})
	return c
}

func (t *featureUpdate) request(c *cobra.Command, args []string) (*controllerpb.UpdateFeaturesRequest, error) {
	if err := t.change.check(c); err != nil {
		return nil, err
	}
	kind := t.kind
	if t.unsafe {
		kind = controllerpb.FeatureUpdateType_FEATURE_UPDATE_TYPE_UNSAFE_DOWNGRADE
	}
	request := &controllerpb.UpdateFeaturesRequest{ValidateOnly: t.change.dryRun, RequestId: node.RandomUUID().String()}
	for _, arg := range args {
		name, level, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q: want FEATURE=LEVEL", arg)
		}
		n, err := strconv.ParseUint(level, 10, 15)
		if err != nil {
			return nil, fmt.Errorf("%q: the level is a whole number from 0 to 32767", arg)
		}
		request.Updates = append(request.Updates, &controllerpb.FeatureUpdate{Name: name, Level: int32(n), Type: kind})
	}
	return request, nil
}

func (a *app) featureUpdate(ctx context.Context, t *featureUpdate, request *controllerpb.UpdateFeaturesRequest) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	resp, err := controllerpb.NewOperatorApiClient(c).UpdateFeatures(ctx, request)
	if err != nil {
		return err
	}
	done := changed{offset: resp.GetMetadataOffset(), records: resp.GetRecords(), verb: t.verb, list: "features"}
	for _, u := range request.GetUpdates() {
		done.items = append(done.items, item{
			name: "feature " + u.GetName(), text: fmt.Sprintf("feature %s level=%d", u.GetName(), u.GetLevel()),
			fields: object{{"name", u.GetName()}, {"level", u.GetLevel()}},
		})
	}
	return a.finish(done, t.change.dryRun, a.brokersKnow(ctx, c, &t.change, resp, true))
}
