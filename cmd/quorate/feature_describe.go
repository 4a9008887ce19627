package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

func (a *app) featureDescribeCommand() *cobra.Command {
	var r readFlags
	c := &cobra.Command{
		Use:   "describe",
		Short: "Show the finalized level of each feature, and the levels that the nodes support",
		Long: "Show the finalized level of each feature, 0 for one that is not in use, and the levels that every registered node supports.\n" +
			"Where nodes differ each is shown. A level can be finalized if it is in the range of all of them.",
		Example: "  quorate feature describe -o json",
		Args:    cobra.NoArgs,
	}
	r.register(c)
	c.RunE = a.timed(func(ctx context.Context, _ *cobra.Command, _ []string) error { return a.featureDescribe(ctx, &r) })
	return c
}

func (a *app) featureDescribe(ctx context.Context, r *readFlags) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	var resp *controllerpb.DescribeFeaturesResponse
	err = a.read(ctx, c, r, func(ctx context.Context, reader controllerpb.ReaderApiClient) (err error) {
		resp, err = reader.DescribeFeatures(ctx, &controllerpb.DescribeFeaturesRequest{Options: r.options()})
		return err
	})
	if err != nil {
		return err
	}
	if a.json() {
		features := list{}
		for _, f := range resp.GetFeatures() {
			features = append(features, featureJSON(f))
		}
		a.print(object{{"metadataOffset", resp.GetMetadataOffset()}, {"features", features}})
		return nil
	}
	a.printf("metadataOffset=%d", resp.GetMetadataOffset())
	for _, f := range resp.GetFeatures() {
		a.printFeature(f)
	}
	return nil
}

// commonLevels are those that every node supports; low is above high if there is none.
func commonLevels(f *controllerpb.FeatureDescription) (low, high int32, alike bool) {
	nodes := f.GetNodes()
	if len(nodes) == 0 {
		return 0, 0, true
	}
	low, high, alike = nodes[0].GetMin(), nodes[0].GetMax(), true
	for _, n := range nodes[1:] {
		alike = alike && n.GetMin() == nodes[0].GetMin() && n.GetMax() == nodes[0].GetMax()
		low, high = max(low, n.GetMin()), min(high, n.GetMax())
	}
	return low, high, alike
}

func (a *app) printFeature(f *controllerpb.FeatureDescription) {
	low, high, alike := commonLevels(f)
	supported := fmt.Sprintf("%d-%d", low, high)
	if low > high {
		supported = "none"
	}
	a.printf("feature %s level=%d supported=%s", f.GetName(), f.GetFinalizedLevel(), supported)
	if alike {
		return
	}
	for _, n := range f.GetNodes() {
		a.printf("  %s %d supports %d-%d", roleOf(n), n.GetNodeId(), n.GetMin(), n.GetMax())
	}
}

func featureJSON(f *controllerpb.FeatureDescription) object {
	low, high, _ := commonLevels(f)
	nodes := list{}
	for _, n := range f.GetNodes() {
		nodes = append(nodes, object{{"id", n.GetNodeId()}, {"role", roleOf(n)}, {"minLevel", n.GetMin()}, {"maxLevel", n.GetMax()}})
	}
	return object{{"name", f.GetName()}, {"finalizedLevel", f.GetFinalizedLevel()}, {"minLevel", low}, {"maxLevel", high}, {"nodes", nodes}}
}

func roleOf(n *controllerpb.FeatureSupport) string {
	if n.GetController() {
		return "controller"
	}
	return "broker"
}
