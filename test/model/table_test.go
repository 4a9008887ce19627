package model

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The table holds what a plain map of lists would, and comparing amounts of harm packed is comparing them one by one.
func TestTableIsASetOfStates(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var got table
	want := map[uint64][]Budget{}
	within := func(a, b Budget) bool {
		for h := range a.Of {
			if min(a.Of[h], a.Total) > min(b.Of[h], b.Total) {
				return false
			}
		}
		return a.Total <= b.Total
	}
	for range 20_000 {
		key := r.Uint64N(4_000) * 0x9e3779b97f4a7c15
		b := Budget{Total: int8(r.IntN(harmMax + 1))}
		for h := range b.Of {
			b.Of[h] = int8(r.IntN(harmMax + 1))
		}
		isNew := !slices.ContainsFunc(want[key], func(known Budget) bool { return within(b, known) })
		if added := got.add(key, b.pack()); added != isNew {
			t.Fatalf("state %x with %v: added %v, known are %v", key, b, added, want[key])
		}
		if isNew {
			want[key] = append(want[key], b)
		}
	}
	if got.states != len(want) {
		t.Errorf("the table counts %d states, there are %d", got.states, len(want))
	}
}

// A world that is made anew is one that was reached, wherever the search has been meanwhile and whatever it has forgotten:
// worlds of one canonical form behave alike.
func TestVisitsAreMadeAnew(t *testing.T) {
	for _, cfg := range Worlds() {
		t.Run(cfg.Name, func(t *testing.T) {
			t.Parallel()
			s := NewSearching(cfg, NoBug)
			if r := s.Run(1500); r.Violation != nil {
				t.Fatal(r.Transcript())
			}
			for i := 0; i < s.visits.len(); i += 29 {
				if i%(29*20) == 0 {
					s.forget()
				}
				w := s.visits.world((i*7919)%s.visits.len(), s.actions)
				if s.known.add(w.key(), w.left.pack()) {
					t.Fatalf("a world that was not reached:\n%v", w)
				}
			}
		})
	}
}
