package broker

import "testing"

func TestCandidates(t *testing.T) {
	three := []string{"c1", "c2", "c3"}
	for _, tc := range []struct {
		name   string
		active string
		useful []bool   // what each stream before the next choice was
		want   []string // choices; "*" behind the address: the round is over
	}{
		{"in turn without an active one", "", []bool{false, false, false, false}, []string{"c2", "c3", "c1", "c2*", "c3"}},
		{"active first after a failure", "c1", []bool{false, false, false}, []string{"c2", "c1", "c3", "c1*"}},
		{"a useful stream forgives", "c1", []bool{true, true, true}, []string{"c2", "c1", "c2", "c1"}},
		{"a silent active one is not asked again at once", "c2", []bool{true, false, false}, []string{"c2", "c3", "c1", "c2*"}},
		{"an active one that nobody configured", "c9", []bool{false, false}, []string{"c2", "c9", "c1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ca := newCandidates(1)
			for i, want := range tc.want {
				got, again := ca.next(three, tc.active)
				if again {
					got += "*"
				}
				if got != want {
					t.Fatalf("choice %d: got %s, want %s", i, got, want)
				}
				if i < len(tc.useful) {
					ca.failed(tc.useful[i])
				}
			}
		})
	}
}
