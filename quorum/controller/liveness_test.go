package controller_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
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

// H11: whose session ends next, and when, as one after the other is fenced.
func TestNextSessionToEnd(t *testing.T) {
	h, start := livenessFixture(t)
	h.startBroker(4, "")
	const timeout = 10 * time.Millisecond
	ms := func(n int) time.Time { return start.Add(time.Duration(n) * time.Millisecond) }
	lv := h.liveness.Heard(0, ms(0), 1, 0).Heard(1, ms(2), 1, 0).Heard(2, ms(3), 1, 0).Heard(4, ms(4), 1, 0)
	for _, step := range []struct {
		ends int
		is   image.BrokerID
	}{{10, 0}, {12, 1}, {13, 2}, {14, 4}} {
		if stale := lv.Stale(h.image, ms(step.ends), timeout); len(stale) != 0 {
			t.Errorf("at %d ms %v are stale", step.ends, stale)
		}
		if diff := cmp.Diff([]image.BrokerID{step.is}, lv.Stale(h.image, ms(step.ends).Add(1), timeout)); diff != "" {
			t.Errorf("right after %d ms (-want +got):\n%s", step.ends, diff)
		}
		fenced := true
		h.write([]*metadatapb.Record{{Kind: &metadatapb.Record_BrokerRegistrationChange{BrokerRegistrationChange: &metadatapb.BrokerRegistrationChange{
			BrokerId: int32(step.is), BrokerEpoch: int64(h.broker(int32(step.is)).Epoch), Fenced: &fenced,
		}}}})
	}
	if stale := lv.Stale(h.image, ms(1000), timeout); len(stale) != 0 {
		t.Errorf("all are fenced, and %v are stale", stale)
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
	before, _ := h.liveness.HeartbeatState(1)
	_ = h.liveness.Heard(1, start.Add(time.Hour), 77, 5)
	_ = h.liveness.Renewed(start.Add(time.Hour))
	_ = h.liveness.Forgotten(1)
	_ = h.liveness.Settled(1, 55)
	if after, ok := h.liveness.HeartbeatState(1); !ok || after != before {
		t.Errorf("the value changed from %v to %v", before, after)
	}
	if _, ok := h.liveness.Forgotten(1).HeartbeatState(1); ok {
		t.Error("forgotten and still there")
	}
}
