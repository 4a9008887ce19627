package controller_test

import (
	"testing"
	"time"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// F27: how long ago a broker came back is counted from when this controller saw it. The time of day in the log is that of another
// controller, whose clock may be hours ahead or behind.
func TestReturnIsCountedFromWhenItWasSeen(t *testing.T) {
	const settle = 30 * time.Second
	for name, off := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.claim()
			h.startBroker(1, "")
			h.startBroker(2, "")
			h.place("t", part(ids{1, 2}, ids{1, 2}, 2, 0, 0))
			b := h.broker(1)
			for _, fenced := range []bool{true, false} { // by the controller before
				next, err := replay(h.image, &metadatapb.Record{Kind: &metadatapb.Record_BrokerRegistrationChange{
					BrokerRegistrationChange: &metadatapb.BrokerRegistrationChange{
						BrokerId: 1, BrokerEpoch: int64(b.Epoch), Fenced: &fenced, StateSinceMs: h.now.Add(off).UnixMilli(),
					},
				}})
				if err != nil {
					t.Fatal(err)
				}
				h.image = next
			}
			h.claim()
			round := func() int {
				d, err := controller.BalanceLeaders(h.view(), settle)
				if err != nil {
					t.Fatal(err)
				}
				return d.Response.Elected
			}
			if n := round(); n != 0 {
				t.Errorf("%d elections right after the claim", n)
			}
			h.advance(settle, []int32{1, 2})
			if n := round(); n != 1 {
				t.Errorf("%d elections after the broker had served for %v, want 1", n, settle)
			}
			joined := h.liveness.Registered(1, h.now, 9).Joined(h.liveness.Heard(1, h.now.Add(time.Second), 5, 0))
			if beat, _ := joined.HeartbeatState(1); beat.MetadataOffset != image.NoOffset || beat.SettledOffset != 9 || !beat.LastContact.Equal(h.now.Add(time.Second)) {
				t.Errorf("a heartbeat of the life before counts for the one that was registered meanwhile: %+v", beat)
			}
		})
	}
}
