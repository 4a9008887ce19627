package model

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
)

// model is what the worlds of one search share.
type model struct {
	cfg *Config
	bug Bug
	// messages and brokers hold one copy of what many worlds have in common.
	messages map[string]*message
	brokers  map[uint64]*broker
	// checked are the steps of the metadata that were looked at, with what they break.
	checked map[step]error
	// changes are what brokers were told to do by the metadata.
	changes map[transition]*image.BrokerChanges
	// scratch are the worlds of the step being made, forks of them in use; spare are brokers that can be used again.
	scratch [scratchMax]World
	forks   int
	spare   []*broker
	ids     []image.PartitionID
	// decisions counts the entries that were decided, each once.
	decisions int
	// lines receives what a step does, while a path is printed.
	lines func(string)
	buf   []byte
}

func (m *model) tracing() bool { return m.lines != nil }

func (m *model) trace(format string, args ...any) {
	if m.lines != nil {
		m.lines(fmt.Sprintf(format, args...))
	}
}

// World is one state of everything. It is not changed once it was reached.
type World struct {
	m *model
	// tip is the newest committed entry, newest the newest decided one.
	tip, newest *node
	// stale is an entry of the controller before, which may still come.
	stale   *node
	brokers [3]*broker
	// at is the entry that each broker's metadata has reached.
	at       [3]*node
	messages []*message
	// late is a fetch or its answer that is under way for long.
	late     *lateFetch
	promises []promise
	left     Budget
	// values, moves and configured are how many records were produced, reassignments changed and configs set.
	values, moves, configured int8
	// bad is what the step to this world broke.
	bad error
}

// promise is what must be kept of a partition.
type promise struct {
	// committed are the records that a leader has shown below its high watermark.
	committed []entry
	// since is the leader epoch of the last excused loss. Leaders of earlier epochs promise nothing any more.
	since image.LeaderEpoch
}

// scratchMax is how often one step copies a world.
const scratchMax = 4

// fork returns a copy to be changed. It lives until the next step is tried, if it is not kept.
func (w *World) fork() *World {
	m := w.m
	next := &m.scratch[m.forks]
	m.forks++
	*next = *w
	next.bad = nil
	return next
}

// keep returns a copy that stays.
func (w *World) keep() *World {
	kept := *w
	return &kept
}

func (w *World) broker(id image.BrokerID) *broker { return w.brokers[id-1] }

// edit returns a copy of a broker to be changed, and puts it into the world.
func (w *World) edit(id image.BrokerID) *broker {
	m, old := w.m, w.brokers[id-1]
	b := &broker{}
	if n := len(m.spare); n > 0 {
		b, m.spare = m.spare[n-1], m.spare[:n-1]
	}
	parts := append(b.parts[:0], old.parts...)
	*b = *old
	b.parts, b.hash = parts, 0
	w.brokers[id-1] = b
	return b
}

// settle ends the change of a world: equal parts become the same.
func (w *World) settle() *World {
	for i, b := range w.brokers {
		if b.hash != 0 {
			continue
		}
		w.m.buf = b.appendTo(w.m.buf[:0])
		h := fingerprint(w.m.buf)
		known := w.m.brokers[h]
		if known == nil {
			b.hash = h
			w.m.brokers[h] = b
			continue
		}
		w.brokers[i] = known
		w.m.spare = append(w.m.spare, b)
	}
	return w
}

func (w *World) fail(predicate, format string, args ...any) {
	if w.bad == nil {
		w.bad = fmt.Errorf("%s: %s", predicate, fmt.Sprintf(format, args...))
	}
}

func (w *World) spend(h Harm) bool {
	if w.left.Of[h] == 0 || w.left.Total == 0 {
		return false
	}
	w.left.Of[h]--
	w.left.Total--
	return true
}

