package model

import (
	"fmt"
	"strconv"
	"time"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
	"github.com/quorate/quorate/test/lines"
)

// The clock stands still at begin, except where a session or a lag limit has to be over.
var begin = time.UnixMilli(1_000_000)

const (
	lagTimeMax = 30 * time.Second
	clusterID  = "model"
)

var limits = controller.DefaultLimits()

// node is the metadata log up to one entry, and the soft state of the controller that decided it. It never changes once
// made. Since decisions are pure, what follows a node by the same request is made once and shared by all worlds.
type node struct {
	m      *model
	parent *node
	im     *image.Image
	// parts are the image's partitions, in the order of the model's ids.
	parts []image.Partition
	live  controller.Liveness
	// records of the entry, and the header that a broker or controller judges it by.
	records  []*metadatapb.Record
	base     image.MetadataOffset
	claim    uint64
	sequence uint64
	// stray tells that the entry came late and counted all the same: the controller that is active does not know of it.
	stray bool
	// answer is given when the entry commits.
	answer *answer
	// last tells that a whole decision, or a series of them, ends here.
	last bool
	// bad is what the entry breaks, nil if nothing.
	bad error
	// held is the fingerprint of the image, soft that of what only the active controller knows, told that of the answer.
	held, soft, told uint64
	// next holds the entries of decisions made on this node.
	next map[request]outcome
}

// answer is what a decision makes true once it is committed.
type answer struct {
	// To a proposal: the message, with the answer in it.
	message *message
	// To a registration: who is told, and what.
	broker int
	life   int8
	epoch  image.BrokerEpoch
	offset image.MetadataOffset
	// exits tells a stopping broker that it may go.
	exits bool
}

// request names what is decided.
type request struct {
	kind    kind
	a, b    int8
	message *message
	// at is what a broker tells that it has applied; stop and wiped how the life before a registration ended.
	at       image.MetadataOffset
	stop     metadatapb.StopKind
	previous image.BrokerEpoch
	wiped    bool
	// directory counts those of the broker.
	directory int8
	// heard is what all brokers that serve tell that they have applied.
	heard [3]image.MetadataOffset
}

// outcome is a decision as entries; none if it was refused or writes nothing and answers nobody.
type outcome struct {
	entries []*node
	// refused says why nothing was decided.
	refused error
}

// decided is a decision in the form that all functions of the controller share.
type decided struct {
	records []*metadatapb.Record
	atomic  bool
	live    *controller.Liveness
	reasons []controller.Reason
	answer  *answer
	// then is decided right after, before anything else. Nil: nothing.
	then func(*node) decided
	err  error
}

func plain[R any](d controller.Decision[R], err error) decided {
	return decided{records: d.Records, atomic: d.Atomic, live: d.Liveness, reasons: d.Reasons, err: err}
}

// view is what the controller sees on this node.
func (n *node) view(live controller.Liveness, now time.Time) controller.View {
	defaults := controller.DefaultDefaults()
	defaults.MinInsyncReplicas = n.m.cfg.MinISR
	defaults.EligibleLeaderReplicas = 0
	if n.m.cfg.ELR {
		defaults.EligibleLeaderReplicas = 1
	}
	return controller.View{
		Image: n.im, NextOffset: n.im.Offset() + 1, Liveness: live, Limits: limits, Defaults: defaults,
		ClusterID: clusterID, Now: now, NewID: func() image.UUID { return uuid("topic") },
	}
}

// uuid is an id that can be read: its bytes are the name.
func uuid(name string) image.UUID {
	var id image.UUID
	copy(id[:], name)
	return id
}

// expired is the soft state in which the sessions of some brokers are over and those of the others are not.
func (n *node) expired(over func(image.BrokerID) bool) (controller.Liveness, time.Time) {
	now := begin.Add(limits.SessionTimeout + time.Millisecond)
	live := n.live
	for b := range n.im.Brokers() {
		if state, _ := live.HeartbeatState(b.ID); !over(b.ID) {
			live = live.Heard(b.ID, now, state.MetadataOffset, state.Chain)
		}
	}
	return live, now
}

// decide makes a decision on this node, or remembers it.
func (n *node) decide(r request, make func() decided) outcome {
	if o, ok := n.next[r]; ok && !n.m.tracing() {
		return o
	}
	o := n.entries(make())
	if n.next == nil {
		n.next = map[request]outcome{}
	}
	n.next[r] = o
	return o
}

func (n *node) entries(d decided) outcome {
	if d.err != nil {
		n.m.trace("refused %v", d.err)
		return outcome{refused: d.err}
	}
	d = n.m.bug.decided(n, d)
	if len(d.records) == 0 && d.answer == nil {
		return outcome{}
	}
	live := n.live
	if d.live != nil {
		live = *d.live
	}
	live = live.Renewed(begin)
	per := max(1, len(d.records))
	if n.m.cfg.Cut && !d.atomic {
		per = 1
	}
	var o outcome
	last := n
	for rest := d.records; ; {
		part := rest[:min(per, len(rest))]
		rest = rest[len(part):]
		last = last.entry(part, live)
		o.entries = append(o.entries, last)
		if len(rest) == 0 {
			break
		}
	}
	last.last, last.answer = true, d.answer
	last.told = fingerprint(last.appendAnswer(nil))
	for _, r := range d.reasons {
		n.m.trace("because %v", r)
	}
	if d.then != nil {
		if follows := last.entries(d.then(last)); len(follows.entries) > 0 {
			last.last = false
			last.told = fingerprint(last.appendAnswer(nil))
			o.entries = append(o.entries, follows.entries...)
			return o // what follows was checked
		}
	}
	if last.bad == nil {
		last.bad = n.m.once(step{n.im.Fingerprint(), last.im.Fingerprint(), wholeDecision}, func() error {
			return decisionBreaks(n, last)
		})
	}
	return o
}

