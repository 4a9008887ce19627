package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/quorate/quorate/fsm/image"
)

// TestLifecycle runs the transcripts of testdata/lifecycle*.txt: one event a line in, effects and state out.
func TestLifecycle(t *testing.T) {
	datadriven.Walk(t, "testdata/lifecycle", func(t *testing.T, path string) {
		lc := newLifecycle(2 * time.Second)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "new" {
				lc = newLifecycle(2 * time.Second)
				return lc.String() + "\n"
			}
			if d.Cmd != "events" {
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			var out strings.Builder
			for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
				e := stepLifecycle(t, lc, line)
				fmt.Fprintf(&out, "%-40s -> %-24s | %s\n", line, e, lc)
				if e.entered != lc.state {
					d.Fatalf(t, "effects tell state %v, lifecycle is in %v", e.entered, lc.state)
				}
			}
			return out.String()
		})
	})
}

func stepLifecycle(t *testing.T, lc *lifecycle, line string) effects {
	t.Helper()
	words := strings.Fields(line)
	has := func(w string) bool { return strings.Contains(line, w) }
	switch words[0] {
	case "judgeable":
		return lc.onJudgeable()
	case "timer":
		return lc.onTimer()
	case "registered":
		var epoch int64
		if _, err := fmt.Sscanf(line, "registered epoch=%d", &epoch); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		return lc.onRegistered(image.BrokerEpoch(epoch), image.MetadataOffset(epoch))
	case "failed":
		return lc.onFailed()
	case "heartbeat":
		return lc.onHeartbeat(heartbeatAnswer{caughtUp: has("caughtUp"), fenced: has(" fenced"), shouldShutDown: has("shouldShutDown")})
	case "ready":
		return lc.onReady()
	case "stopAsked":
		return lc.onStopAsked()
	case "stopNow":
		return lc.onStopNow()
	}
	t.Fatalf("unknown event %q", line)
	return effects{}
}
