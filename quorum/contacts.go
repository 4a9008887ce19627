package quorum

import (
	"sync"
	"time"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// contacts are the heartbeats that arrived since the last tick, the newest of each broker. They are noted before they wait in
// the queue, or find it full: what others ask for must not make a broker look silent that speaks. There is one a registered
// broker at most. It is safe for concurrent use.
type contacts struct {
	mu    sync.Mutex
	heard map[image.BrokerID]controller.Contact
}

// note keeps a heartbeat that carries the epoch that the broker has in the committed image.
func (c *contacts) note(im *image.Image, r *controllerpb.BrokerHeartbeatRequest, at time.Time) {
	id := image.BrokerID(r.GetBrokerId())
	if b, ok := im.Broker(id); !ok || b.Epoch != image.BrokerEpoch(r.GetBrokerEpoch()) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heard == nil {
		c.heard = make(map[image.BrokerID]controller.Contact)
	}
	c.heard[id] = controller.Contact{Heartbeat: r, At: at}
}

// take returns what was noted and forgets it.
func (c *contacts) take() map[image.BrokerID]controller.Contact {
	c.mu.Lock()
	defer c.mu.Unlock()
	heard := c.heard
	c.heard = nil
	return heard
}

// hear renews the sessions of the brokers that spoke since the last tick.
func (l *loop) hear() {
	if heard := l.contacts.take(); len(heard) > 0 {
		l.claim.liveness = controller.Contacts(l.view(), heard)
	}
}