// entry puts records into the log, one by one, and finds out what they break.
func (n *node) entry(records []*metadatapb.Record, live controller.Liveness) *node {
	next := &node{
		m: n.m, parent: n, im: n.im, live: live, records: records,
		base: n.im.Offset() + 1, claim: n.claim, sequence: n.sequence + 1,
	}
	n.m.decisions++
	for _, r := range records {
		im, err := n.m.replay(next.im, r)
		if err == nil {
			before := next.im
			err = n.m.once(step{before.Fingerprint(), im.Fingerprint(), r.GetPartitionChange().GetReason()}, func() error {
				return recordBreaks(before, im, r)
			})
		} else {
			err = fmt.Errorf("CommittedRecordReplays: %w", err)
		}
		if n.m.tracing() && im != nil {
			n.m.trace("%d %s", im.Offset(), lines.Record(im, r))
		}
		if err != nil {
			next.bad = err
			break
		}
		next.im = im
	}
	err := n.m.once(step{n.im.Fingerprint(), next.im.Fingerprint(), wholeEntry}, func() error {
		return pendingEqualsCommitted(n.im, next.im, records)
	})
	if err != nil && next.bad == nil {
		next.bad = fmt.Errorf("PendingEqualsCommittedAtCommit: %w", err)
	}
	return next.seal()
}

// step is what a record, an entry or a decision makes of an image.
type step struct {
	before, after uint64
	by            metadatapb.ChangeReason
}

// Steps of more than one record stand for no reason.
const (
	wholeEntry    metadatapb.ChangeReason = -1
	wholeDecision metadatapb.ChangeReason = -2
)

// once checks a step the first time that it is made, on whatever way. Images with one fingerprint are equal.
func (m *model) once(s step, check func() error) error {
	err, ok := m.checked[s]
	if !ok {
		err = check()
		m.checked[s] = err
	}
	return err
}

// seal notes what the finished log says.
func (n *node) seal() *node {
	for _, id := range n.m.ids {
		p, _ := n.im.Partition(id)
		n.parts = append(n.parts, p)
	}
	n.held = fingerprint(n.appendImage(nil))
	n.soft = fingerprint(n.appendSoft(nil))
	n.told = fingerprint(n.appendAnswer(nil))
	return n
}

// claimed is the log after another controller has claimed it: nobody was heard, every session is new.
func (n *node) claimed() *node {
	r := request{kind: doFailover}
	if o, ok := n.next[r]; ok && !n.m.tracing() {
		return o.entries[0]
	}
	next := &node{m: n.m, parent: n, im: n.im, live: controller.NewLiveness(n.im, begin), claim: n.claim + 1, last: true, base: n.im.Offset() + 1}
	next.seal()
	if n.next == nil {
		n.next = map[request]outcome{}
	}
	n.next[r] = outcome{entries: []*node{next}}
	return next
}

// appendTo writes the canonical form: what any decision or broker can see in it.
func (n *node) appendTo(b []byte) []byte {
	return n.appendAnswer(n.appendSoft(n.appendImage(b)))
}

func (n *node) appendImage(b []byte) []byte {
	if len(n.m.cfg.MinISRs) > 0 {
		b = appendInt(b, "min.insync.replicas=", int64(n.im.MinInsyncReplicas("t", len(brokerIDs))))
		b = append(b, '\n')
	}
	for t := range n.im.Topics() {
		for i, p := range t.Partitions() {
			b = append(b, t.Name()...)
			b = append(b, '-')
			b = strconv.AppendInt(b, int64(i), 10)
			b = append(b, ' ')
			b = append(b, p.String()...)
			b = append(b, '\n')
		}
	}
	for br := range n.im.Brokers() {
		b = append(b, "broker "...)
		b = strconv.AppendInt(b, int64(br.ID), 10)
		b = append(b, " epoch="...)
		b = strconv.AppendInt(b, int64(br.Epoch), 10)
		if br.Fenced {
			b = append(b, " fenced"...)
		}
		if br.InControlledShutdown {
			b = appendInt(b, " shutting-down@", int64(br.ControlledShutdownOffset))
		}
		b = append(b, '\n')
	}
	return b
}

// appendSoft writes what decides when a fenced broker is served again. The rest of the soft state is the same in all worlds.
func (n *node) appendSoft(b []byte) []byte {
	for br := range n.im.Brokers() {
		if state, ok := n.live.HeartbeatState(br.ID); ok && br.Fenced {
			b = appendInt(b, "broker ", int64(br.ID))
			b = appendInt(b, " settled=", int64(state.SettledOffset))
			b = append(b, '\n')
		}
	}
	return b
}

// appendAnswer writes what the commit of the entry makes true beside the image, and whether more of its decision follows.
func (n *node) appendAnswer(b []byte) []byte {
	switch a := n.answer; {
	case a != nil && a.message != nil:
		b = append(append(b, a.message.text...), '\n')
	case a != nil:
		b = appendInt(b, "to broker ", int64(a.broker))
		b = appendInt(b, "/", int64(a.life))
		b = appendInt(b, " epoch=", int64(a.epoch))
		if a.exits {
			b = append(b, " exits"...)
		}
		b = append(b, '\n')
	}
	if !n.last {
		b = append(b, "more follows\n"...)
	}
	return b
}
