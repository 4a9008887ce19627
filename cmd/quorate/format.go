package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/quorate/node"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

type formatFlags struct {
	config, clusterID, directoryID, initial string
	noInitial                               bool
	set                                     []string
}

func (a *app) formatCommand() *cobra.Command {
	f := &formatFlags{}
	c := &cobra.Command{
		Use:   "format --config FILE --cluster-id ID",
		Short: "Prepare a node's data directory",
		Long: "Prepare a node's data directory. A formatted directory is refused; a format that is interrupted leaves none.\n" +
			"A controller takes --initial-controllers, the same on all first controllers, or --no-initial-controllers if it joins later.\n" +
			"host:port is the RAFT address as Raft's configuration will hold it. Ids come from quorate random-uuid.",
		Example: "  quorate format --config b1.properties --cluster-id kEvmTNkLQ0uWqJ3bE5p2xA\n" +
			"  quorate format --config c4.properties --cluster-id kEvmTNkLQ0uWqJ3bE5p2xA --no-initial-controllers",
		Args: cobra.NoArgs,
	}
	fl := c.Flags()
	fl.StringVar(&f.config, "config", "", "the node's properties file")
	fl.StringVar(&f.clusterID, "cluster-id", "", "id of the cluster, the same for all nodes")
	fl.StringVar(&f.directoryID, "directory-id", "", "id of this data directory; drawn if it is not given")
	fl.StringVar(&f.initial, "initial-controllers", "", "first voters: NODE@host:port:DIRECTORYID,...")
	fl.BoolVar(&f.noInitial, "no-initial-controllers", false, "this controller is added to a running quorum later")
	fl.StringArrayVar(&f.set, "set", nil, "key=value, over the file and the environment; may be repeated")
	c.RunE = func(c *cobra.Command, args []string) error {
		o, err := f.options()
		if err != nil {
			return err
		}
		return a.act(func(context.Context, *cobra.Command, []string) error { return a.format(f, o) })(c, args)
	}
	return c
}

// options parses the flags; its error is one of the command line.
func (f *formatFlags) options() (o node.FormatOptions, err error) {
	if f.config == "" || f.clusterID == "" {
		return o, errors.New("--config and --cluster-id are needed")
	}
	if o.ClusterID, err = image.ParseUUID(f.clusterID); err != nil {
		return o, fmt.Errorf("--cluster-id: %w", err)
	}
	if f.directoryID != "" {
		if o.DirectoryID, err = image.ParseUUID(f.directoryID); err != nil {
			return o, fmt.Errorf("--directory-id: %w", err)
		}
	}
	o.NoInitialControllers = f.noInitial
	if o.InitialControllers, err = node.ParseInitialControllers(f.initial); err != nil {
		return o, fmt.Errorf("--initial-controllers: %w", err)
	}
	return o, nil
}

func (a *app) format(f *formatFlags, o node.FormatOptions) error {
	cfg, err := a.load(node.Sources{File: f.config, Set: f.set})
	if err != nil {
		return err
	}
	o.Config = cfg
	id, err := node.Format(a.env, o)
	if err != nil {
		var directory *node.DirectoryError
		if errors.As(err, &directory) {
			return err
		}
		var options *node.OptionsError
		if errors.As(err, &options) {
			return usage(err)
		}
		return refused(controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST, "%v", err)
	}
	if a.json() {
		a.print(object{{"dataDir", cfg.DataDir}, {"clusterId", id.ClusterID}, {"nodeId", int32(id.NodeID)}, {"directoryId", id.DirectoryID.String()}})
	} else {
		a.printf("formatted %s clusterId=%s nodeId=%d directoryId=%s", cfg.DataDir, id.ClusterID, id.NodeID, id.DirectoryID)
	}
	return nil
}

// load reads a node's configuration and prints its warnings.
func (a *app) load(s node.Sources) (*node.Config, error) {
	s.Environ = a.environ
	cfg, warnings, err := node.Load(a.env.FS, s)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		a.warn("%s", w)
	}
	return cfg, nil
}
