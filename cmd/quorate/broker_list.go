package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

func (a *app) brokerListCommand() *cobra.Command {
	var r readFlags
	c := &cobra.Command{
		Use:   "list",
		Short: "List registered brokers with their states and epochs",
		Long: "List registered brokers with their states and epochs. Offset, and chain, a checksum over the log up to it, are those of a\n" +
			"broker's last heartbeat, lastHeartbeatMs is its age at the answering controller, -1 if unknown; stateSinceMs is a time of day.",
		Example: "  quorate broker list --node 1002 -o json",
		Args:    cobra.NoArgs,
	}
	r.register(c)
	c.RunE = a.timed(func(ctx context.Context, _ *cobra.Command, _ []string) error { return a.brokerList(ctx, &r) })
	return c
}

func (a *app) brokerList(ctx context.Context, r *readFlags) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	var resp *controllerpb.ListBrokersResponse
	err = a.read(ctx, c, r, func(ctx context.Context, reader controllerpb.ReaderApiClient) (err error) {
		resp, err = reader.ListBrokers(ctx, &controllerpb.ListBrokersRequest{Options: r.options()})
		return err
	})
	if err != nil {
		return err
	}
	if resp.GetLineageUnconfirmed() {
		a.warnUnconfirmed(resp.GetLineage())
	}
	if a.json() {
		out := list{}
		for _, b := range resp.GetBrokers() {
			out = append(out, brokerJSON(b))
		}
		a.print(object{{"metadataOffset", resp.GetMetadataOffset()}, {"brokers", out}, {"lineage", resp.GetLineage()}, {"lineageConfirmed", !resp.GetLineageUnconfirmed()}})
		return nil
	}
	a.printf("metadataOffset=%d", resp.GetMetadataOffset())
	for _, b := range resp.GetBrokers() {
		a.printf("%s", brokerLine(b))
	}
	return nil
}

func brokerState(r *metadatapb.RegisterBroker) string {
	switch {
	case r.GetFenced():
		return "FENCED"
	case r.GetInControlledShutdown():
		return "CONTROLLED_SHUTDOWN"
	}
	return "UNFENCED"
}

func brokerLine(b *controllerpb.BrokerDescription) string {
	r := b.GetRegistration()
	line := fmt.Sprintf("broker %d epoch=%d state=%s", r.GetBrokerId(), r.GetBrokerEpoch(), brokerState(r))
	if r.Rack != nil {
		line += " rack=" + r.GetRack()
	}
	for _, l := range r.GetListeners() {
		line += fmt.Sprintf(" %s=%s:%d", l.GetName(), l.GetHost(), l.GetPort())
	}
	return line + fmt.Sprintf(" stateSinceMs=%d lastHeartbeatMs=%d metadataOffset=%d chain=%s leaders=%d replicas=%d",
		r.GetStateSinceMs(), b.GetLastHeartbeatMs(), b.GetMetadataOffset(), chain(b.GetChain()), b.GetLeaders(), b.GetReplicas())
}

func brokerJSON(b *controllerpb.BrokerDescription) object {
	r := b.GetRegistration()
	var rack any
	if r.Rack != nil {
		rack = r.GetRack()
	}
	listeners := list{}
	for _, l := range r.GetListeners() {
		listeners = append(listeners, object{{"name", l.GetName()}, {"host", l.GetHost()}, {"port", int64(l.GetPort())}})
	}
	return object{
		{"id", r.GetBrokerId()}, {"epoch", r.GetBrokerEpoch()}, {"incarnationId", uuid(r.GetIncarnationId())}, {"directoryId", uuid(r.GetDirectoryId())},
		{"state", brokerState(r)}, {"rack", rack}, {"listeners", listeners}, {"stateSinceMs", r.GetStateSinceMs()}, {"lastHeartbeatMs", b.GetLastHeartbeatMs()},
		{"metadataOffset", b.GetMetadataOffset()}, {"chain", chain(b.GetChain())}, {"leaders", b.GetLeaders()}, {"replicas", b.GetReplicas()},
	}
}
