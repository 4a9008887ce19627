package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/quorate/node"
	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/recovery"
)

type recoverFlags struct {
	config      string
	set         []string
	offline     bool
	directories []string
	withoutOwn  bool
	force       bool
	confirm     bool
	change      changeFlags
}

func (a *app) quorumRecoverCommand() *cobra.Command {
	f := &recoverFlags{}
	c := &cobra.Command{
		Use:   "recover (--config FILE --offline | --confirm)",
		Short: "Go on from one controller after the loss of the majority",
		Long: "Go on from one controller after the loss of the majority, when the others are gone for good.\n\n" +
			"With --offline: stop the node, then run this with its configuration. It takes the furthest of the node's own data directory and\n" +
			"those given by --directory (copies of other controllers' will do; --without-own leaves out a damaged one of its own), and makes the node the only voter of a new lineage of the log.\n" +
			"What the others committed after that is lost. It is refused while a majority of the controllers answers, and, without --force,\n" +
			"when it cannot be told whether they are gone. The state before is copied first. Then start the node, and add controllers.\n\n" +
			"With --confirm: brokers delete nothing in a new lineage, neither topics nor what the metadata does not know, until an operator has\n" +
			"looked at what came back and confirms it.",
		Example: "  quorate quorum recover --config server.properties --offline --directory /mnt/c2/data\n  quorate quorum recover --confirm",
		Args:    cobra.NoArgs,
	}
	fl := c.Flags()
	fl.StringVar(&f.config, "config", "", "the node's properties file")
	fl.StringArrayVar(&f.set, "set", nil, "key=value, over the file and the environment; may be repeated")
	fl.BoolVar(&f.offline, "offline", false, "recover the configured node, which is stopped")
	fl.StringArrayVar(&f.directories, "directory", nil, "another controller's data directory, or a copy of it; may be repeated")
	fl.BoolVar(&f.withoutOwn, "without-own", false, "leave the node's own log out, because it is damaged")
	fl.BoolVar(&f.force, "force", false, "go on although it cannot be told whether the others are gone")
	fl.BoolVar(&f.confirm, "confirm", false, "confirm the lineage that a recovery began: brokers delete again")
	f.change.register(c, "")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := f.check(c); err != nil {
			return err
		}
		if f.confirm {
			return a.timed(func(ctx context.Context, _ *cobra.Command, _ []string) error { return a.confirmLineage(ctx, f) })(c, args)
		}
		return a.act(func(ctx context.Context, _ *cobra.Command, _ []string) error { return a.recoverOffline(ctx, f) })(c, args)
	}
	return c
}

func (f *recoverFlags) check(c *cobra.Command) error {
	switch {
	case f.offline == f.confirm:
		return errors.New("one of --offline and --confirm is needed")
	case f.offline && f.config == "":
		return errors.New("--offline needs --config")
	case f.offline && (c.Flags().Changed("wait") || f.change.noWait):
		return errors.New("--wait and --no-wait are for --confirm: an offline recovery has nobody to wait for")
	case f.confirm && (f.config != "" || f.force || f.withoutOwn || len(f.directories)+len(f.set) > 0):
		return errors.New("--config, --set, --directory, --without-own and --force are for --offline")
	case f.withoutOwn && len(f.directories) == 0:
		return errors.New("--without-own needs --directory")
	}
	return f.change.check(c)
}

func (a *app) recoverOffline(ctx context.Context, f *recoverFlags) error {
	cfg, err := a.load(node.Sources{File: f.config, Set: f.set})
	if err != nil {
		return err
	}
	r, err := node.Recover(ctx, a.env, node.RecoverOptions{Config: cfg, Directories: f.directories, WithoutOwn: f.withoutOwn, Force: f.force, DryRun: f.change.dryRun})
	var no *recovery.RefusedError
	switch {
	case errors.As(err, &no):
		return refused(controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST, "%v", no)
	case err != nil:
		return err
	}
	if a.json() {
		a.print(recoverJSON(&r, f.change.dryRun))
		return nil
	}
	a.printRecovery(&r, f.change.dryRun)
	return nil
}

