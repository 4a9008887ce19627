package fsm

import (
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/fsm/image"
)

var (
	_ raft.BatchingFSM        = (*FSM)(nil)
	_ raft.ConfigurationStore = (*FSM)(nil)
)

// FSM is the replicated state machine.
type FSM struct {
	cfg Config

	// position is what is published: a state and the image at it, always of one entry's end.
	position atomic.Pointer[Position]
	halted   atomic.Pointer[HaltError]
	applied  atomic.Uint64

	offers    offers
	publisher publisher
	marks     marks
	counters  Counters

	// Of Raft's FSM goroutine only.
	sinceVerify int
}

// Position is the end of an entry: the image, and the state of the log there.
type Position struct {
	State State
	Image *image.Image
}

// HaltError tells why the FSM stopped for good.
type HaltError struct {
	// Index and Term are those of the command that could not be applied.
	Index, Term uint64
	// Reason is an error of decoding or replaying, or tells of diverging histories.
	Reason error
}

// Error names the index.
func (e *HaltError) Error() string {
	return fmt.Sprintf("fsm: halted at raft index %d, term %d: %v", e.Index, e.Term, e.Reason)
}

// Unwrap returns the reason.
func (e *HaltError) Unwrap() error { return e.Reason }

// ClaimResult is Raft's response to a claim: what the claiming controller stands on.
type ClaimResult struct {
	Index, Term uint64
	// TimeMs is the time below which no later entry may be.
	TimeMs int64
	Image  *image.Image
	State  State
}

// EntryResult is Raft's response to an entry.
type EntryResult struct {
	// Verdict is Apply or Fenced.
	Verdict Verdict
	// Reason tells why the entry was fenced.
	Reason string
	// Image and State are those after the entry.
	Image *image.Image
	State State
}

// HaltResult is Raft's response to every command from the one on that halted the FSM.
type HaltResult struct{ Err *HaltError }

// New returns an FSM that stands before the first command.
func New(cfg Config) (*FSM, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	f := &FSM{cfg: cfg}
	f.offers.max = cfg.OffersMax
	f.publisher.init(cfg.RingBytesMax)
	f.marks.init(cfg.MarkEvery, cfg.MarksMax)
	f.position.Store(&Position{State: InitialState(), Image: image.Empty()})
	return f, nil
}

// Position returns the newest published state with its image.
func (f *FSM) Position() Position { return *f.position.Load() }

// Image returns the newest committed image.
func (f *FSM) Image() *image.Image { return f.position.Load().Image }

// State returns the newest published state.
func (f *FSM) State() State { return f.position.Load().State }

// AppliedIndex returns the Raft index of the last command or configuration that was applied, fenced ones included.
// Raft's own counter runs ahead of it, and Raft's no-ops and barriers never come here.
func (f *FSM) AppliedIndex() uint64 { return f.applied.Load() }

// Halted returns why the FSM stopped, nil as long as it has not.
func (f *FSM) Halted() *HaltError { return f.halted.Load() }

// Counters returns the counts of what happened so far.
func (f *FSM) Counters() *Counters { return &f.counters }

// Counters count since the start; each may be read at any time.
type Counters struct {
	// Entries, Fenced and Claims count commands by what became of them.
	Entries, Fenced, Claims atomic.Uint64
	// Records counts applied records.
	Records atomic.Uint64
	// Offered counts entries whose image was taken from an offer, Verified those of them that were replayed as well.
	Offered, Verified atomic.Uint64
	// Restores counts snapshots loaded.
	Restores atomic.Uint64
}

// StoreConfiguration takes note of a membership change. Without it Raft could not take a snapshot while a
// configuration is the newest entry (hashicorp/raft issue 617).
func (f *FSM) StoreConfiguration(uint64, raft.Configuration) {}
