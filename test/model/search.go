package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// Result is what a search found.
type Result struct {
	Config *Config
	Bug    Bug
	// States is how many different states were reached, Steps how many steps led to them or to others again.
	States, Steps int
	// Depth is the longest of the shortest paths to a state.
	Depth int
	// Exhausted tells that every state within the budget of harm was reached.
	Exhausted bool
	// With is, by harm, in how many states' shortest paths it occurs.
	With [harms]int
	// Decisions is how many entries of the metadata log were decided.
	Decisions int
	// Violation is what was found broken, nil if nothing.
	Violation error

	path []action
}

// within tells whether what may follow with this much harm left is among what may follow with other.
func (l harmLeft) within(other harmLeft) bool {
	for h := range l {
		if l[h] > other[h] {
			return false
		}
	}
	return true
}

// visit is one state in the order of the search: how it was reached first.
type visit struct {
	from int32
	by   uint32
}

// search is one search under way.
type search struct {
	m       *model
	actions []action
	// known holds, by fingerprint, how much harm was left when the state was reached.
	known  map[uint64][]harmLeft
	visits []visit
	// queue holds the worlds that are not expanded yet, at the places of their visits.
	queue []*World
	r     *Result
}

// Search visits a world breadth first until it breaks, is exhausted, or statesMax states were reached.
func Search(cfg Config, bug Bug, statesMax int) Result {
	m := newModel(&cfg, bug)
	r := Result{Config: &cfg, Bug: bug}
	root, err := m.root()
	if err != nil {
		r.Violation = err
		return r
	}
	s := &search{m: m, actions: m.actions(), known: make(map[uint64][]harmLeft), r: &r}
	s.reach(root, visit{from: -1})
	level, next := len(s.visits), 0
	for ; next < len(s.visits); next++ {
		if next == level {
			r.Depth++
			level = len(s.visits)
		}
		if s.expand(next, statesMax) {
			break
		}
	}
	if next < len(s.visits) {
		r.Depth++
	}
	r.Exhausted = next == len(s.visits)
	r.States = len(s.visits)
	return r
}

// expand makes every possible step from a state and tells whether the search is over.
func (s *search) expand(index, statesMax int) bool {
	w := s.queue[index]
	s.queue[index] = nil
	for _, a := range s.actions {
		next := w.do(a)
		if next == nil {
			continue
		}
		s.r.Steps++
		if s.reach(next, visit{int32(index), a.pack()}) {
			return true
		}
		if len(s.visits) >= statesMax {
			return true
		}
	}
	return false
}

// reach takes a state in if it is new, and tells whether it is broken.
func (s *search) reach(w *World, v visit) bool {
	if w.bad == nil {
		key, left := w.key(), w.harmLeft()
		if slices.ContainsFunc(s.known[key], left.within) {
			return false
		}
		s.known[key] = append(s.known[key], left)
	}
	s.visits = append(s.visits, v)
	s.queue = append(s.queue, w)
	for h := range harms {
		if w.left.Of[h] < s.m.cfg.Budget.Of[h] {
			s.r.With[h]++
		}
	}
	if err := w.check(); err != nil {
		s.r.Violation = err
		for i := len(s.visits) - 1; s.visits[i].from >= 0; i = int(s.visits[i].from) {
			s.r.path = append([]action{unpack(s.visits[i].by)}, s.r.path...)
		}
		return true
	}
	return false
}

func newModel(cfg *Config, bug Bug) *model {
	m := &model{cfg: cfg, bug: bug, messages: map[string]*message{}, brokers: map[uint64]*broker{}}
	for i := range cfg.Replicas {
		m.ids = append(m.ids, image.PartitionID{Topic: uuid("topic"), Partition: int32(i)})
	}
	return m
}

// root is the state that the search begins with: the brokers serve, the topic is made, and the steps of the prefix are done.
func (m *model) root() (*World, error) {
	lines := m.lines
	m.lines = nil
	w := m.genesis()
	m.lines = lines
	for _, verb := range m.cfg.Prefix {
		if lines != nil {
			lines("")
			lines(verb)
			lines("----")
		}
		var next *World
		for _, a := range m.actions() {
			if a.String() == verb {
				next = w.do(a)
				break
			}
		}
		if next == nil {
			return nil, fmt.Errorf("world %s: prefix step %q is not possible in\n%s", m.cfg.Name, verb, w)
		}
		if err := next.check(); err != nil {
			return nil, err
		}
		w = next
	}
	w.left = m.cfg.Budget
	return w, nil
}

