package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/quorate/node"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// configChange is config set and config unset.
type configChange struct {
	of     resourceFlags
	change changeFlags
	verb   string
	// parse makes a change of an argument.
	parse func(arg string) (*controllerpb.ConfigChange, error)
	// args are the changes as they were typed.
	args []string
}

func (a *app) configSetCommand() *cobra.Command {
	t := &configChange{verb: "set", parse: func(arg string) (*controllerpb.ConfigChange, error) {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("%q: want KEY=VALUE", arg)
		}
		return &controllerpb.ConfigChange{Name: key, Operation: controllerpb.ConfigOperation_CONFIG_OPERATION_SET, Value: &value}, nil
	}}
	return a.configChangeCommand(t, &cobra.Command{
		Use:   "set (--topic NAME | --broker ID | --broker-defaults) KEY=VALUE...",
		Short: "Set dynamic configs of topics, brokers or the whole cluster",
		Long: "Set dynamic configs of topics, brokers or the whole cluster. A resource takes all of its keys or none.\n" +
			"min.insync.replicas and unclean.leader.election.enable act at once on the partitions as they are.",
		Example: "  quorate config set --topic orders min.insync.replicas=2 retention.ms=86400000\n" +
			"  quorate config set --broker-defaults unclean.leader.election.enable=true",
	})
}

func (a *app) configChangeCommand(t *configChange, c *cobra.Command) *cobra.Command {
	c.Args = cobra.MinimumNArgs(1)
	t.of.register(c)
	t.change.register(c, "")
	c.RunE = requested(a, t.request, func(ctx context.Context, request *controllerpb.AlterConfigsRequest) error {
		return a.configChange(ctx, t, request)
	})
	return c
}

func (t *configChange) request(c *cobra.Command, args []string) (*controllerpb.AlterConfigsRequest, error) {
	if err := t.change.check(c); err != nil {
		return nil, err
	}
	resources, err := t.of.resources()
	if err != nil {
		return nil, err
	}
	t.args = args
	var changes []*controllerpb.ConfigChange
	for _, arg := range args {
		one, err := t.parse(arg)
		if err != nil {
			return nil, err
		}
		changes = append(changes, one)
	}
	request := &controllerpb.AlterConfigsRequest{ValidateOnly: t.change.dryRun, RequestId: node.RandomUUID().String()}
	for _, r := range resources {
		request.Resources = append(request.Resources, &controllerpb.AlterableResource{Type: r.GetType(), Name: r.GetName(), Changes: changes})
	}
	return request, nil
}

// checkDynamic refuses keys of a node's own file that nobody can set for a running broker. The controller does not know them.
func checkDynamic(request *controllerpb.AlterConfigsRequest) error {
	dynamic := controller.BrokerConfigKeys()
	for _, r := range request.GetResources() {
		for _, c := range r.GetChanges() {
			if r.GetType() == metadatapb.ResourceType_RESOURCE_TYPE_BROKER && node.IsKey(c.GetName()) && !slices.Contains(dynamic, c.GetName()) {
				return refused(controllerpb.ErrorCode_ERROR_CODE_INVALID_CONFIG,
					"%s is read from each node's own file when it starts and cannot be changed here: change the file and restart the node; nothing was changed", c.GetName())
			}
		}
	}
	return nil
}

func (a *app) configChange(ctx context.Context, t *configChange, request *controllerpb.AlterConfigsRequest) error {
	if err := checkDynamic(request); err != nil {
		return err
	}
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	resp, err := controllerpb.NewOperatorApiClient(c).AlterConfigs(ctx, request)
	if err != nil {
		return err
	}
	done := changed{offset: resp.GetMetadataOffset(), records: resp.GetRecords(), verb: t.verb, list: "resources"}
	any := false
	for _, r := range resp.GetResources() {
		it := item{name: resourceName(r.GetType(), r.GetName()), key: resourceJSON(r.GetType(), r.GetName()), failed: itemFailure(r.GetError())}
		it.fields = resourceJSON(r.GetType(), r.GetName())
		it.text = it.name + " " + strings.Join(t.args, " ")
		any = any || it.failed == nil
		done.items = append(done.items, it)
	}
	return a.finish(done, t.change.dryRun, a.brokersKnow(ctx, c, &t.change, resp, any))
}
