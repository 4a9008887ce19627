package model_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/quorate/quorate/test/model"
)

// quickStates is the budget of states of all worlds together; the order asks for 200,000.
const quickStates = 300_000

// statesWanted is how many states all worlds together are searched for.
func statesWanted(t *testing.T) int {
	text := os.Getenv("MODEL_STATES")
	if text == "" {
		return quickStates
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("MODEL_STATES is %q, want a number of states", text)
	}
	return n
}

// worldsWanted are all worlds, or those whose names MODEL_WORLDS lists.
func worldsWanted(t *testing.T) []model.Config {
	text := os.Getenv("MODEL_WORLDS")
	if text == "" {
		return model.Worlds()
	}
	var list []model.Config
	for _, name := range strings.Split(text, ",") {
		list = append(list, world(t, name))
	}
	return list
}

// TestWorlds searches every world, and no promise is broken. What small worlds leave of the budget of states goes to the
// others, in another round. Each harm occurs on a share of the paths, which is printed.
func TestWorlds(t *testing.T) {
	began := time.Now()
	want, worlds := statesWanted(t), worldsWanted(t)
	going := make([]*model.Searching, len(worlds)) // nil where a world is exhausted
	for i, cfg := range worlds {
		going[i] = model.NewSearching(cfg, model.NoBug)
	}
	results := make([]model.Result, len(worlds))
	var total model.Result
	for round := 1; !t.Failed() && total.States < want; round++ {
		open := len(going) - count(going, nil)
		if open == 0 {
			break
		}
		share := (want - total.States + open - 1) / open
		t.Run(fmt.Sprintf("round=%d", round), func(t *testing.T) {
			for i, s := range going {
				if s == nil {
					continue
				}
				t.Run(worlds[i].Name, func(t *testing.T) {
					t.Parallel()
					results[i] = s.Run(results[i].States + share)
					t.Logf("%v: %s", time.Since(began).Round(time.Millisecond), describe(&results[i]))
					if results[i].Violation != nil {
						t.Error(results[i].Transcript())
					}
					if results[i].Exhausted {
						going[i] = nil
					}
				})
			}
		})
		total = model.Result{}
		for i := range results {
			total.Add(&results[i])
		}
	}
	t.Logf("all worlds in %v: %s", time.Since(began).Round(time.Millisecond), describe(&total))
	t.Logf("worlds=%d exhausted=%d invariants=%d: %s", len(worlds), count(going, nil), len(model.Promises()), strings.Join(model.Promises(), " "))
	for _, h := range model.Harms() {
		if total.With[h] == 0 && len(worlds) == len(model.Worlds()) {
			t.Errorf("no path has the harm %v", h)
		}
	}
	if total.States < want && count(going, nil) < len(going) {
		t.Errorf("%d states, want at least %d", total.States, want)
	}
}

func count[T comparable](list []T, x T) (n int) {
	for _, y := range list {
		if x == y {
			n++
		}
	}
	return n
}

// describe prints what a search covered: different states, visits (a state counts once more if more harm was left), steps,
// depth, and the share of the shortest paths that each harm is on.
func describe(r *model.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "states=%d visits=%d expanded=%d steps=%d depth=%d decisions=%d healed=%d", r.States, r.Visits, r.Expanded, r.Steps, r.Depth, r.Decisions, r.Healed)
	if r.Exhausted {
		b.WriteString(" exhausted")
	}
	for h, n := range r.With {
		if n > 0 {
			fmt.Fprintf(&b, " %v=%.1f%%", model.Harm(h), 100*float64(n)/float64(max(1, r.Visits)))
		}
	}
	return b.String()
}

// bugStates bounds the search for a planted bug.
const bugStates = 20_000

// TestPlantedBugs plants each bug in a world in which it shows, and the search finds the promise that it breaks. What it prints
// is a transcript: it runs as it is, and without the bug the same steps break nothing.
func TestPlantedBugs(t *testing.T) {
	planted := map[model.Bug]struct{ world, breaks string }{
		model.WatermarkByCommitted:      {"behind", "ReplicationQuorumSuperset"},
		model.ShrinkWhenProposed:        {"any", "ReplicationQuorumSuperset"},
		model.AdmissionByWatermark:      {"elr-behind", "LeaderCandidateCompleteness"},
		model.NoBrokerEpoch:             {"joining", "LeaderCandidateCompleteness"},
		model.DivergingFetchNoted:       {"parted", "LeaderCandidateCompleteness"},
		model.CutToOwnWatermark:         {"crashes", "LeaderCandidateCompleteness"},
		model.EntryFenceDropped:         {"claims", "MetadataLogMatching"},
		model.ElectionOutsideISR:        {"alone", "LeaderFromISROrELR"},
		model.NoEpochRiseWithoutLeader:  {"alone", "LeaderEpochBumpsOnEveryElection"},
		model.AnswerBeforeCommit:        {"any", "ReplicationQuorumSuperset"},
		model.LastMemberRemoved:         {"alone", "LastMemberStays"},
		model.ServingBeforeClaimApplied: {"sessions", "MetadataLogMatching"},
		model.NeverRepeated:             {"network", "Converges"},
		model.MinISRNotTold:             {"elr-raised", "LeaderCandidateCompleteness"},
	}
	var found atomic.Int32
	t.Cleanup(func() { t.Logf("planted bugs found: %d of %d", found.Load(), len(model.Bugs())) })
	for _, bug := range model.Bugs() {
		t.Run(bug.String(), func(t *testing.T) {
			t.Parallel()
			want, ok := planted[bug]
			if !ok {
				t.Fatal("no world is named for this bug")
			}
			r := model.Search(world(t, want.world), bug, bugStates)
			if r.Violation == nil {
				t.Fatalf("not found: %s", describe(&r))
			}
			t.Logf("found after %d states at depth %d: %s", r.States, r.Depth, r.Path())
			if got, _, _ := strings.Cut(r.Violation.Error(), ":"); got != want.breaks {
				t.Errorf("it breaks %s, want %s\n%s", got, want.breaks, r.Transcript())
			}
			pasted := filepath.Join(t.TempDir(), "pasted.txt")
			if err := os.WriteFile(pasted, []byte(r.Transcript()), 0o600); err != nil {
				t.Fatal(err)
			}
			runTranscript(t, pasted)
			if text := withoutBug(t, &r); strings.Contains(text, "broken: ") {
				t.Errorf("the same path without the bug breaks something as well:\n%s", text)
			}
			if !t.Failed() {
				found.Add(1)
			}
		})
	}
}

// withoutBug makes the steps of a path that are possible without the bug and returns what they do.
func withoutBug(t *testing.T, r *model.Result) string {
	st, err := model.NewStage(*r.Config, model.NoBug)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for verb := range strings.SplitSeq(r.Path(), "; ") {
		out, err := st.Do(verb)
		if err != nil {
			out = err.Error() + "\n"
		}
		fmt.Fprintf(&b, "\n%s\n----\n%s", verb, out)
	}
	return b.String() + "\nheal\n----\n" + st.Heal()
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
	datadriven.Walk(t, "testdata", runTranscript)
}

func runTranscript(t *testing.T, path string) {
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
