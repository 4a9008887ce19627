package model

import "slices"

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
	// Healed is of how many states it was tried whether they heal.
	Healed int
	// Violation is what was found broken, nil if nothing.
	Violation error

	path []action
	// unhealed tells that the violation showed when the last state of the path was healed.
	unhealed bool
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

// Add takes the counts of another search into this one.
func (r *Result) Add(other *Result) {
	r.States += other.States
	r.Steps += other.Steps
	r.Depth = max(r.Depth, other.Depth)
	r.Decisions += other.Decisions
	r.Healed += other.Healed
	for h := range r.With {
		r.With[h] += other.With[h]
	}
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
	// samples are the states of which it is tried whether they heal, once no state was found broken.
	samples []sample
	r       *Result
}

type sample struct {
	index int
	world *World
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
	r.States, r.Decisions = len(s.visits), m.decisions
	if r.Violation == nil {
		s.heal()
	}
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
		s.broken(len(s.visits)-1, err)
		return true
	}
	if len(s.visits)%healEvery == 0 {
		s.samples = append(s.samples, sample{len(s.visits) - 1, w})
	}
	return false
}

// broken notes a violation and how it was reached.
func (s *search) broken(index int, err error) {
	s.r.Violation = err
	for i := index; s.visits[i].from >= 0; i = int(s.visits[i].from) {
		s.r.path = append(s.r.path, unpack(s.visits[i].by))
	}
	slices.Reverse(s.r.path)
}

// heal tries whether the samples heal.
func (s *search) heal() {
	for _, x := range s.samples {
		s.r.Healed++
		if err := x.world.heal(); err != nil {
			s.r.unhealed = true
			s.broken(x.index, err)
			return
		}
	}
}
