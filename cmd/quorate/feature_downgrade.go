package main

import (
	"github.com/spf13/cobra"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

func (a *app) featureDowngradeCommand() *cobra.Command {
	t := &featureUpdate{verb: "downgraded", kind: controllerpb.FeatureUpdateType_FEATURE_UPDATE_TYPE_SAFE_DOWNGRADE}
	c := a.featureUpdateCommand(t, &cobra.Command{
		Use:   "downgrade FEATURE=LEVEL...",
		Short: "Finalize lower levels of features; 0 takes one out of use",
		Long: "Finalize lower levels of features, all that are named or none. Level 0 takes a feature out of use.\n" +
			"Without eligible leader replicas no partition keeps an ELR. It is refused if it would be forgotten who may lead a partition\n" +
			"that has no leader; --unsafe does it all the same, and keeps one candidate.",
		Example: "  quorate feature downgrade eligible.leader.replicas.version=0 --dry-run",
	})
	c.Flags().BoolVar(&t.unsafe, "unsafe", false, "also where metadata is lost that an election may need")
	return c
}
