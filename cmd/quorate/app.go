package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/quorum/env"
)

// timeoutDefault bounds a command, waits included.
const timeoutDefault = 30 * time.Second

// app is one invocation of the program.
type app struct {
	stdout, stderr io.Writer
	environ        []string
	env            *env.Env

	// Global flags.
	controllers []string
	clusterDir  string
	output      string
	timeout     time.Duration

	// acting is set once the command line has been understood.
	acting bool
}

// run executes a command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		if err := waitApart(c, args); err != nil {
			return err
		}
		return a.saysWhere(root.PersistentFlags())
	}
	root.SetArgs(args)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	strictHelp(root)
	c, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	if !a.acting {
		if wantsJSON(args) {
			a.output = "json" // parsing may have ended before it
		}
		err = usage(arguments(c, err))
	}
	return a.report(c, err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "quorate",
		Short:         "A metadata quorum with brokers that real Kafka clients use",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),
	}
	root.CompletionOptions.HiddenDefaultCmd = false
	root.DisableSuggestions = true // unknownCommand makes them, on one line
	root.SetVersionTemplate("quorate {{.Version}}\n")
	f := root.PersistentFlags()
	f.StringSliceVar(&a.controllers, "controllers", nil, "GRPC addresses of controllers, host:port,... (or QUORATE_CONTROLLERS)")
	f.StringVar(&a.clusterDir, "cluster", "", "directory of a cluster that quorate dev runs")
	f.StringVarP(&a.output, "output", "o", "text", "text or json")
	f.DurationVar(&a.timeout, "timeout", timeoutDefault, "time for the command and its waits")
	root.AddCommand(
		a.devCommand(), a.formatCommand(), a.randomUUIDCommand(), a.serverCommand(),
		a.noun("topic", "Topics", a.topicCreateCommand(), a.topicListCommand(), a.topicDescribeCommand(), a.topicDeleteCommand(),
			a.topicAddPartitionsCommand()),
		a.noun("config", "Dynamic configuration of topics, brokers and the cluster", a.configDescribeCommand(), a.configSetCommand(), a.configUnsetCommand()),
		a.noun("partition", "Leaders and replicas of partitions", a.partitionElectCommand(), a.partitionReassignCommand(),
			a.partitionReassignmentsCommand(), a.partitionCancelCommand()),
		a.noun("broker", "Registrations of brokers", a.brokerListCommand(), a.brokerDescribeCommand(), a.brokerUnregisterCommand()),
		a.noun("feature", "Finalized levels of features", a.featureDescribeCommand(), a.featureUpgradeCommand(), a.featureDowngradeCommand()),
		a.noun("quorum", "The controllers", a.quorumStatusCommand(), a.quorumAddCommand(), a.quorumRemoveCommand(), a.quorumTransferCommand(), a.quorumRecoverCommand()),
		a.noun("metadata", "The metadata log and its image", a.metadataDumpCommand(), a.metadataLogCommand(), a.metadataHistoryCommand()),
		a.noun("check", "Questions that an operator asks before acting", a.checkStopCommand()),
	)
	return root
}

// act wraps what a command does: from here on the command line is right, and the time runs.
func (a *app) act(f func(ctx context.Context, c *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if a.output != "text" && a.output != "json" {
			return fmt.Errorf("--output is %q; it is text or json", a.output)
		}
		if a.timeout <= 0 {
			return fmt.Errorf("--timeout is %v; it must be more than 0", a.timeout)
		}
		a.acting = true
		return f(c.Context(), c, args)
	}
}

// timed is act for commands that ask a cluster: they end with --timeout.
func (a *app) timed(f func(ctx context.Context, c *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return a.act(func(ctx context.Context, c *cobra.Command, args []string) error {
		ctx, cancel := context.WithTimeout(ctx, a.timeout)
		defer cancel()
		return f(ctx, c, args)
	})
}

func (a *app) json() bool { return a.output == "json" }
