package quorum

import (
	"errors"
	"fmt"
	"testing"
)

// TestRemovalRetry: refusals double the pause up to the limit, are told once a reason, and success begins anew.
func TestRemovalRetry(t *testing.T) {
	var r removalRetry
	var pauses []int
	for range 6 {
		pause := 0
		for !r.due() {
			pause++
		}
		pauses = append(pauses, pause)
		if isNew := r.settle(errors.New("not caught up")); isNew != (len(pauses) == 1) {
			t.Errorf("refusal %d is told: %v", len(pauses), isNew)
		}
	}
	if got := fmt.Sprint(pauses); got != "[0 1 2 4 8 16]" || r.left != removalPauseMax {
		t.Errorf("pauses %s, then %d", got, r.left)
	}
	if r.settle(nil); !r.due() || !r.settle(errors.New("not caught up")) {
		t.Error("success does not begin anew")
	}
}
