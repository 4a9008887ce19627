package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/raftnode"
)

// What ends a command or a node is told in an operator's words, under the code that says what to do.
func TestErrorsAreExplained(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
		exit int
	}{
		{fmt.Errorf("broker: recovery: %w (lineage 1, registered in lineage 0)", broker.ErrNewLineage),
			"STALE_BROKER_EPOCH: the quorum was recovered offline while this broker ran: start it again, so that it judges its logs by the recovered metadata (lineage 1, registered in lineage 0)", exitRefused},
		{fmt.Errorf("%w: h:1: rpc error: code = Unavailable desc = lost", client.ErrOutcomeUnknown),
			"REQUEST_TIMED_OUT: h:1 did not answer; the change may have been made or may still be: look before you try again", exitUnavailable},
		{fmt.Errorf("%w: %w (before that: rpc error: code = Unavailable desc = x (y))", client.ErrNoController, context.DeadlineExceeded),
			"NOT_CONTROLLER: no active controller: no answer within --timeout; nothing was changed; quorate quorum status shows who answers; check --controllers, or raise --timeout", exitUnavailable},
		{fmt.Errorf("%w: log.StoreLogs: write /d/log.bolt: %w; free or replace the disk and start the node again", raftnode.ErrStoreFailed, syscall.ENOSPC),
			"KAFKA_STORAGE_ERROR: a store failed: log.StoreLogs: write /d/log.bolt: no space left on device; free or replace the disk and start the node again", exitRefused},
		{fmt.Errorf("%w: h:1 answers %q", broker.ErrForeignCluster, "another"), "INCONSISTENT_CLUSTER_ID: the controllers serve another cluster: h:1 answers \"another\"", exitRefused},
		{errors.New("quorum: disk is full"), "UNKNOWN_SERVER_ERROR: disk is full", exitRefused},
		{usage(errors.New(strings.Repeat("x", 3*messageMax))), "INVALID_REQUEST: " + strings.Repeat("x", messageMax) + "... (6000 bytes)", exitUsage},
	} {
		if f := explain(c.err); f.Error() != c.want || f.exit != c.exit {
			t.Errorf("%v\nwant %s", f, c.want)
		}
	}
}
