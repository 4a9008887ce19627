package quorum

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
	"github.com/quorate/quorate/quorum/env"
)

// asideLoop has a claim over two unfenced brokers, and is driven by hand.
func asideLoop(t *testing.T) *loop {
	t.Helper()
	d := image.Load()
	for _, r := range []*metadatapb.Record{
		{Kind: &metadatapb.Record_FeatureLevel{FeatureLevel: &metadatapb.FeatureLevel{Name: image.FeatureMetadataVersion, Level: image.MetadataVersion}}},
		broker(1), broker(2),
	} {
		if err := d.Replay(0, r); err != nil {
			t.Fatal(err)
		}
	}
	im := d.Seal(10, 1)
	cfg := &Config{
		Env: env.OS(""), Logger: slog.New(slog.DiscardHandler), HeartbeatInterval: time.Second,
		Limits: controller.DefaultLimits(), Defaults: controller.DefaultDefaults(),
		Fatal: func(err error) { t.Error(err) },
	}
	l := newLoop(cfg, &Metrics{}, &refusingRaft{}, emptyMachine{})
	l.rand = rand.New(rand.NewPCG(1, 1))
	l.claim = &claim{committed: im, pending: im, base: 11, chain: 1, liveness: controller.NewLiveness(im, cfg.Env.Now())}
	return l
}

func broker(id int32) *metadatapb.Record {
	own := image.UUID{byte(id), 6: 0x40, 8: 0x80}
	return &metadatapb.Record{Kind: &metadatapb.Record_RegisterBroker{RegisterBroker: &metadatapb.RegisterBroker{
		BrokerId: id, IncarnationId: own.Bytes(), DirectoryId: own.Bytes(), BrokerEpoch: int64(id), RegistrationOffset: int64(id),
		Features: image.DeclaredFeatures(),
	}}}
}

// beat is a heartbeat that adds its name to the list when it is answered.
func beat(t *testing.T, answered *[]string, id int32, wantFence bool) *operation {
	r := &controllerpb.BrokerHeartbeatRequest{BrokerId: id, BrokerEpoch: int64(id), MetadataOffset: 10, WantFence: wantFence}
	return &operation{
		ctx: t.Context(), cause: &metadatapb.Cause{Name: "BrokerHeartbeat"}, heartbeat: r,
		decide: func(v controller.View) plan { return planOf(controller.BrokerHeartbeat(v, r)) },
		answer: func(out result) {
			if out.err != nil {
				t.Errorf("heartbeat of %d: %v", id, out.err)
			}
			*answered = append(*answered, "beat")
		},
	}
}

// While a large decision is made, heartbeats that change nothing are answered and count; those of the brokers it is about, those
// that wish something and all other requests wait, heartbeats before requests, and see all of it.
func TestHeartbeatsDoNotWaitForLargeDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := asideLoop(t)
		var answered []string
		decided, began := make(chan struct{}), l.env.Now()
		fenced := true
		l.take(&operation{
			ctx: t.Context(), cause: &metadatapb.Cause{Name: "SessionExpired"},
			extent: func(controller.View) controller.Extent {
				return controller.Extent{Items: asideItemsMin, Brokers: []image.BrokerID{1}}
			},
			decide: func(v controller.View) plan {
				<-decided
				liveness := v.Liveness.Settled(1, 11)
				return plan{liveness: &liveness, records: []*metadatapb.Record{{Kind: &metadatapb.Record_BrokerRegistrationChange{
					BrokerRegistrationChange: &metadatapb.BrokerRegistrationChange{BrokerId: 1, BrokerEpoch: 1, Fenced: &fenced},
				}}}}
			},
			answer: func(result) {},
		})
		if l.aside == nil {
			t.Fatal("the decision is not made beside the loop")
		}
		time.Sleep(time.Millisecond)
		l.take(beat(t, &answered, 2, false))
		if len(answered) != 1 {
			t.Fatal("a heartbeat waits")
		}
		var seen []bool
		look := func(v controller.View) plan {
			b, _ := v.Image.Broker(1)
			seen = append(seen, b.Fenced)
			return plan{}
		}
		for range 2 {
			l.take(&operation{ctx: t.Context(), cause: &metadatapb.Cause{Name: "Look"}, decide: look, answer: func(result) {}})
		}
		l.take(beat(t, &answered, 1, false))
		l.take(beat(t, &answered, 2, true))
		if len(answered) != 1 || len(seen) != 0 || len(l.waiting) != 4 || l.depth() != 4 || l.claim.pending.Offset() != 10 {
			t.Fatalf("answered %v, seen %v, %d wait, depth %d", answered, seen, len(l.waiting), l.depth())
		}
		close(decided)
		<-l.asideDone()
		l.onAside()
		if b, _ := l.claim.pending.Broker(1); !b.Fenced || l.claim.pending.Offset() != 11 || l.claim.open.records != 1 {
			t.Fatalf("pending at %d has %+v", l.claim.pending.Offset(), b)
		}
		heard, _ := l.claim.liveness.HeartbeatState(2)
		settled, _ := l.claim.liveness.HeartbeatState(1)
		if !heard.LastContact.After(began) || settled.SettledOffset != 11 {
			t.Errorf("heard %+v, settled %+v", heard, settled)
		}
		op, ok := l.nextWaiting()
		if !ok {
			t.Fatal("nothing waits")
		}
		l.onOperation(op)
		if !slices.Equal(seen, []bool{false, false}) || len(l.waiting) != 0 || l.heartbeatsWaiting != 0 || l.depth() != 0 { // broker 1 was fenced, and is back
			t.Errorf("seen %v, %d wait, depth %d", seen, len(l.waiting), l.depth())
		}
		if b, _ := l.claim.pending.Broker(2); !b.Fenced || l.claim.pending.Offset() != 13 {
			t.Errorf("pending at %d has %+v", l.claim.pending.Offset(), b)
		}
	})
}

