package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/quorate/dev"
)

func (a *app) devCommand() *cobra.Command {
	o := dev.Options{Stdout: a.stdout, Stderr: a.stderr, Environ: a.environ}
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole cluster on loopback: 3 controllers and 3 brokers",
		Long: "Run a whole cluster on loopback, each node a process of its own, formatted on first use. It stays in the foreground;\n" +
			"Ctrl-C stops all nodes in order. Without --dir everything is removed at the end.",
		Example: "  quorate dev\n  quorate dev --dir ./cluster --port-base 0 --set replica.lag.time.max.ms=3000",
		Args:    cobra.NoArgs,
	}
	f := c.Flags()
	f.IntVar(&o.Controllers, "controllers", 0, "number of controllers (default 3, or what --dir holds)")
	f.IntVar(&o.Brokers, "brokers", -1, "number of brokers (default 3, or what --dir holds)")
	f.StringVar(&o.Dir, "dir", "", "directory that keeps the cluster")
	f.IntVar(&o.PortBase, "port-base", dev.PortBaseDefault, "first Kafka port, GRPC 100, RAFT 200 and HTTP 300 above; 0: free ports")
	f.StringArrayVar(&o.Set, "set", nil, "key=value for every node; may be repeated")
	f.BoolVar(&o.Restart, "restart", false, "start a node again that has died")
	f.Lookup("brokers").DefValue = "0" // the text says what -1 stands for; a zero is not printed
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := o.Validate(); err != nil {
			return err
		}
		if c.Flags().Changed("brokers") && o.Brokers < 0 {
			return fmt.Errorf("--brokers is %d; it is 0 or more", o.Brokers)
		}
		if c.Flags().Changed("controllers") && o.Controllers == 0 {
			return fmt.Errorf("--controllers is 0; a cluster needs at least one")
		}
		o.PortsNamed = c.Flags().Changed("port-base")
		return a.act(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			return dev.Run(ctx, o)
		})(c, args)
	}
	return c
}
