package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client"
)

func (a *app) configDescribeCommand() *cobra.Command {
	var r readFlags
	var of resourceFlags
	c := &cobra.Command{
		Use:   "describe (--topic NAME | --broker ID | --broker-defaults)",
		Short: "Show the values in force and where each comes from",
		Long: "Show the values in force and where each comes from. A broker is asked itself, as its file is known to it alone;\n" +
			"of --broker-defaults only what is set is shown.",
		Example: "  quorate config describe --topic orders\n  quorate config describe --broker 1 --broker-defaults -o json",
		Args:    cobra.NoArgs,
	}
	of.register(c)
	r.register(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		resources, err := of.resources()
		if err != nil {
			return err
		}
		return a.timed(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			return a.configDescribe(ctx, &r, resources)
		})(c, args)
	}
	return c
}

func (a *app) configDescribe(ctx context.Context, r *readFlags, resources []*controllerpb.ConfigResource) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	resp, err := a.describeConfigs(ctx, c, r, resources)
	if err != nil {
		return err
	}
	if r.node == noNode {
		a.askBrokers(ctx, c, resp)
	}
	var first *failure
	out := list{}
	if !a.json() {
		a.printf("metadataOffset=%d", resp.GetMetadataOffset())
	}
	for _, d := range resp.GetResources() {
		o := resourceJSON(d.GetType(), d.GetName())
		if f := itemFailure(d.GetError()); f != nil {
			fmt.Fprintf(a.stderr, "error: %v\n", f)
			if first == nil {
				first = f
			}
			out = append(out, append(o, field{"error", f.json()}))
			continue
		}
		configs := list{}
		for _, e := range d.GetConfigs() {
			configs = append(configs, object{{"name", e.GetName()}, {"value", e.GetValue()}, {"source", configSource(e.GetSource())}})
		}
		out = append(out, append(o, field{"configs", configs}))
		if !a.json() {
			a.printConfigs(d)
		}
	}
	if a.json() {
		o := object{{"metadataOffset", resp.GetMetadataOffset()}, {"resources", out}}
		if first != nil {
			o = append(o, field{"error", first.json()})
		}
		a.print(o)
	}
	if first != nil {
		return shown{first.exit}
	}
	return nil
}

func (a *app) printConfigs(d *controllerpb.ConfigResourceDescription) {
	a.printf("%s", resourceName(d.GetType(), d.GetName()))
	for _, e := range d.GetConfigs() {
		a.printf("  %s=%s %s", e.GetName(), e.GetValue(), configSource(e.GetSource()))
	}
}

func (a *app) describeConfigs(ctx context.Context, c *client.Client, r *readFlags, resources []*controllerpb.ConfigResource) (resp *controllerpb.DescribeConfigsResponse, err error) {
	err = a.read(ctx, c, r, func(ctx context.Context, reader controllerpb.ReaderApiClient) (err error) {
		resp, err = reader.DescribeConfigs(ctx, &controllerpb.DescribeConfigsRequest{Options: r.options(), Resources: resources})
		return err
	})
	return resp, err
}

// askBrokers puts the word of each broker in place of the active controller's, which does not know its file. A broker that
// does not answer is named.
func (a *app) askBrokers(ctx context.Context, c *client.Client, resp *controllerpb.DescribeConfigsResponse) {
	for i, d := range resp.GetResources() {
		var id int32
		if d.GetType() != metadatapb.ResourceType_RESOURCE_TYPE_BROKER || d.GetName() == "" || d.GetError() != nil {
			continue
		}
		if _, err := fmt.Sscan(d.GetName(), &id); err != nil {
			continue
		}
		asked, cancel := context.WithTimeout(ctx, brokerAskMax)
		own, err := a.describeConfigs(asked, c, &readFlags{node: id, minOffset: resp.GetMetadataOffset()},
			[]*controllerpb.ConfigResource{{Type: d.GetType(), Name: d.GetName()}})
		cancel()
		if err != nil || len(own.GetResources()) != 1 || own.GetResources()[0].GetError() != nil {
			a.warn("broker %d does not answer: values of its own file are not shown", id)
			continue
		}
		resp.Resources[i] = own.GetResources()[0]
	}
}
