package fsm

import (
	"sync"

	"github.com/quorate/quorate/fsm/image"
)

// offers are images on their way through Raft, in the order of their entries.
type offers struct {
	mu   sync.Mutex
	max  int
	list []Offer
}

func (o *offers) put(offer Offer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.list) >= o.max {
		o.list = append(o.list[:0], o.list[1:]...)
	}
	o.list = append(o.list, offer)
}

// take returns the image offered for an entry, and drops those offered before it: their entries will not come.
func (o *offers) take(claimIndex, sequence uint64) *image.Image {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, offer := range o.list {
		if offer.ClaimIndex == claimIndex && offer.Sequence == sequence {
			o.list = append(o.list[:0], o.list[i+1:]...)
			return offer.Image
		}
	}
	return nil
}

func (o *offers) clear() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.list)
	o.list = o.list[:0]
}
