package broker

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// A running broker is ready as long as it may lead: not when it was unregistered, when another process has taken its id, when it was
// fenced without having heard of it, and when no controller answers for a session.
func TestRunningBrokerIsReadyOnlyIfItMayServe(t *testing.T) {
	fenced := true
	for name, c := range map[string]struct {
		happens func(*fakeQuorum, *testBroker)
		want    string
	}{
		"unregistered": {func(q *fakeQuorum, b *testBroker) {
			q.put(&metadatapb.Record{Kind: &metadatapb.Record_UnregisterBroker{UnregisterBroker: &metadatapb.UnregisterBroker{BrokerId: 1, BrokerEpoch: int64(b.epoch())}}})
		}, "broker 1 is not registered any more"},
		"replaced": {func(q *fakeQuorum, b *testBroker) {
			q.put(brokerRecord(1, int64(q.image().Offset())+1))
		}, "broker 1 is registered by another process"},
		"fenced unheard": {func(q *fakeQuorum, b *testBroker) {
			q.put(&metadatapb.Record{Kind: &metadatapb.Record_BrokerRegistrationChange{BrokerRegistrationChange: &metadatapb.BrokerRegistrationChange{
				BrokerId: 1, BrokerEpoch: int64(b.epoch()), Fenced: &fenced,
			}}})
		}, "the broker is fenced"},
		"alone": {func(q *fakeQuorum, _ *testBroker) { q.grpc.Stop() }, "no controller has answered a heartbeat for"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				_, q, b := startCluster(t, dir)
				time.Sleep(time.Minute)
				if ok, why := b.Ready(); !ok {
					t.Fatalf("after a quiet minute: %s", why)
				}
				c.happens(q, b)
				eventually(t, c.want, func() bool { ok, why := b.Ready(); return !ok && strings.Contains(why, c.want) })
				if err := b.Shutdown(t.Context()); err != nil {
					t.Log(err)
				}
				b.end(t)
			})
		})
	}
}
