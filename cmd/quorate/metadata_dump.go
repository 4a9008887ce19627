package main

import (
	"bytes"
	"context"
	"errors"
	"io"

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
			"while the history has all of it (metadata.history.retention.*).",
		Example: "  quorate metadata dump --node 1002 --at 812",
		Args:    cobra.NoArgs,
	}
	r.register(c)
	c.Flags().Int64Var(&r.at, "at", -1, "the image at exactly this metadata offset")
	c.RunE = a.timed(func(ctx context.Context, c *cobra.Command, _ []string) error {
		request := &controllerpb.DumpImageRequest{Options: r.options()}
		if c.Flags().Changed("at") {
			request.AtOffset = &r.at
		}
		return a.metadataDump(ctx, &r, request)
	})
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
		for {
			piece, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			dump.Write(piece.GetData())
		}
	})
	if err != nil {
		return err
	}
	_, err = dump.WriteTo(a.stdout)
	return err
}
