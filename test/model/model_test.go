package model_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/quorate/quorate/test/model"
)

// quickStates is the budget of states of all worlds together; the order asks for 200,000.
const quickStates = 300_000

// statesOf is the budget of one world.
func statesOf(t *testing.T) int {
	n := quickStates
	if text := os.Getenv("MODEL_STATES"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 {
			t.Fatalf("MODEL_STATES is %q, want a number of states", text)
		}
	}
	return max(1, n/len(model.Worlds()))
}

// TestWorlds searches every world, and no promise is broken. Each harm occurs on a share of the paths, which is printed.
func TestWorlds(t *testing.T) {
	var mu sync.Mutex
	var total model.Result
	began := time.Now()
	t.Run("search", func(t *testing.T) {
		for _, cfg := range model.Worlds() {
			t.Run(cfg.Name, func(t *testing.T) {
				t.Parallel()
				r := model.Search(cfg, model.NoBug, statesOf(t))
				t.Log(describe(&r))
				if r.Violation != nil {
					t.Error(r.Transcript())
				}
				mu.Lock()
				defer mu.Unlock()
				total.Add(&r)
			})
		}
	})
	t.Logf("all worlds in %v: %s", time.Since(began).Round(time.Millisecond), describe(&total))
	for _, h := range model.Harms() {
		if total.With[h] == 0 {
			t.Errorf("no path has the harm %v", h)
		}
	}
	if want := statesOf(t) * len(model.Worlds()) * 2 / 3; total.States < want {
		t.Errorf("%d states, want at least %d", total.States, want)
	}
}

// describe prints what a search covered: states, depth, and the share of the shortest paths that each harm is on.
func describe(r *model.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "states=%d steps=%d depth=%d decisions=%d healed=%d", r.States, r.Steps, r.Depth, r.Decisions, r.Healed)
	if r.Exhausted {
		b.WriteString(" exhausted")
	}
	for h, n := range r.With {
		if n > 0 {
			fmt.Fprintf(&b, " %v=%.1f%%", model.Harm(h), 100*float64(n)/float64(max(1, r.States)))
		}
	}
	return b.String()
}

// TestPlantedBugs plants each bug in a world in which it shows, and the search finds the promise that it breaks.
func TestPlantedBugs(t *testing.T) {
	planted := map[model.Bug]struct{ world, breaks string }{
		model.WatermarkByCommitted:      {"behind", "ReplicationQuorumSuperset"},
		model.ShrinkWhenProposed:        {"any", "ReplicationQuorumSuperset"},
		model.AdmissionByWatermark:      {"elr-behind", "LeaderCandidateCompleteness"},
		model.NoBrokerEpoch:             {"joining", "LeaderCandidateCompleteness"},
		model.DivergingFetchNoted:       {"parted", "LeaderCandidateCompleteness"},
		model.CutToOwnWatermark:         {"crashes", "LeaderCandidateCompleteness"},
		model.EntryFenceDropped:         {"sessions", "LeaderFromISROrELR"},
		model.ElectionOutsideISR:        {"alone", "LeaderFromISROrELR"},
		model.NoEpochRiseWithoutLeader:  {"alone", "LeaderEpochBumpsOnEveryElection"},
		model.AnswerBeforeCommit:        {"any", "ReplicationQuorumSuperset"},
		model.LastMemberRemoved:         {"alone", "LastMemberStays"},
		model.ServingBeforeClaimApplied: {"sessions", "MetadataLogMatching"},
		model.NeverRepeated:             {"network", "Converges"},
	}
	for _, bug := range model.Bugs() {
		t.Run(bug.String(), func(t *testing.T) {
			t.Parallel()
			want, ok := planted[bug]
			if !ok {
				t.Fatal("no world is named for this bug")
			}
			r := model.Search(world(t, want.world), bug, statesOf(t))
			if r.Violation == nil {
				t.Fatalf("not found: %s", describe(&r))
			}
			t.Logf("found after %d states at depth %d: %s", r.States, r.Depth, r.Path())
			if got, _, _ := strings.Cut(r.Violation.Error(), ":"); got != want.breaks {
				t.Errorf("it breaks %s, want %s\n%s", got, want.breaks, r.Transcript())
			}
		})
	}
}

func world(t *testing.T, name string) model.Config {
	t.Helper()
	for _, cfg := range model.Worlds() {
		if cfg.Name == name {
			return cfg
		}
	}
	t.Fatalf("no world is called %q", name)
	return model.Config{}
}

// TestSearchRepeats: the same search goes the same way.
func TestSearchRepeats(t *testing.T) {
	a := model.Search(world(t, "elr-any"), model.NoBug, 2000)
	b := model.Search(world(t, "elr-any"), model.NoBug, 2000)
	if describe(&a) != describe(&b) {
		t.Errorf("%s\n%s", describe(&a), describe(&b))
	}
}

// TestTranscripts leads worlds step by step: paths that the search has found once. A file begins with "world NAME [bug=NAME]"; every
// other verb is a step, as the search prints it, "heal" or "state".
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var st *model.Stage
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "world" {
				bug := model.NoBug
				if d.HasArg("bug") {
					bug = bugOf(t, d)
				}
				var err error
				if st, err = model.NewStage(world(t, d.CmdArgs[0].Key), bug); err != nil {
					d.Fatalf(t, "%v", err)
				}
				return "ok\n"
			}
			switch d.Cmd {
			case "state":
				return st.String()
			case "heal":
				return st.Heal()
			}
			verb := d.Cmd
			for _, a := range d.CmdArgs {
				verb += " " + strings.ReplaceAll(a.String(), ", ", ",")
			}
			out, err := st.Do(verb)
			if err != nil {
				return err.Error() + "\n"
			}
			return out
		})
	})
}

func bugOf(t *testing.T, d *datadriven.TestData) model.Bug {
	var name string
	d.ScanArgs(t, "bug", &name)
	for _, b := range model.Bugs() {
		if b.String() == name {
			return b
		}
	}
	d.Fatalf(t, "no bug is called %q", name)
	return model.NoBug
}