// A claim that ends drops a large decision that is being made, and refuses it and what waits for it.
func TestLargeDecisionOfAnEndedClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := asideLoop(t)
		decided := make(chan struct{})
		refused := 0
		count := func(r result) {
			if r.err == ErrNotActive {
				refused++
			}
		}
		l.take(&operation{
			ctx: t.Context(), cause: &metadatapb.Cause{Name: "SessionExpired"}, answer: count,
			extent: func(controller.View) controller.Extent {
				return controller.Extent{Items: asideItemsMin, Brokers: []image.BrokerID{1}}
			},
			decide: func(controller.View) plan { <-decided; return plan{} },
		})
		l.take(&operation{ctx: t.Context(), cause: &metadatapb.Cause{Name: "Look"}, answer: count, decide: func(controller.View) plan { return plan{} }})
		l.renounce("the test says so")
		if refused != 2 || l.aside != nil || len(l.waiting) != 0 {
			t.Errorf("%d refused, %d wait", refused, len(l.waiting))
		}
		close(decided)
		l.asides.Wait()
	})
}

// While the log is behind and nothing more is decided, heartbeats that change nothing are answered all the same; what else comes is
// decided in order as soon as there is room.
func TestHeartbeatsDoNotWaitForTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := asideLoop(t)
		l.claim.ready = make([]*proposal, entriesReadyMax)
		var answered []string
		looked := 0
		look := &operation{ctx: t.Context(), cause: &metadatapb.Cause{Name: "Look"}, decide: func(controller.View) plan { looked++; return plan{} }, answer: func(result) {}}
		l.queue <- beat(t, &answered, 2, false)
		l.queue <- look
		l.queue <- beat(t, &answered, 1, false)
		l.onOperation(look)
		if len(answered) != 2 || looked != 0 || len(l.waiting) != 2 || l.goesOn() {
			t.Fatalf("%d heartbeats answered, %d requests decided, %d wait", len(answered), looked, len(l.waiting))
		}
		l.claim.ready = nil
		if l.takes() || l.waited() == nil {
			t.Error("what comes now goes before what waits")
		}
		op, _ := l.nextWaiting()
		if l.onOperation(op); looked != 2 || !l.takes() {
			t.Errorf("%d requests decided with room", looked)
		}
	})
}

// What time brings and the requests that wait take turns, also while requests come during a large decision that time has brought.
func TestTimeAndLargeRequestsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := asideLoop(t)
		l.aside, l.timeWent = &aside{}, true
		l.onTime()
		l.letTimeGo() // a request comes, and waits
		l.aside = nil
		if l.letTimeGo(); !l.overdue {
			t.Error("time had two turns, one after the other")
		}
		if l.letTimeGo(); l.overdue {
			t.Error("time has no turn after the request")
		}
	})
}
