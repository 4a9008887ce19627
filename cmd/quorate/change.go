package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/fsm/record"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client"
)

// Values of --wait.
const (
	waitVisible = "visible"
	waitData    = "data"
)

// changeFlags are the flags of commands that change the cluster.
type changeFlags struct {
	wait   string
	noWait bool
	dryRun bool
	// data: the command knows --wait=data.
	data bool
}

// register adds the flags. Data says when --wait=data ends; empty: the command does not know it.
func (f *changeFlags) register(c *cobra.Command, data string) {
	f.data = data != ""
	text := "end when every unfenced broker has acted on the change"
	if f.data {
		text += "; data: when " + data
	}
	c.Flags().StringVar(&f.wait, "wait", waitVisible, text)
	c.Flags().Lookup("wait").NoOptDefVal = waitVisible
	c.Flags().BoolVar(&f.noWait, "no-wait", false, "end when the change is committed")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "check, print the records that would be written, change nothing")
}

func (f *changeFlags) check(c *cobra.Command) error {
	switch {
	case f.noWait && c.Flags().Changed("wait"):
		return errors.New("--wait and --no-wait exclude each other")
	case f.wait == waitData && !f.data:
		return errors.New("--wait=data: this command has no data to wait for")
	case f.wait != waitVisible && f.wait != waitData && !f.data:
		return fmt.Errorf("--wait is %q; this command knows --wait alone", f.wait)
	case f.wait != waitVisible && f.wait != waitData:
		return fmt.Errorf("--wait is %q; it is --wait or --wait=data", f.wait)
	}
	return nil
}

// waitApart refuses a value of --wait that stands apart from it: it would be an argument, and topic delete orders --wait data
// would delete two topics.
func waitApart(c *cobra.Command, args []string) error {
	if c.Flags().Lookup("wait") == nil {
		return nil
	}
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if arg == "--wait" && i+1 < len(args) && (args[i+1] == waitData || args[i+1] == waitVisible) {
			return fmt.Errorf("%q after --wait is an argument of its own, not its value; write --wait=%s, or put --wait last", args[i+1], args[i+1])
		}
	}
	return nil
}

func (f *changeFlags) waits() bool { return !f.noWait && !f.dryRun }

func (f *changeFlags) waitsForData() bool { return f.wait == waitData }

// requested is what a command runs: it makes the request that its arguments stand for, and sends it. A request that cannot
// be made is an error of the command line.
func requested[R any](a *app, request func(*cobra.Command, []string) (R, error), send func(context.Context, R) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		r, err := request(c, args)
		if err != nil {
			return err
		}
		return a.timed(func(ctx context.Context, _ *cobra.Command, _ []string) error { return send(ctx, r) })(c, args)
	}
}

// committed is the answer to a change: where it stands in the log, and the brokers that shall know it.
type committed interface {
	GetMetadataOffset() int64
	GetUnfencedBrokers() []int32
}

// brokersKnow waits until the unfenced brokers have acted on a change, if anything was done and the command waits.
func (a *app) brokersKnow(ctx context.Context, c *client.Client, change *changeFlags, answer committed, done bool) error {
	if !done || !change.waits() {
		return nil
	}
	return a.newWaiter(c, answer.GetMetadataOffset()).brokers(ctx, answer.GetUnfencedBrokers(), nil)
}

// item is one thing of a change and what became of it.
type item struct {
	name   string
	key    object // its JSON if it failed; nil: the name
	text   string // its canonical line
	fields object // its JSON
	failed *failure
}

// changed is the answer to a change.
type changed struct {
	offset  int64
	items   []item
	records []*metadatapb.Record // of a dry run
	verb    string
	list    string // name of the items in JSON; empty: topics
}

// finish prints a change item by item, then what went wrong. The exit code is that of the first error; a wait that failed
// counts after the items, for they tell what was refused.
func (a *app) finish(ch changed, dryRun bool, waited error) error {
	var first *failure
	verb := ch.verb
	if dryRun {
		verb = "would have " + verb
	}
	for _, it := range ch.items {
		if it.failed != nil {
			if len(ch.items) > 1 {
				it.failed.message = controllerpb.Echo(it.name) + ": " + it.failed.message
			}
			fmt.Fprintf(a.stderr, "error: %v\n", it.failed)
			if first == nil {
				first = it.failed
			}
		} else if !a.json() {
			a.printf("%s %s", verb, it.text)
		}
	}
	if !a.json() {
		for _, r := range ch.records {
			a.printf("%s", record.String(r))
		}
	}
	if waited != nil {
		f := explain(waited)
		fmt.Fprintf(a.stderr, "error: %v\n", f)
		if first == nil {
			first = f
		}
	}
	if a.json() {
		a.print(ch.json(dryRun, first))
	}
	if first != nil {
		return shown{first.exit}
	}
	return nil
}

func (ch changed) json(dryRun bool, first *failure) object {
	items := list{}
	for _, it := range ch.items {
		fields := it.fields
		if it.failed != nil {
			key := it.key
			if key == nil {
				key = object{{"name", it.name}}
			}
			fields = append(key, field{"error", it.failed.json()})
		}
		items = append(items, fields)
	}
	o := object{{"metadataOffset", ch.offset}, {cmp.Or(ch.list, "topics"), items}}
	if dryRun {
		records := list{}
		for _, r := range ch.records {
			records = append(records, record.String(r))
		}
		o = append(o, field{"records", records})
	}
	if first != nil {
		o = append(o, field{"error", first.json()})
	}
	return o
}