// printRecovery says what was done, and above all what may be lost.
func (a *app) printRecovery(r *node.RecoverResult, dryRun bool) {
	verb := "recovered"
	switch {
	case dryRun:
		verb = "would have recovered"
	case r.Repeated:
		verb = "had recovered"
	}
	a.printf("%s controller %d as the only voter of lineage %d, metadataOffset=%d", verb, r.Identity.NodeID, r.Lineage.Number, r.MetadataOffset)
	if p := r.Plan; p != nil {
		a.printf("furthest log: %s raftTerm=%d raftIndex=%d metadataOffset=%d chain=%v", p.Furthest.Path, p.Furthest.LastTerm, p.Furthest.LastIndex,
			p.Before.State.Offset, p.Before.State.Chain)
		a.printf("raised: next metadata offset %d, raft term %d, leader epochs, partition epochs and producer ids", p.Before.State.Offset+1+fsm.RecordsSkipped, p.Term)
		for _, s := range p.Sources {
			for _, d := range s.Damaged {
				a.printf("damaged: %s: %s", s.Path, plain(d.Err.Error()))
			}
		}
		for _, m := range p.Members {
			if m.ID.NodeID != int32(r.Identity.NodeID) || m.ID.DirectoryID != r.Identity.DirectoryID.String() {
				a.printf("left behind: controller %s at %s, %s", m.ID, m.Address, m.Found)
			}
		}
		if p.IsComplete() {
			a.printf("nothing is lost: the directories of a majority of the controllers were given, so that log holds all that was committed, provided that they are as their controllers left them")
		} else {
			a.printf("may be lost: all that the controllers left behind had committed after raft index %d (metadata offset %d): topics, configs and leaderships of that time "+
				"are not known any more, and records acknowledged under a leadership that is not known may be cut off", p.Furthest.LastIndex, p.Before.State.Offset)
		}
		if n := p.Uncertain(); n > 0 {
			a.printf("now committed: %d records, metadata offsets %d to %d, at the end of that log, whether they were committed before or not", n, p.Certain.Offset+1, p.Before.State.Offset)
		}
		if r.Copy != "" {
			a.printf("the state before is in %s", r.Copy)
		}
		if dryRun {
			a.printf("%s", record.String(r.Lineage.Record()))
			return
		}
	}
	a.printf("next: start the node, and the brokers that have ended because of the new lineage, look at `quorate topic list` and `quorate broker list`, add controllers with `quorate quorum add`, then `quorate quorum recover --confirm`: " +
		"until then brokers delete nothing. Controllers that were left behind stay out; format them anew before they are added")
}

func recoverJSON(r *node.RecoverResult, dryRun bool) object {
	o := object{
		{"nodeId", int32(r.Identity.NodeID)}, {"directoryId", r.Identity.DirectoryID.String()}, {"lineage", int32(r.Lineage.Number)},
		{"metadataOffset", int64(r.MetadataOffset)}, {"repeated", r.Repeated}, {"dryRun", dryRun},
	}
	p := r.Plan
	if p == nil {
		return o
	}
	members, damaged := list{}, list{}
	for _, s := range p.Sources {
		for _, d := range s.Damaged {
			damaged = append(damaged, object{{"directory", s.Path}, {"raftTerm", d.Term}, {"raftIndex", d.Index}, {"error", withoutPackages(d.Err.Error())}})
		}
	}
	for _, m := range p.Members {
		members = append(members, object{{"id", m.ID.NodeID}, {"directoryId", m.ID.DirectoryID}, {"address", m.Address}, {"found", string(m.Found)}})
	}
	return append(o,
		field{"furthest", object{{"directory", p.Furthest.Path}, {"raftTerm", p.Furthest.LastTerm}, {"raftIndex", p.Furthest.LastIndex},
			{"metadataOffset", int64(p.Before.State.Offset)}, {"chain", p.Before.State.Chain.String()}}},
		field{"raftTerm", p.Term}, field{"certainOffset", int64(p.Certain.Offset)}, field{"uncertainRecords", p.Uncertain()},
		field{"members", members}, field{"copy", r.Copy}, field{"damagedSnapshots", damaged}, field{"complete", p.IsComplete()})
}

func (a *app) confirmLineage(ctx context.Context, f *recoverFlags) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	resp, err := controllerpb.NewOperatorApiClient(c).ConfirmLineage(ctx, &controllerpb.ConfirmLineageRequest{
		ValidateOnly: f.change.dryRun, RequestId: node.RandomUUID().String(),
	})
	if err != nil {
		return err
	}
	return a.finish(confirmed(resp), f.change.dryRun, a.awaitConfirmed(ctx, c, f, resp))
}

func confirmed(resp *controllerpb.ConfirmLineageResponse) changed {
	name := fmt.Sprintf("lineage %d", resp.GetNumber())
	return changed{
		offset: resp.GetMetadataOffset(), records: resp.GetRecords(), verb: "confirmed", list: "lineages",
		items: []item{{name: name, text: name, fields: object{{"number", resp.GetNumber()}}}},
	}
}

func (a *app) awaitConfirmed(ctx context.Context, c *client.Client, f *recoverFlags, resp *controllerpb.ConfirmLineageResponse) error {
	if !f.change.waits() {
		return nil
	}
	return a.newWaiter(c, resp.GetMetadataOffset()).brokers(ctx, resp.GetUnfencedBrokers(), nil)
}

// warnUnconfirmed says what a lineage waits for.
func (a *app) warnUnconfirmed(lineage int32) {
	a.warn("%s", image.Lineage{Number: image.LineageNumber(lineage)}.Notice())
}
