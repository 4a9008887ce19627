package model

import "testing"

// TestRefusalsLeadBack: a leader that has not heard that a follower was fenced asks for it, is refused, forgets it at the next look at
// its followers, and asks again. That may go on until the metadata comes, so the round must lead back to where it began.
func TestRefusalsLeadBack(t *testing.T) {
	var cfg Config
	for _, c := range Worlds() {
		if c.Name == "joining" {
			cfg = c
		}
	}
	st, err := NewStage(cfg, NoBug)
	if err != nil {
		t.Fatal(err)
	}
	do := func(verbs ...string) {
		t.Helper()
		for _, v := range verbs {
			if _, err := st.Do(v); err != nil {
				t.Fatal(err)
			}
		}
	}
	do("fence ids=3")
	begin := st.w.key()
	do("request 1", "answer 1", "timer broker=1")
	if st.w.key() == begin {
		t.Error("a proposal that is under way is the same as none")
	}
	do("fetch from=3")
	if st.w.key() != begin {
		t.Errorf("a refusal and its repetition leave something behind:\n%v", st.w)
	}
}

// TestAnswersTellWorldsApart: what an entry that is not committed yet will answer belongs to the world.
func TestAnswersTellWorldsApart(t *testing.T) {
	n := newModel(&Worlds()[0], NoBug).genesis().tip
	refused := n.entries(decided{answer: &answer{broker: 1, life: 1}}).entries[0]
	granted := n.entries(decided{answer: &answer{broker: 1, life: 1, exits: true}}).entries[0]
	if refused.told == granted.told || refused.held != granted.held {
		t.Error("two answers on one image are told apart by the image, or not at all")
	}
}
