package envtest

import (
	"errors"
	"path"
	"path/filepath"
	"sync"
	"time"
)

// ErrFault is the error of a rule that names none.
var ErrFault = errors.New("envtest: fault placed by the test")

// Rule places a fault at some calls.
type Rule struct {
	// Kind of call: for an [FS] one of open, read, write, sync, truncate, close, rename, remove, mkdir, readdir, stat,
	// syncdir, lock. A path.Match pattern; empty for every kind.
	Kind string
	// Name of what the call is about, a path.Match pattern over the last element of a path; empty for every name.
	Name string
	// Nth is the first matching call that is hit, counted from 1 when the rule was added; 0 means 1.
	Nth int
	// Times is how many matching calls are hit from there on; 0 means all of them.
	Times int
	// Hang, if set, holds a hit call up until it is closed.
	Hang <-chan struct{}
	// Delay holds a hit call up for this long.
	Delay time.Duration
	// Err is what a hit call returns. Nil means ErrFault, or no error if the rule has Hang or Delay.
	Err error
	// Short is how many bytes of a write are written before it fails.
	Short int
}

type activeRule struct {
	Rule
	seen int
}

// Faults is a set of rules that calls are matched against. The first rule that hits a call decides.
type Faults struct {
	mu    sync.Mutex
	rules []*activeRule
	hits  int
}

// NewFaults makes an empty set.
func NewFaults() *Faults { return &Faults{} }

// Add places a rule and returns what removes it.
func (f *Faults) Add(r Rule) (remove func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	active := &activeRule{Rule: r}
	f.rules = append(f.rules, active)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for i, other := range f.rules {
			if other == active {
				f.rules = append(f.rules[:i:i], f.rules[i+1:]...)
				return
			}
		}
	}
}

// Hits tells how many calls were hit so far.
func (f *Faults) Hits() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hits
}

// Call is what a hook calls: it holds the caller up or returns an error if a rule says so.
func (f *Faults) Call(kind, name string) error {
	_, err := f.call(kind, name)
	return err
}

// call also tells how many bytes of a failing write shall be written.
func (f *Faults) call(kind, name string) (short int, err error) {
	rule, hit := f.match(kind, name)
	if !hit {
		return 0, nil
	}
	if rule.Hang != nil {
		<-rule.Hang
	}
	if rule.Delay > 0 {
		<-time.After(rule.Delay)
	}
	if rule.Err == nil && rule.Hang == nil && rule.Delay == 0 {
		return rule.Short, ErrFault
	}
	return rule.Short, rule.Err
}

func (f *Faults) match(kind, name string) (Rule, bool) {
	if f == nil {
		return Rule{}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if !matches(r.Kind, kind) || !matches(r.Name, filepath.Base(name)) {
			continue
		}
		r.seen++
		first := max(r.Nth, 1)
		if r.seen < first || (r.Times > 0 && r.seen >= first+r.Times) {
			continue
		}
		f.hits++
		return r.Rule, true
	}
	return Rule{}, false
}

// matches panics on a bad pattern: the test is wrong.
func matches(pattern, s string) bool {
	if pattern == "" {
		return true
	}
	ok, err := path.Match(pattern, s)
	if err != nil {
		panic("envtest: bad pattern " + pattern)
	}
	return ok
}