// key is the fingerprint of the canonical form without the budget of harm. It is put together from those of its parts.
func (w *World) key() uint64 {
	h := uint64(0)
	add := func(v uint64) { h = mix(h*0x9e3779b97f4a7c15 + v) }
	w.addMetadata(add)
	if w.stale != nil {
		add(w.stale.held)
		add(w.stale.told)
	}
	for _, b := range w.brokers {
		add(b.hash)
	}
	sum := uint64(0)
	for _, m := range w.messages {
		sum += m.hash // their order means nothing
	}
	add(sum)
	b := w.m.buf[:0]
	if w.late != nil {
		b = w.late.appendTo(b)
	}
	b = w.appendRest(b)
	w.m.buf = b
	add(fingerprint(b))
	return h
}

// addMetadata adds the log from where the last broker stands on, with the places of the brokers in it. A committed entry that
// changed nothing leaves no mark: its answer was given, and nobody stands at it. With a mark for each, a request that is refused
// and made again would lead to ever new worlds.
func (w *World) addMetadata(add func(uint64)) {
	add(w.newest.soft)
	n := w.newest
	for ; n != w.tip; n = n.parent {
		add(n.held)
		add(n.told)
	}
	add(1)
	var shown *image.Image
	for behind := 0; ; n = n.parent {
		if n.im != shown {
			add(n.held)
			shown = n.im
		}
		for i, at := range w.at {
			if at == n {
				behind++
				add(uint64(2 + i))
				if len(w.m.cfg.MinISRs) > 0 {
					add(uint64(n.im.Offset())) // an answer that rests on newer metadata is told by its offset
				}
			}
		}
		if behind == len(w.at) {
			return
		}
	}
}

func (w *World) appendRest(b []byte) []byte {
	for _, p := range w.promises {
		b = append(b, "committed="...)
		b = appendEntries(b, p.committed)
		b = appendInt(b, " since=", int64(p.since))
		b = append(b, '\n')
	}
	b = appendInt(b, "values=", int64(w.values))
	b = appendInt(b, " moves=", int64(w.moves))
	if w.configured > 0 {
		b = appendInt(b, " configured=", int64(w.configured))
	}
	return b
}

// String prints the world in its canonical form.
func (w *World) String() string {
	var b []byte
	b = append(b, "committed metadata:\n"...)
	b = w.tip.appendTo(b)
	for n := w.newest; n != w.tip; n = n.parent {
		b = append(b, "not committed:\n"...)
		b = n.appendTo(b)
	}
	for i, br := range w.brokers {
		b = appendInt(b, "at offset ", int64(w.at[i].im.Offset()))
		b = append(b, ": "...)
		b = br.appendTo(b)
	}
	for _, m := range w.messages {
		b = append(b, m.text...)
		b = append(b, '\n')
	}
	if w.late != nil {
		b = append(w.late.appendTo(b), '\n')
	}
	return string(append(w.appendRest(b), '\n'))
}

// send puts a message on its way.
func (w *World) send(m message) {
	m.text = m.describe()
	w.m.trace("%s", m.text)
	known := w.m.messages[m.text]
	if known == nil {
		m.hash = fingerprint([]byte(m.text))
		known = &m
		w.m.messages[m.text] = known
	}
	w.messages = append(slices.Clip(w.messages), known)
}

// take takes a message off the network.
func (w *World) take(i int) *message {
	m := w.messages[i]
	w.messages = slices.Delete(slices.Clone(w.messages), i, i+1)
	return m
}

// underWay counts the copies of a proposal, requests and answers, and those that wait for a commit.
func (w *World) underWay(part int, p *partition.Proposal, from image.BrokerID, life int8) (n int) {
	sought := &message{from: from, life: life, part: part, proposal: p}
	for _, m := range w.messages {
		if m.isCopyOf(sought) {
			n++
		}
	}
	for d := w.newest; d != w.tip; d = d.parent {
		if d.answer != nil && d.answer.message != nil && d.answer.message.isCopyOf(sought) {
			n++
		}
	}
	return n
}

// facts are what a step may look at. The newest metadata is that which the broker has reached.
func (w *World) facts(b *broker) partition.Facts {
	return partition.Facts{Self: b.id, SelfEpoch: b.epoch, LagTimeMax: lagTimeMax, Brokers: w.at[b.id-1].im}
}
