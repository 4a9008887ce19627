package controller

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/quorate/quorate/fsm/image"
)

// placer spreads the replicas of one topic, in this order: over racks, over brokers, on unfenced brokers before fenced
// ones (Kafka: StripedReplicaPlacer). The same source of randomness gives the same placement.
//
// Each partition starts one rack further than the one before. Its first replica is unfenced. The others walk the racks
// from the same rack on, passing over the leader's rack once, and take from each the next unfenced broker, else the next
// fenced one. No broker stands twice in a partition. Within a rack the first replica moves by one broker from one of its
// turns to the next, so that racks of one size give every broker its turn before one has a second; Kafka moves by one
// with every partition, which lets some brokers of a rack lead nothing.
type placer struct {
	racks    []*placerRack
	rack     int // where the next partition starts
	epoch    int // number of the partition since the last shuffle
	unfenced int
	brokers  []placeable // registered and not shutting down
	rand     *rand.Rand
}

// placerRack holds the brokers of one rack.
type placerRack struct {
	unfenced, fenced placerList
}

// placerList hands each of its brokers out once an epoch.
type placerList struct {
	brokers []image.BrokerID
	epoch   int // -1 before the first use
	index   int
	offset  int
}

// placeable is a broker as placement sees it.
type placeable struct {
	id     image.BrokerID
	rack   string
	fenced bool
}

// placeableBrokers returns the registered brokers except those in controlled shutdown (KIP-841).
func placeableBrokers(im *image.Image) []placeable {
	var list []placeable
	for b := range im.Brokers() {
		if b.InControlledShutdown {
			continue
		}
		p := placeable{id: b.ID, fenced: b.Fenced}
		if b.Rack != nil {
			// A broker without a rack is not in the rack with the empty name.
			p.rack = "r" + *b.Rack
		}
		list = append(list, p)
	}
	return list
}

// newPlacer draws where racks and lists begin. Brokers come in ascending order of id.
func newPlacer(brokers []placeable, source *rand.Rand) *placer {
	p := &placer{rand: source, brokers: brokers}
	byRack := make(map[string]*placerRack)
	var names []string
	for _, b := range brokers {
		r, ok := byRack[b.rack]
		if !ok {
			r = &placerRack{unfenced: placerList{epoch: -1}, fenced: placerList{epoch: -1}}
			byRack[b.rack] = r
			names = append(names, b.rack)
		}
		if b.fenced {
			r.fenced.brokers = append(r.fenced.brokers, b.id)
		} else {
			r.unfenced.brokers = append(r.unfenced.brokers, b.id)
			p.unfenced++
		}
	}
	slices.Sort(names)
	for _, name := range names {
		r := byRack[name]
		r.unfenced.offset, r.fenced.offset = p.draw(len(r.unfenced.brokers)), p.draw(len(r.fenced.brokers))
		p.racks = append(p.racks, r)
	}
	p.rack = p.draw(len(p.racks))
	return p
}

// brokersNamedMax bounds the brokers that an error names.
const brokersNamedMax = 10

func (p *placer) names() string {
	var ids []string
	for _, b := range p.brokers[:min(len(p.brokers), brokersNamedMax)] {
		ids = append(ids, b.id.String())
	}
	text := strings.Join(ids, ", ")
	if more := len(p.brokers) - len(ids); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (p *placer) draw(n int) int {
	if n == 0 {
		return 0
	}
	return p.rand.IntN(n)
}

// place returns the replicas of each of count partitions, or why it cannot.
func (p *placer) place(count int32, factor int) ([][]image.BrokerID, error) {
	switch {
	case factor <= 0:
		return nil, fmt.Errorf("replication factor is %d, must be at least 1", factor)
	case len(p.brokers) == 0:
		return nil, errors.New("no broker is registered that is not shutting down: start one")
	case p.unfenced == 0:
		return nil, fmt.Errorf("all %d brokers (%s) are fenced: start one of them", len(p.brokers), p.names())
	case factor > len(p.brokers):
		return nil, fmt.Errorf("replication factor %d is larger than %d usable brokers (%s): start another broker, or ask for replication factor %[2]d",
			factor, len(p.brokers), p.names())
	}
	placed := make([][]image.BrokerID, count)
	for i := range placed {
		placed[i] = p.placePartition(factor)
	}
	return placed, nil
}

func (p *placer) placePartition(factor int) []image.BrokerID {
	p.shuffle()
	replicas := make([]image.BrokerID, 0, factor)
	leaderRack := -1
	for i := range p.racks {
		at := (p.rack + i) % len(p.racks)
		if id := p.racks[at].unfenced.next(p.epoch, len(p.racks)); id != image.NoBroker {
			replicas, leaderRack = append(replicas, id), at
			break
		}
	}
	skipped := false
	for at := p.rack; len(replicas) < factor; at = (at + 1) % len(p.racks) {
		if at == leaderRack && !skipped {
			skipped = true
			continue
		}
		r := p.racks[at]
		id := r.unfenced.next(p.epoch, len(p.racks))
		if id == image.NoBroker {
			id = r.fenced.next(p.epoch, len(p.racks))
		}
		if id != image.NoBroker {
			replicas = append(replicas, id)
		}
	}
	p.epoch++
	p.rack = (p.rack + 1) % len(p.racks)
	return replicas
}

// shuffle mixes racks and lists when every unfenced broker had its turn as the first.
func (p *placer) shuffle() {
	if p.epoch != p.unfenced || p.unfenced <= 1 {
		return
	}
	p.rand.Shuffle(len(p.racks), func(i, j int) { p.racks[i], p.racks[j] = p.racks[j], p.racks[i] })
	for _, r := range p.racks {
		for _, l := range []*placerList{&r.unfenced, &r.fenced} {
			p.rand.Shuffle(len(l.brokers), func(i, j int) { l.brokers[i], l.brokers[j] = l.brokers[j], l.brokers[i] })
			l.epoch, l.index, l.offset = -1, 0, p.draw(len(l.brokers))
		}
	}
	p.epoch = 0
}

// next hands out the next broker of the epoch, [image.NoBroker] if all had their turn. It starts one further in each
// epoch of a round of the racks, and one further in each round.
func (l *placerList) next(epoch, racks int) image.BrokerID {
	if l.epoch != epoch {
		l.epoch, l.index = epoch, 0
	}
	if l.index >= len(l.brokers) {
		return image.NoBroker
	}
	id := l.brokers[(l.index+l.offset+epoch/racks+epoch%racks)%len(l.brokers)]
	l.index++
	return id
}
