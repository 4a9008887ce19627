package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/quorate/node"
)

func (a *app) randomUUIDCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "random-uuid",
		Short: "Print a fresh id for format",
		Args:  cobra.NoArgs,
		RunE: a.act(func(context.Context, *cobra.Command, []string) error {
			id := node.RandomUUID().String()
			if a.json() {
				a.print(object{{"id", id}})
			} else {
				a.printf("%s", id)
			}
			return nil
		}),
	}
}
