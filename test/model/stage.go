package model

import (
	"errors"
	"fmt"
	"strings"
)

// Stage is a world that is led step by step, and tells what each step does.
type Stage struct {
	m *model
	w *World
	b strings.Builder
}

// NewStage opens a world after its prefix.
func NewStage(cfg Config, bug Bug) (*Stage, error) {
	st := &Stage{m: newModel(&cfg, bug)}
	w, err := st.m.root()
	if err != nil {
		return nil, err
	}
	st.w = w
	st.m.lines = func(line string) { fmt.Fprintln(&st.b, line) }
	return st, nil
}

// errNotPossible tells that a step cannot be made.
var errNotPossible = errors.New("model: not possible, or it would change nothing")

// Do makes the step that a verb names and returns what it did, with what it broke at the end.
func (st *Stage) Do(verb string) (string, error) {
	st.b.Reset()
	next, err := st.w.doVerb(verb)
	if err != nil {
		return "", err
	}
	st.w = next
	if err := next.check(); err != nil {
		fmt.Fprintf(&st.b, "broken: %v\n", err)
	}
	if st.b.Len() == 0 {
		return "ok\n", nil
	}
	return st.b.String(), nil
}

// Heal makes the steps that undo harm until nothing changes any more, prints them, and tells what is still wrong.
func (st *Stage) Heal() string {
	st.b.Reset()
	if err := st.w.heal(); err != nil {
		fmt.Fprintf(&st.b, "broken: %v\n", err)
	} else {
		st.b.WriteString("at peace\n")
	}
	return st.b.String()
}

// String prints the world as it stands.
func (st *Stage) String() string { return st.w.String() }

func (w *World) doVerb(verb string) (*World, error) {
	for _, a := range w.m.actions() {
		if a.String() != verb {
			continue
		}
		if next := w.do(a); next != nil {
			return next, nil
		}
		return nil, fmt.Errorf("%w: %q", errNotPossible, verb)
	}
	return nil, fmt.Errorf("model: unknown step %q", verb)
}

// Transcript prints the path to the violation, step by step, with everything that each of them did. It can be put into
// testdata as it is.
func (r *Result) Transcript() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\nworld %s", strings.ReplaceAll(r.Violation.Error(), "\n", "\n# "), r.Config.Name)
	if r.Bug != NoBug {
		fmt.Fprintf(&b, " bug=%v", r.Bug)
	}
	b.WriteString("\n----\nok\n")
	st, err := NewStage(*r.Config, r.Bug)
	if err != nil {
		return err.Error()
	}
	for _, a := range r.path {
		out, err := st.Do(a.String())
		if err != nil {
			return err.Error()
		}
		fmt.Fprintf(&b, "\n%v\n----\n%s", a, out)
	}
	if r.unhealed {
		fmt.Fprintf(&b, "\nheal\n----\n%s", st.Heal())
	}
	return b.String()
}

// Path is the path to the violation, a verb a step.
func (r *Result) Path() string {
	verbs := make([]string, len(r.path))
	for i, a := range r.path {
		verbs[i] = a.String()
	}
	return strings.Join(verbs, "; ")
}
