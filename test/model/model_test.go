package model_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/test/model"
)

// statesOf is the budget of states of all worlds together.
func statesOf(t *testing.T) int {
	text := os.Getenv("MODEL_STATES")
	if text == "" {
		return 240_000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("MODEL_STATES is %q, want a number of states", text)
	}
	return n
}

func TestWorlds(t *testing.T) {
	worlds := model.Worlds()
	for _, cfg := range worlds {
		began := time.Now()
		r := model.Search(cfg, model.NoBug, statesOf(t)/len(worlds))
		t.Logf("%-12s states=%d steps=%d depth=%d exhausted=%v decisions=%d with=%v took=%v", cfg.Name, r.States, r.Steps, r.Depth, r.Exhausted, r.Decisions, r.With, time.Since(began))
		if r.Violation != nil {
			t.Errorf("%v\n%s", r.Violation, r.Transcript())
		}
	}
}
