package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cmd/quorate/node"
	"github.com/quorate/quorate/quorum/env"
)

type serverFlags struct {
	config, logFormat, logLevel string
	set                         []string
	printConfig                 bool
}

func (a *app) serverCommand() *cobra.Command {
	f := &serverFlags{}
	c := &cobra.Command{
		Use:   "server --config FILE",
		Short: "Run one node",
		Long: "Run one node: a controller, a broker or both, as process.roles says. Values are taken from --set, then from the environment\n" +
			"(QUORATE_NODE_ID for node.id), then from the file, then from the defaults. SIGTERM stops it in order.",
		Example: "  quorate server --config b1.properties --set broker.rack=west --log-format json\n  quorate server --config b1.properties --print-config",
		Args:    cobra.NoArgs,
	}
	fl := c.Flags()
	fl.StringVar(&f.config, "config", "", "the node's properties file")
	fl.StringArrayVar(&f.set, "set", nil, "key=value, over the file and the environment; may be repeated")
	fl.BoolVar(&f.printConfig, "print-config", false, "show value, source and default of each key, and end; --config may be left out")
	fl.StringVar(&f.logFormat, "log-format", "text", "text or json")
	fl.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	c.RunE = func(c *cobra.Command, args []string) error {
		logger, err := a.logger(f)
		if err != nil {
			return err
		}
		return a.act(func(ctx context.Context, _ *cobra.Command, _ []string) error { return a.server(ctx, f, logger) })(c, args)
	}
	return c
}

// logger writes one line an event to stderr.
func (a *app) logger(f *serverFlags) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return nil, fmt.Errorf("--log-level is %q; it is debug, info, warn or error", f.logLevel)
	}
	options := &slog.HandlerOptions{Level: level}
	switch f.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(a.stderr, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(a.stderr, options)), nil
	}
	return nil, fmt.Errorf("--log-format is %q; it is text or json", f.logFormat)
}

func (a *app) server(ctx context.Context, f *serverFlags, logger *slog.Logger) error {
	cfg, err := a.load(node.Sources{File: f.config, Set: f.set, Partial: f.printConfig && f.config == ""})
	if err != nil {
		return err
	}
	if f.printConfig {
		a.printConfig(cfg)
		return nil
	}
	e := a.env
	if cfg.LocalAddress != "" {
		e = env.OS(cfg.LocalAddress)
	}
	return node.Run(ctx, node.RunOptions{
		Config: cfg, Env: e, Logger: logger, Version: version(), Parent: a.variable(node.ParentVariable), Stderr: a.stderr, Exit: os.Exit,
		Explain: func(err error) error { return explain(err) },
	})
}

// variable is the value of an environment variable, empty if it is not set.
func (a *app) variable(name string) string {
	for _, v := range a.environ {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

func (a *app) printConfig(cfg *node.Config) {
	if a.json() {
		out := list{}
		for _, s := range cfg.Settings() {
			out = append(out, object{{"key", s.Key}, {"value", s.Value}, {"source", s.Source}, {"default", s.Default}, {"unit", s.Unit}})
		}
		a.print(object{{"config", out}})
		return
	}
	for _, s := range cfg.Settings() {
		line := fmt.Sprintf("%s=%s source=%s default=%s", s.Key, s.Value, s.Source, s.Default)
		if s.Unit != "" {
			line += " unit=" + s.Unit
		}
		a.printf("%s", line)
	}
}
