package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

func (a *app) metadataDumpCommand() *cobra.Command {
	var r readFlags
	c := &cobra.Command{
		Use:   "dump",
		Short: "Print the whole image as canonical JSON",
		Long: "Print the whole image as canonical JSON, with its metadata offset and chain: the same bytes on every node at the same\n" +
			"offset, whatever --output says. --at takes an offset at which an entry ends, back to the oldest snapshot, or to the beginning\n" +
			"while the history has all of it (metadata.history.retention.*). One beyond the newest is refused; a node that follows waits a second for it before.",
		Example: "  quorate metadata dump --node 1002 --at 812",
		Args:    cobra.NoArgs,
	}
	r.register(c)
	var at int64
	c.Flags().Int64Var(&at, "at", 0, "the image at exactly this metadata offset, 0 or more")
	c.Flags().Lookup("at").DefValue = "the newest"
	c.RunE = func(c *cobra.Command, args []string) error {
		request := &controllerpb.DumpImageRequest{}
		if c.Flags().Changed("at") {
			request.AtOffset = &at
			if at < 0 {
				return fmt.Errorf("--at is %d, and the first metadata offset is 0: give 0 or more; `quorate quorum status` shows the newest", at)
			}
		}
		return a.timed(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			request.Options = r.options()
			return a.metadataDump(ctx, &r, request)
		})(c, args)
	}
	return c
}

// metadataDump prints nothing before the whole dump is there.
func (a *app) metadataDump(ctx context.Context, r *readFlags, request *controllerpb.DumpImageRequest) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	var dump bytes.Buffer
	err = a.read(ctx, c, r, func(ctx context.Context, reader controllerpb.ReaderApiClient) error {
		dump.Reset()
		stream, err := reader.DumpImage(ctx, request)
		if err != nil {
			return err
		}
		return eachPiece(stream, func(piece *controllerpb.DumpImageResponse) error {
			dump.Write(piece.GetData())
			return nil
		})
	})
	if err != nil {
		return err
	}
	_, err = dump.WriteTo(a.stdout)
	return err
}
