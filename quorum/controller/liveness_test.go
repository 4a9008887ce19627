package controller_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/controller"
)

// livenessFixture has three unfenced brokers and a fenced one, all heard at the beginning.
func livenessFixture(t *testing.T) (*harness, time.Time) {
	h := newHarness(t)
	h.claim()
	for id := range int32(3) {
		h.startBroker(id, "")
	}
	d, err := controller.RegisterBroker(h.view(), registerRequest(3, "inc-3", "dir-3"))
	carryOut(h, d, err)
	return h, h.now
}

// H10: contact + timeout < now is stale; equal is not.
func TestStaleAfterTimeoutOnly(t *testing.T) {
	h, start := livenessFixture(t)
	lv := h.liveness.Heard(0, start, 1, 0).Heard(1, start.Add(5*time.Millisecond), 1, 0).Heard(2, start.Add(6*time.Millisecond), 1, 0)
	for _, c := range []struct {
		at   time.Duration
		want []image.BrokerID
	}{
		{10 * time.Millisecond, []image.BrokerID{}},
		{11 * time.Millisecond, []image.BrokerID{0}},
		{16 * time.Millisecond, []image.BrokerID{0, 1}},
		{17 * time.Millisecond, []image.BrokerID{0, 1, 2}},
	} {
		if diff := cmp.Diff(c.want, lv.Stale(h.image, start.Add(c.at), 10*time.Millisecond)); diff != "" {
			t.Errorf("at %v (-want +got):\n%s", c.at, diff)
		}
	}
}

// The longest silent broker comes first, the lower id among equals.
func TestStaleOrder(t *testing.T) {
	h, start := livenessFixture(t)
	lv := h.liveness.Heard(0, start.Add(2*time.Second), 1, 0).Heard(1, start.Add(time.Second), 1, 0).Heard(2, start.Add(time.Second), 1, 0)
	want := []image.BrokerID{1, 2, 0}
	if diff := cmp.Diff(want, lv.Stale(h.image, start.Add(time.Minute), time.Second)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A controller that did not run for longer than a heartbeat interval gives everybody a full new session (F27b).
func TestTickRenewsSessionsAfterGap(t *testing.T) {
	h, start := livenessFixture(t)
	const interval, timeout = 2 * time.Second, 9 * time.Second
	lv := h.liveness
	for at := time.Second; at <= 8*time.Second; at += time.Second {
		var renewed bool
		if lv, renewed = lv.Tick(start.Add(at), interval); renewed {
			t.Fatalf("renewed at %v", at)
		}
	}
	if lv, renewed := lv.Tick(start.Add(10*time.Second), interval); renewed || len(lv.Stale(h.image, start.Add(10*time.Second), timeout)) != 3 {
		t.Error("a gap of one heartbeat interval is no gap")
	}
	lv, renewed := lv.Tick(start.Add(10*time.Second+1), interval)
	if !renewed || len(lv.Stale(h.image, start.Add(19*time.Second), timeout)) != 0 {
		t.Error("a gap above one heartbeat interval must renew all sessions")
	}
}

// A fenced broker has no session, and nobody waits for it.
func TestFencedHasNoSession(t *testing.T) {
	h, start := livenessFixture(t)
	if h.liveness.HasSession(h.broker(3), start, time.Hour) {
		t.Error("a fenced broker has a session")
	}
	if !h.liveness.HasSession(h.broker(0), start.Add(time.Second), time.Second) {
		t.Error("the end of the session belongs to it")
	}
	if h.liveness.HasSession(h.broker(0), start.Add(time.Second+1), time.Second) {
		t.Error("the session goes on after its end")
	}
}

// H5: the offset that the slowest other active broker has applied; unknown as long as one has not told.
func TestLowestActiveOffset(t *testing.T) {
	h, start := livenessFixture(t)
	lv := h.liveness.Heard(0, start, 90, 0).Heard(1, start, 98, 0).Heard(2, start, 100, 0)
	if got := lv.LowestActiveOffset(h.image, 0); got != 98 {
		t.Errorf("lowest of the others is %d, want 98", got)
	}
	if got := controller.NewLiveness(h.image, start).LowestActiveOffset(h.image, 0); got != image.NoOffset {
		t.Errorf("after a claim it is %d, want unknown", got)
	}
	if got := lv.LowestActiveOffset(image.Empty(), 0); got != math.MaxInt64 {
		t.Errorf("with nobody else it is %d", got)
	}
}

// Updates leave the value they were made from as it was.
func TestLivenessIsAValue(t *testing.T) {
	h, start := livenessFixture(t)
	before, _ := h.liveness.Beat(1)
	_ = h.liveness.Heard(1, start.Add(time.Hour), 77, 5)
	_ = h.liveness.Renewed(start.Add(time.Hour))
	_ = h.liveness.Forgotten(1)
	_ = h.liveness.Settled(1, 55)
	if after, ok := h.liveness.Beat(1); !ok || after != before {
		t.Errorf("the value changed from %v to %v", before, after)
	}
	if _, ok := h.liveness.Forgotten(1).Beat(1); ok {
		t.Error("forgotten and still there")
	}
}
