package quorum

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// stillMachine has one committed image.
type stillMachine struct{ image *image.Image }

func (stillMachine) Offer(fsm.Offer)       {}
func (m stillMachine) Image() *image.Image { return m.image }

// Brokers that are heard keep their sessions however long their heartbeats wait, and also when the queue has no room for them;
// one that is silent is fenced, and so is one of whom only a former life speaks.
func TestOverloadFencesNobodyWhoSpeaks(t *testing.T) {
	for name, full := range map[string]bool{"unread": false, "refused": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := asideLoop(t)
				l.fsm = stillMachine{l.claim.committed}
				l.active.Store(&activity{ended: make(chan struct{})})
				if full {
					for range operationsQueuedMax {
						l.queue <- &operation{}
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer synctest.Wait()
				defer cancel()
				speak := func(id int32, epoch int64) {
					r := &controllerpb.BrokerHeartbeatRequest{BrokerId: id, BrokerEpoch: epoch, MetadataOffset: 10}
					go l.do(ctx, &operation{ctx: ctx, cause: &metadatapb.Cause{Name: "BrokerHeartbeat"}, heartbeat: r})
				}
				const twoSeconds = 20 // ticks
				run := func(ticks int, second int64) (fenced []bool) {
					for tick := range ticks {
						if tick%twoSeconds == 0 {
							speak(1, 1)
							speak(2, second)
						}
						time.Sleep(tickInterval)
						l.beginTurn()
						l.onTick()
					}
					for _, id := range []image.BrokerID{1, 2} {
						b, _ := l.claim.pending.Broker(id)
						fenced = append(fenced, b.Fenced)
					}
					return fenced
				}
				session := int(controller.DefaultLimits().SessionTimeout / tickInterval)
				if fenced := run(2*session, 2); fenced[0] || fenced[1] {
					t.Fatalf("fenced while they speak: %v", fenced)
				}
				if fenced := run(2*session, 99); fenced[0] || !fenced[1] {
					t.Errorf("fenced %v, want the one that is silent", fenced)
				}
			})
		})
	}
}
