package model

import "slices"

// Result is what a search has found so far.
type Result struct {
	Config *Config
	Bug    Bug
	// States is how many different states were reached, Visits how many of them with each amount of harm left that allows
	// what no other does, Steps how many steps led to states, new or known.
	States, Visits, Steps int
	// Expanded is from how many visits every step was made.
	Expanded int
	// Depth is the longest of the shortest paths to a state.
	Depth int
	// Exhausted tells that every state within the budget of harm was reached.
	Exhausted bool
	// With is, by harm, on how many of the visits' shortest paths it occurs.
	With [harms]int
	// Decisions is how many entries of the metadata log were decided, some of them again.
	Decisions int
	// Healed is of how many states it was tried whether they heal.
	Healed int
	// Violation is what was found broken, nil if nothing.
	Violation error

	path []action
	// unhealed tells that the violation showed when the last state of the path was healed.
	unhealed bool
}

// Add takes the counts of another search into this one.
func (r *Result) Add(other *Result) {
	r.States += other.States
	r.Visits += other.Visits
	r.Steps += other.Steps
	r.Expanded += other.Expanded
	r.Depth = max(r.Depth, other.Depth)
	r.Decisions += other.Decisions
	r.Healed += other.Healed
	for h := range r.With {
		r.With[h] += other.With[h]
	}
}

// Searching is a search that can be gone on with. It keeps no worlds but those on the way to the state that it is at: the
// others are told by their paths, twenty-odd bytes a state.
type Searching struct {
	m       *model
	actions []action
	known   table
	visits  visits
	// next is the visit to be made steps from, level the first visit that lies deeper than it.
	next, level int
	// healed is the first visit that is not healed yet, if it is a sample.
	healed int
	// remembered is how many decisions had been made when what they led to was last forgotten.
	remembered int
	r          Result
}

// NewSearching begins a search at the state that the world's prefix leads to.
func NewSearching(cfg Config, bug Bug) *Searching {
	s := &Searching{m: newModel(&cfg, bug), r: Result{Config: &cfg, Bug: bug}}
	s.actions = s.m.actions()
	root, err := s.m.root()
	if err != nil {
		s.r.Violation = err
		return s
	}
	s.visits.root = root
	s.reach(root, visit{})
	s.level = 1
	return s
}

// Search visits a world breadth first until it breaks, is exhausted, or statesMax states were reached.
func Search(cfg Config, bug Bug, statesMax int) Result {
	return NewSearching(cfg, bug).Run(statesMax)
}

// Run goes on until the world breaks, is exhausted, or statesMax states were reached altogether. Then it looks whether
// samples of the states heal.
func (s *Searching) Run(statesMax int) Result {
	defer s.forget()
	for s.r.Violation == nil && s.next < s.visits.len() && s.known.states < statesMax {
		s.bound()
		if s.next == s.level {
			s.r.Depth++
			s.level = s.visits.len()
		}
		if s.expand(statesMax) {
			s.next++
		}
	}
	s.r.Exhausted = s.next == s.visits.len()
	s.r.States, s.r.Visits, s.r.Expanded = s.known.states, s.visits.len(), s.next
	s.r.Decisions = s.m.decisions
	s.heal()
	r := s.r
	if !r.Exhausted {
		r.Depth++
	}
	return r
}

// rememberedMax bounds the decisions that a search remembers: each is a few kilobytes.
const rememberedMax = 20_000

func (s *Searching) bound() {
	if s.m.decisions-s.remembered > rememberedMax {
		s.forget()
	}
}

// forget gives back what can be made again: everything but the states and the paths to them.
func (s *Searching) forget() {
	s.remembered = s.m.decisions
	if s.visits.root != nil {
		s.visits.root.tip.next = nil
	}
	s.visits.way = nil
	s.m.forget()
}

// expand makes every possible step from the next visit and tells whether it came to the end of them.
func (s *Searching) expand(statesMax int) bool {
	w := s.visits.world(s.next, s.actions)
	for i, a := range s.actions {
		next := w.try(a)
		if next == nil {
			continue
		}
		s.r.Steps++
		s.reach(next, visit{from: uint32(s.next), by: uint16(i)})
		if s.r.Violation != nil || s.known.states >= statesMax {
			return false
		}
	}
	return true
}

// reach takes a state in if it is new, and finds out whether it is broken.
func (s *Searching) reach(w *World, v visit) {
	if w.bad == nil && !s.known.add(w.key(), w.left.pack()) {
		return
	}
	s.visits.add(v)
	for h := range harms {
		if w.left.Of[h] < s.m.cfg.Budget.Of[h] {
			s.r.With[h]++
		}
	}
	if err := w.check(); err != nil {
		s.broken(s.visits.len()-1, err)
	}
}

// broken notes a violation and how it was reached.
func (s *Searching) broken(index int, err error) {
	s.r.Violation, s.r.path = err, nil
	for ; index > 0; index = int(s.visits.list[index].from) {
		s.r.path = append(s.r.path, s.actions[s.visits.list[index].by])
	}
	slices.Reverse(s.r.path)
}

// heal tries whether the samples among the visits heal.
func (s *Searching) heal() {
	s.healed = (s.healed + healEvery - 1) / healEvery * healEvery
	for ; s.healed < s.visits.len() && s.r.Violation == nil; s.healed += healEvery {
		s.bound()
		s.r.Healed++
		if err := s.visits.world(s.healed, s.actions).heal(); err != nil {
			s.r.unhealed = true
			s.broken(s.healed, err)
		}
	}
}
