package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/quorate/quorate/quorum/env"
)

func main() { os.Exit(mainExit()) }

func mainExit() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	a := &app{stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ(), env: env.OS("")}
	return a.run(ctx, os.Args[1:])
}
