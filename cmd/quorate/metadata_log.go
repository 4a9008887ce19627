package main

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/fsm/record"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum"
)

// logRange are the records that are wanted.
type logRange struct{ from, to int64 }

func (a *app) metadataLogCommand() *cobra.Command {
	var r readFlags
	var want logRange
	c := &cobra.Command{
		Use:   "log",
		Short: "Print the records of the metadata log one by one",
		Long: "Print the records of the metadata log one by one, each after its metadata offset, under a line for each entry that tells Raft's\n" +
			"index, the controller epoch, the time, and what decided it. The log reaches back as far as the history that controllers keep\n" +
			"(metadata.history.retention.*); a refusal names where it begins, and what is missing later is told where it would be. With\n" +
			"-o json each entry, and each gap, is a document on a line of its own.",
		Example: "  quorate metadata log --from 800\n  quorate metadata log --from 812 --to 812 --node 1002",
		Args:    cobra.NoArgs,
	}
	c.Flags().Int64Var(&want.from, "from", 0, "metadata offset of the first record")
	c.Flags().Int64Var(&want.to, "to", math.MaxInt64, "metadata offset of the last record")
	c.Flags().Lookup("to").DefValue = "the newest"
	r.register(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if want.from < 0 {
			return fmt.Errorf("--from is %d; a metadata offset is 0 or more", want.from)
		}
		if want.to < want.from {
			return fmt.Errorf("--to is %d, before --from, which is %d", want.to, want.from)
		}
		return a.timed(func(ctx context.Context, _ *cobra.Command, _ []string) error { return a.metadataLog(ctx, &r, want) })(c, args)
	}
	return c
}

func (a *app) metadataLog(ctx context.Context, r *readFlags, want logRange) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	shown := false
	err = a.read(ctx, c, r, func(ctx context.Context, reader controllerpb.ReaderApiClient) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := reader.ReadLog(ctx, &controllerpb.ReadLogRequest{Options: r.options(), FromOffset: want.from})
		if err != nil {
			return err
		}
		return eachPiece(stream, func(piece *controllerpb.ReadLogResponse) error {
			if g := piece.GetGap(); g != nil {
				if g.GetFromOffset() > want.to {
					return io.EOF
				}
				a.showGap(g)
				shown = true
				want.from = g.GetToOffset() + 1
				return nil
			}
			frame := piece.GetEntry()
			if frame.GetBaseOffset() > want.to {
				return io.EOF
			}
			if err := a.showEntry(frame, want); err != nil {
				return err
			}
			shown = true
			// A read may be repeated by the client: what was shown is not shown again.
			want.from = frame.GetBaseOffset() + int64(frame.GetRecords())
			return nil
		})
	})
	if err == nil && !shown {
		a.warn("no record has metadata offset %d or a later one yet; quorate quorum status shows the newest", want.from)
	}
	return err
}

// showGap tells of records that the node does not have.
func (a *app) showGap(g *controllerpb.HistoryGap) {
	if a.json() {
		a.print(object{{"gap", gapJSON(g)}})
		return
	}
	a.printf("gap %d..%d: %s", g.GetFromOffset(), g.GetToOffset(), g.GetReason())
}

func gapJSON(g *controllerpb.HistoryGap) object {
	return object{{"fromOffset", g.GetFromOffset()}, {"toOffset", g.GetToOffset()}, {"reason", g.GetReason()}}
}

// showEntry prints the records of an entry that are wanted, with the decisions that they belong to.
func (a *app) showEntry(frame *controllerpb.EntryFrame, want logRange) error {
	entry, err := record.DecodeEntry(frame.GetEntry())
	if err != nil {
		return fmt.Errorf("entry at metadata offset %d: %w", frame.GetBaseOffset(), err)
	}
	if !a.json() {
		a.printf("entry raftIndex=%d controllerEpoch=%d timeMs=%d chain=%s", frame.GetRaftIndex(), frame.GetControllerEpoch(), entry.GetTimeMs(), chain(frame.GetChain()))
	}
	records := list{}
	offset := frame.GetBaseOffset()
	for _, d := range entry.GetDecisions() {
		for _, r := range d.GetRecords() {
			if offset >= want.from && offset <= want.to {
				if a.json() {
					records = append(records, object{{"metadataOffset", offset}, {"cause", causeText(d.GetCause())}, {"record", record.String(r)}})
				} else {
					a.printf("  %d %s  <- %s", offset, record.String(r), causeText(d.GetCause()))
				}
			}
			offset++
		}
	}
	if a.json() {
		a.print(object{
			{"raftIndex", frame.GetRaftIndex()}, {"controllerEpoch", frame.GetControllerEpoch()}, {"timeMs", entry.GetTimeMs()}, {"chain", chain(frame.GetChain())}, {"records", records},
		})
	}
	return nil
}

// causeText is the API or event, and who asked.
func causeText(c *metadatapb.Cause) string {
	text := c.GetName()
	if c.BrokerId != nil {
		text += fmt.Sprintf(" broker %d", c.GetBrokerId())
	}
	if p := c.GetPrincipal(); p != "" && p != quorum.PrincipalAnonymous {
		text += " by " + p
	}
	return text
}