// genesis is a cluster in peace: three brokers serve, the topic has been made and applied everywhere.
func (m *model) genesis() *World {
	n := &node{m: m, im: image.Empty(), live: controller.NewLiveness(image.Empty(), begin), claim: 1, base: 0}
	must := func(d decided) {
		o := n.entries(d)
		if o.refused != nil || len(o.entries) == 0 {
			panic(fmt.Sprintf("model: the world does not begin: %v", o.refused))
		}
		n = o.entries[len(o.entries)-1]
		if n.bad != nil {
			panic(fmt.Sprintf("model: the world begins broken: %v", n.bad))
		}
	}
	must(plain(controller.Activate(n.view(n.live, begin))))
	w := &World{m: m, left: Budget{Total: math.MaxInt8}}
	for h := range harms {
		w.left.Of[h] = math.MaxInt8
	}
	w.left.Of[Failover] = 0 // so that the prefix commits at once
	for i, id := range brokerIDs {
		b := &broker{id: id, life: 1, begun: true, stop: metadatapb.StopKind_STOP_KIND_NEVER_RAN}
		must(plain(controller.RegisterBroker(n.view(n.live, begin), registration(b, n.im))))
		known, _ := n.im.Broker(id)
		b.epoch, b.registered = known.Epoch, known.RegistrationOffset
		must(plain(controller.BrokerHeartbeat(n.view(n.live, begin), &controllerpb.BrokerHeartbeatRequest{
			BrokerId: int32(id), BrokerEpoch: int64(b.epoch), MetadataOffset: int64(n.im.Offset()),
		})))
		for range m.ids {
			b.parts = append(b.parts, newReplica())
		}
		w.brokers[i] = b
	}
	before := n.im
	must(plain(controller.CreateTopics(n.view(n.live, begin), m.createTopics())))
	n.parent = nil
	w.tip, w.newest, w.at = n, n, [3]*node{n, n, n}
	w.promises = make([]promise, len(m.ids))
	for i := range w.promises {
		w.promises[i].unclean = partition.NoLeaderEpoch
	}
	for _, id := range brokerIDs {
		w.act(w.edit(id), before, n.im)
	}
	return w.settle()
}

func (m *model) createTopics() *controllerpb.CreateTopicsRequest {
	id := uuid("topic")
	t := &controllerpb.CreatableTopic{Name: "t", TopicId: id[:]}
	for i, replicas := range m.cfg.Replicas {
		t.Assignments = append(t.Assignments, &controllerpb.ReplicaAssignment{Partition: int32(i), BrokerIds: replicas})
	}
	if m.cfg.Unclean {
		value := "true"
		t.Configs = append(t.Configs, &controllerpb.ConfigEntry{Name: "unclean.leader.election.enable", Value: &value})
	}
	return &controllerpb.CreateTopicsRequest{Topics: []*controllerpb.CreatableTopic{t}}
}

// Transcript prints the path to the violation, step by step, with everything that each of them did.
func (r *Result) Transcript() string {
	var b strings.Builder
	m := newModel(r.Config, r.Bug)
	m.lines = func(line string) { fmt.Fprintln(&b, line) }
	fmt.Fprintf(&b, "# World %s, %v: %v\n", r.Config.Name, r.Bug, r.Violation)
	w, err := m.root()
	if err != nil {
		fmt.Fprintln(&b, err)
		return b.String()
	}
	for _, a := range r.path {
		fmt.Fprintf(&b, "\n%v\n----\n", a)
		w = w.do(a)
	}
	if err := w.check(); err != nil {
		fmt.Fprintf(&b, "%v\n", err)
	}
	return b.String()
}

// Path is the path to the violation, one verb a line.
func (r *Result) Path() string {
	var b strings.Builder
	for _, a := range r.path {
		fmt.Fprintln(&b, a)
	}
	return b.String()
}
