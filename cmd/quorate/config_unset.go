package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

func (a *app) configUnsetCommand() *cobra.Command {
	t := &configChange{verb: "unset", parse: func(arg string) (*controllerpb.ConfigChange, error) {
		if strings.Contains(arg, "=") {
			return nil, fmt.Errorf("%q: want the KEY alone", arg)
		}
		return &controllerpb.ConfigChange{Name: arg, Operation: controllerpb.ConfigOperation_CONFIG_OPERATION_DELETE}, nil
	}}
	return a.configChangeCommand(t, &cobra.Command{
		Use:     "unset (--topic NAME | --broker ID | --broker-defaults) KEY...",
		Short:   "Remove dynamic configs, so that the next source counts",
		Long:    "Remove dynamic configs, so that the next source counts: the cluster's defaults, a node's file, the built-in value.",
		Example: "  quorate config unset --topic orders retention.ms",
	})
}
