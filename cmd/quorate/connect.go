package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/cmd/quorate/dev"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client"
)

// controllersDefault is where quorate dev puts its controllers.
const controllersDefault = "localhost:9192,localhost:9193,localhost:9194"

// connect makes a client of the cluster that flags and environment name.
func (a *app) connect() (*client.Client, error) {
	addresses, err := a.addresses()
	if err != nil {
		return nil, err
	}
	c, err := client.New(client.Config{Network: a.env.Network, Controllers: addresses})
	if err != nil {
		return nil, usage(fmt.Errorf("--controllers or QUORATE_CONTROLLERS: %s", strings.TrimPrefix(err.Error(), "client: Controllers: ")))
	}
	return c, nil
}

// addresses are those of --controllers, else of --cluster, else of the environment, else the default.
func (a *app) addresses() ([]string, error) {
	switch {
	case len(a.controllers) > 0 && a.clusterDir != "":
		return nil, usage(errors.New("--controllers and --cluster both say where the cluster is; give one"))
	case len(a.controllers) > 0:
		return a.controllers, nil
	case a.clusterDir != "":
		c, err := dev.ReadCluster(a.env.FS, a.clusterDir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, usage(fmt.Errorf("--cluster %s holds no cluster.json; name the --dir of a running quorate dev", a.clusterDir))
		}
		if err != nil {
			return nil, err
		}
		return c.Controllers, nil
	}
	for _, v := range a.environ {
		if value, ok := strings.CutPrefix(v, "QUORATE_CONTROLLERS="); ok && value != "" {
			return strings.Split(value, ","), nil
		}
	}
	return strings.Split(controllersDefault, ","), nil
}

// saysWhere refuses a flag that shall say where the cluster is and is empty, as one of a script whose variable is not set:
// the cluster at the default ports may be another one.
func (a *app) saysWhere(global *pflag.FlagSet) error {
	switch {
	case global.Changed("controllers") && len(a.controllers) == 0:
		return errors.New("--controllers is empty; name GRPC addresses of controllers, host:port,..., or leave it out")
	case global.Changed("cluster") && a.clusterDir == "":
		return errors.New("--cluster is empty; name the --dir of a running quorate dev, or leave it out")
	}
	return nil
}

// readFlags are the flags of reads.
type readFlags struct {
	node      int32
	minOffset int64 // negative: it waits for none
}

const noNode = -1

func (r *readFlags) register(c *cobra.Command) {
	c.Flags().Int32Var(&r.node, "node", noNode, "answer from this node's own image, possibly old")
	c.Flags().Lookup("node").DefValue = "the active controller"
	c.Flags().Int64Var(&r.minOffset, "min-offset", -1, "wait until the image has this metadata offset")
	c.Flags().Lookup("min-offset").DefValue = "0" // none is shown
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		switch {
		case c.Flags().Changed("node") && r.node < 0:
			return fmt.Errorf("--node is %d; a node id is 0 or more", r.node)
		case c.Flags().Changed("min-offset") && r.minOffset < 0:
			return fmt.Errorf("--min-offset is %d; a metadata offset is 0 or more", r.minOffset)
		}
		return nil
	}
}

func (r *readFlags) options() *controllerpb.ReadOptions {
	o := &controllerpb.ReadOptions{Local: r.node != noNode}
	if r.minOffset >= 0 {
		o.MinOffset = &r.minOffset
	}
	return o
}

// read runs a read against the active controller, or against the node that --node names. One that waits for an offset
// and does not get it in time says so: who notices first that the time is over, this process or the node, is not told.
func (a *app) read(ctx context.Context, c *client.Client, r *readFlags, f func(context.Context, controllerpb.ReaderApiClient) error) error {
	late := false
	err := a.readOnce(ctx, c, r, func(ctx context.Context, reader controllerpb.ReaderApiClient) error {
		err := f(ctx, reader)
		late = status.Code(err) == codes.DeadlineExceeded
		return err
	})
	if _, refusal := client.AsRefusal(err); err == nil || refusal || r.minOffset < 0 || !late {
		return err
	}
	return unavailable(controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT,
		"no image with metadata offset %d within %v: the cluster is not that far yet, or the node hangs; quorate quorum status and quorate broker list show offsets",
		r.minOffset, a.timeout)
}

