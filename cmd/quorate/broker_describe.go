package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

func (a *app) brokerDescribeCommand() *cobra.Command {
	var r readFlags
	c := &cobra.Command{
		Use:   "describe ID",
		Short: "Show one registration in full",
		Long: "Show one registration in full: what broker list shows, and how the former life of the broker ended, which replicas it lost then,\n" +
			"and which features it knows.",
		Example: "  quorate broker describe 1",
		Args:    cobra.ExactArgs(1),
	}
	r.register(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := parseBroker(args[0])
		if err != nil {
			return err
		}
		return a.timed(func(ctx context.Context, _ *cobra.Command, _ []string) error { return a.brokerDescribe(ctx, &r, id) })(c, args)
	}
	return c
}

func parseBroker(arg string) (int32, error) {
	id, err := strconv.ParseUint(arg, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%q is not a broker id", arg)
	}
	return int32(id), nil
}

func (a *app) brokerDescribe(ctx context.Context, r *readFlags, id int32) error {
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
	for _, b := range resp.GetBrokers() {
		if b.GetRegistration().GetBrokerId() == id {
			a.showBroker(resp.GetMetadataOffset(), b)
			return nil
		}
	}
	return refused(controllerpb.ErrorCode_ERROR_CODE_BROKER_ID_NOT_REGISTERED,
		"broker %d is not registered at metadata offset %d; quorate broker list shows all", id, resp.GetMetadataOffset())
}

var stopKinds = map[metadatapb.StopKind]string{
	metadatapb.StopKind_STOP_KIND_UNSPECIFIED:   "unknown",
	metadatapb.StopKind_STOP_KIND_NEVER_RAN:     "never-ran",
	metadatapb.StopKind_STOP_KIND_CLEAN:         "clean",
	metadatapb.StopKind_STOP_KIND_PROCESS_CRASH: "process-crash",
	metadatapb.StopKind_STOP_KIND_MACHINE_CRASH: "machine-crash",
}

func (a *app) showBroker(offset int64, b *controllerpb.BrokerDescription) {
	r := b.GetRegistration()
	previous, stopping := int64(-1), int64(-1)
	if r.PreviousBrokerEpoch != nil {
		previous = r.GetPreviousBrokerEpoch()
	}
	if r.ControlledShutdownOffset != nil {
		stopping = r.GetControlledShutdownOffset()
	}
	if a.json() {
		features := list{}
		for _, f := range r.GetFeatures() {
			features = append(features, object{{"name", f.GetName()}, {"minLevel", f.GetMin()}, {"maxLevel", f.GetMax()}})
		}
		a.print(object{{"metadataOffset", offset}, {"broker", append(brokerJSON(b), object{
			{"registrationOffset", r.GetRegistrationOffset()}, {"controlledShutdownOffset", stopping}, {"lastStop", stopKinds[r.GetStopKind()]},
			{"previousEpoch", previous}, {"lostReplicas", r.GetLostReplicas()}, {"features", features},
		}...)}})
		return
	}
	a.printf("metadataOffset=%d", offset)
	a.printf("%s", brokerLine(b))
	a.printf("  incarnationId=%s directoryId=%s registrationOffset=%d controlledShutdownOffset=%d",
		uuid(r.GetIncarnationId()), uuid(r.GetDirectoryId()), r.GetRegistrationOffset(), stopping)
	a.printf("  lastStop=%s previousEpoch=%d lostReplicas=%d", stopKinds[r.GetStopKind()], previous, r.GetLostReplicas())
	for _, f := range r.GetFeatures() {
		a.printf("  feature %s levels %d to %d", f.GetName(), f.GetMin(), f.GetMax())
	}
}
