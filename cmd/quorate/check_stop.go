package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
)

func (a *app) checkStopCommand() *cobra.Command {
	var r readFlags
	var margin int32
	c := &cobra.Command{
		Use:   "stop ID",
		Short: "May this node be stopped now?",
		Long: "May this node be stopped now? Exit code 0: yes. 1: no; what would go below min ISR or have no leader is listed, or for a\n" +
			"controller how many would be left. 3: it cannot be told. A broker is judged by one image of the active controller, a controller\n" +
			"by who of the voters answers now. A node with both roles has to pass both.",
		Example: "  quorate check stop 2 && kill 4711\n  quorate check stop 1001 --margin 1",
		Args:    cobra.ExactArgs(1),
	}
	c.Flags().Int32Var(&margin, "margin", 0, "in-sync replicas above min ISR, or controllers above the majority, that shall be left")
	r.register(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := parseBroker(args[0])
		if err != nil {
			return errors.New(args[0] + " is not a node id")
		}
		if margin < 0 {
			return fmt.Errorf("--margin is %d; it is 0 or more", margin)
		}
		return a.timed(func(ctx context.Context, _ *cobra.Command, _ []string) error { return a.checkStop(ctx, &r, id, margin) })(c, args)
	}
	return c
}

// stopVerdict is what is known of a stop.
type stopVerdict struct {
	id     int32
	answer *controllerpb.CheckStopResponse
	// Of a voter: how many would answer, and how many are wanted.
	voter       bool
	left, needs int
	// voteless: a controller that joins, stands by, or was removed.
	voteless bool
}

func (v *stopVerdict) yes() bool {
	return v.answer.GetHarmedPartitions() == 0 && (!v.voter || v.left >= v.needs)
}

func (a *app) checkStop(ctx context.Context, r *readFlags, id, margin int32) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	v := &stopVerdict{id: id}
	err = a.read(ctx, c, r, func(ctx context.Context, reader controllerpb.ReaderApiClient) (err error) {
		v.answer, err = reader.CheckStop(ctx, &controllerpb.CheckStopRequest{Options: r.options(), BrokerId: id, Margin: margin})
		return err
	})
	if err != nil {
		f := explain(err)
		return unavailable(controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER, "it cannot be told whether node %d may stop: %s", id, f.message)
	}
	v.countVoters(c.Statuses(ctx), margin)
	if !v.voter && !v.voteless && !v.answer.GetRegistered() {
		f := refused(controllerpb.ErrorCode_ERROR_CODE_BROKER_ID_NOT_REGISTERED,
			"it cannot be told whether node %d may stop: it is neither a registered broker nor a controller of this quorum; quorate broker list and quorate quorum status name all nodes", id)
		f.exit = exitUnavailable
		return f
	}
	a.showVerdict(v)
	if !v.yes() {
		return shown{exitRefused}
	}
	return nil
}

// countVoters counts the voters that answer for themselves, by the membership that the newest of them names.
func (v *stopVerdict) countVoters(answers []client.Answer, margin int32) {
	view, ok := viewOf(answers)
	if !ok {
		return
	}
	for _, r := range view.removed {
		v.voteless = v.voteless || r.GetControllerId() == v.id
	}
	voters := 0
	for _, n := range view.nodes {
		if !n.voter {
			v.voteless = v.voteless || n.id == v.id
			continue
		}
		voters++
		switch {
		case n.id == v.id:
			v.voter = true
		case n.state == "leader" || n.state == "follower":
			v.left++
		}
	}
	v.needs = voters/2 + 1 + int(margin)
}

func (a *app) showVerdict(v *stopVerdict) {
	if a.json() {
		harms := list{}
		for _, h := range v.answer.GetHarms() {
			harms = append(harms, object{{"topic", h.GetTopic()}, {"partition", h.GetPartition()}, {"leaderless", h.GetLeaderless()}, {"inSync", h.GetInSync()}, {"wanted", h.GetWanted()}})
		}
		o := object{
			{"metadataOffset", v.answer.GetMetadataOffset()}, {"id", v.id}, {"mayStop", v.yes()}, {"harmedPartitions", v.answer.GetHarmedPartitions()}, {"partitions", harms},
		}
		if v.voter {
			o = append(o, field{"votersLeft", v.left}, field{"votersWanted", v.needs})
		}
		a.print(o)
		return
	}
	a.printf("metadataOffset=%d", v.answer.GetMetadataOffset())
	a.printf("node %d may stop: %s", v.id, map[bool]string{true: "yes", false: "no"}[v.yes()])
	switch {
	case v.voter:
		a.printf("  voters left %d of %d wanted", v.left, v.needs)
	case v.voteless:
		a.printf("  a controller without a vote: none is lost")
	}
	for _, h := range v.answer.GetHarms() {
		a.printf("  partition %s-%d: %s", h.GetTopic(), h.GetPartition(),
			cmp.Or(map[bool]string{true: "no leader would be left"}[h.GetLeaderless()], fmt.Sprintf("%d in sync, %d wanted", h.GetInSync(), h.GetWanted())))
	}
	if more := int(v.answer.GetHarmedPartitions()) - len(v.answer.GetHarms()); more > 0 {
		a.printf("  and %d more", more)
	}
}