func (a *app) readOnce(ctx context.Context, c *client.Client, r *readFlags, f func(context.Context, controllerpb.ReaderApiClient) error) error {
	if r.node == noNode {
		return c.Do(ctx, client.RepeatAlways, func(ctx context.Context, cc grpc.ClientConnInterface) error {
			return f(ctx, controllerpb.NewReaderApiClient(cc))
		})
	}
	address, err := a.addressOf(ctx, c, r.node)
	if err != nil {
		return err
	}
	cc, err := c.Conn(address)
	if err != nil {
		return err
	}
	if err := f(ctx, controllerpb.NewReaderApiClient(cc)); err != nil {
		if _, ok := client.AsRefusal(err); ok {
			return err
		}
		if f := explain(err); f.exit != exitUnavailable {
			return err
		}
		return unavailable(controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT, "node %d at %s does not answer; see whether it runs", r.node, address)
	}
	return nil
}

// eachPiece takes the pieces of a streamed answer until it ends, or take says with io.EOF that it wants no more.
func eachPiece[T any](stream grpc.ServerStreamingClient[T], take func(*T) error) error {
	for {
		piece, err := stream.Recv()
		if err == nil {
			err = take(piece)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// addressOf finds a node's GRPC address: among the controllers, then among the registered brokers.
func (a *app) addressOf(ctx context.Context, c *client.Client, id int32) (string, error) {
	answers := c.Statuses(ctx)
	var answering []string
	for _, s := range answers {
		if s.Err == nil && s.Status.GetNodeId() == id {
			return s.Address, nil
		}
		if s.Err == nil {
			answering = append(answering, s.Address)
		}
		for _, m := range s.Status.GetMembers() {
			if m.GetNodeId() == id && m.GetGrpcAddress() != "" {
				return m.GetGrpcAddress(), nil
			}
		}
	}
	if len(answering) == 0 {
		return "", fmt.Errorf("%w: none of %s answers", client.ErrNoController, strings.Join(c.Known(), ", "))
	}
	brokers, err := a.anyBrokers(ctx, c, answering)
	if err != nil {
		return "", err
	}
	for _, b := range brokers {
		if b.GetRegistration().GetBrokerId() == id {
			if address := grpcAddress(b.GetRegistration()); address != "" {
				return address, nil
			}
		}
	}
	return "", refused(controllerpb.ErrorCode_ERROR_CODE_BROKER_ID_NOT_REGISTERED,
		"node %d is neither a controller nor a registered broker; quorate broker list and quorate quorum status name all nodes", id)
}

// anyBrokers lists the brokers as any controller knows them, with or without an active one.
func (a *app) anyBrokers(ctx context.Context, c *client.Client, addresses []string) ([]*controllerpb.BrokerDescription, error) {
	var last error
	for _, address := range addresses {
		cc, err := c.Conn(address)
		if err != nil {
			return nil, err
		}
		resp, err := controllerpb.NewReaderApiClient(cc).ListBrokers(ctx, &controllerpb.ListBrokersRequest{Options: &controllerpb.ReadOptions{Local: true}})
		if err == nil {
			return resp.GetBrokers(), nil
		}
		last = err
	}
	return nil, last
}

// grpcAddress is where a registered broker serves GRPC; empty if it does not say.
func grpcAddress(r *metadatapb.RegisterBroker) string {
	for _, l := range r.GetListeners() {
		if l.GetName() == "GRPC" {
			return net.JoinHostPort(l.GetHost(), strconv.Itoa(int(l.GetPort())))
		}
	}
	return ""
}
