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

// A world that is made anew is the one that was there before, wherever the search has been meanwhile.
func TestVisitsAreMadeAnew(t *testing.T) {
	s := NewSearching(Worlds()[1], NoBug)
	s.Run(3000)
	for _, i := range []int{2999, 1, 2000, 17, 2001, 0, 1500} {
		w := s.visits.root
		var way []int
		for at := i; at > 0; at = int(s.visits.list[at].from) {
			way = append(way, int(s.visits.list[at].by))
		}
		for _, by := range slices.Backward(way) {
			w = w.do(s.actions[by])
		}
		if got := s.visits.world(i, s.actions); got.key() != w.key() {
			t.Errorf("visit %d is\n%v, was\n%v", i, got, w)
		}
	}
}
