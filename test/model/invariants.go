package model

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/test/invariant"
)

// Predicate is a promise about a world. Those about the metadata alone are in package invariant; the search checks them too.
type Predicate struct {
	Name string
	// Holds returns what is wrong, nil if nothing is.
	Holds func(*World) error
}

// Predicates are checked in every world that is reached.
var Predicates = []Predicate{
	{"LeaderCandidateCompleteness", eachPartition(leaderCandidateCompleteness)},
	{"LeaderCompleteness", eachPartition(leaderCompleteness)},
	{"OneLeaderPerLeaderEpoch", eachPartition(oneLeaderPerLeaderEpoch)},
	{"ReplicationQuorumSuperset", eachPartition(replicationQuorumSuperset)},
	{"AtMostOnePendingChange", eachPartition(atMostOnePendingChange)},
	{"LogMatching", eachPartition(logMatching)},
}

// promisedOnTheWay are the promises that are looked at where what they compare is at hand: in the steps themselves, after every record,
// after every decision, and where nothing happens any more.
var promisedOnTheWay = []string{
	"NoCommittedRecordLost", "AcknowledgedIsCommitted", "EpochsMonotonic", "CommittedRecordReplays", "MetadataLogMatching",
	"LastMemberStays", "CancelRestoresReplicas",
	"UncleanOnlyIfNobodyCanLead", "PendingEqualsCommittedAtCommit",
	converges,
}

// Promises are the names of all that a search checks, sorted: of a world, of the metadata, and of the steps between them.
func Promises() []string {
	names := slices.Clone(promisedOnTheWay)
	for _, p := range Predicates {
		names = append(names, p.Name)
	}
	for _, p := range slices.Concat(invariant.Always, invariant.AtRest) {
		names = append(names, p.Name)
	}
	for _, s := range invariant.Steps {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (w *World) check() error {
	if w.bad != nil {
		return w.bad
	}
	for _, p := range Predicates {
		if err := p.Holds(w); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return nil
}

func eachPartition(holds func(*World, int, image.Partition) error) func(*World) error {
	return func(w *World) error {
		for i, p := range w.tip.parts {
			if err := holds(w, i, p); err != nil {
				return fmt.Errorf("t-%d (%v): %w", i, p, err)
			}
		}
		return nil
	}
}

// leaderCandidateCompleteness: whoever a clean election could make leader has every record that a leader has shown. A log
// that has become shorter unknown to the controller is not a candidate's: its process is over, and the next one says so
// before it can lead.
func leaderCandidateCompleteness(w *World, part int, p image.Partition) error {
	for _, id := range invariant.Candidates(p) {
		b := w.broker(id)
		if b.short || b.wiped {
			continue
		}
		if l := &b.parts[part].log; !l.holds(w.promises[part].committed) {
			return fmt.Errorf("broker %d has %s, committed are %s", id, appendEntries(nil, l.entries), appendEntries(nil, w.promises[part].committed))
		}
	}
	return nil
}

// leaderCompleteness: who leads in the newest leader epoch has every record that a leader has shown.
func leaderCompleteness(w *World, part int, p image.Partition) error {
	for _, b := range w.brokers {
		r := &b.parts[part]
		if r.leads() && r.LeaderEpoch >= p.LeaderEpoch && !r.log.holds(w.promises[part].committed) {
			return fmt.Errorf("leader %d has %s, committed are %s", b.id, appendEntries(nil, r.log.entries), appendEntries(nil, w.promises[part].committed))
		}
	}
	return nil
}

// oneLeaderPerLeaderEpoch: no two brokers lead in the same leader epoch, and none in an epoch that is not committed.
func oneLeaderPerLeaderEpoch(w *World, part int, p image.Partition) error {
	for i, b := range w.brokers {
		r := &b.parts[part]
		if !r.leads() {
			continue
		}
		if r.LeaderEpoch > p.LeaderEpoch || r.LeaderEpoch == p.LeaderEpoch && p.Leader != b.id {
			return fmt.Errorf("broker %d leads in epoch %d", b.id, r.LeaderEpoch)
		}
		for _, other := range w.brokers[i+1:] {
			if o := &other.parts[part]; o.leads() && o.LeaderEpoch == r.LeaderEpoch {
				return fmt.Errorf("brokers %d and %d lead in epoch %d", b.id, other.id, r.LeaderEpoch)
			}
		}
	}
	return nil
}

// replicationQuorumSuperset: the leader of the newest epoch waits for every member of the committed ISR.
func replicationQuorumSuperset(w *World, part int, p image.Partition) error {
	for _, b := range w.brokers {
		r := &b.parts[part]
		if !r.leads() || r.LeaderEpoch != p.LeaderEpoch {
			continue
		}
		if !image.ContainsAll(r.ISR.Maximal, p.ISR) {
			return fmt.Errorf("leader %d waits for %v", b.id, r.State)
		}
		if !image.ContainsAll(r.ISR.Maximal, r.ISR.Committed) || !image.Contains(r.ISR.Committed, b.id) {
			return fmt.Errorf("the ISR of leader %d is out of shape: %v", b.id, r.State)
		}
	}
	return nil
}

// atMostOnePendingChange: of the requests under way no two different ones could both be accepted.
func atMostOnePendingChange(w *World, part int, p image.Partition) error {
	var first *partition.Proposal
	for _, m := range w.messages {
		q := m.proposal
		if !m.isRequest() || m.part != part || q.LeaderEpoch != p.LeaderEpoch || q.PartitionEpoch != p.PartitionEpoch {
			continue
		}
		if first != nil && !first.Equal(q) {
			return fmt.Errorf("%v and %v", first, q)
		}
		first = q
	}
	return nil
}

// logMatching: two logs that hold the same leader epoch at an offset hold the same records up to there.
func logMatching(w *World, part int, _ image.Partition) error {
	for i, a := range w.brokers {
		for _, b := range w.brokers[i+1:] {
			x, y := a.parts[part].log.entries, b.parts[part].log.entries
			from := common(x, y)
			for o := from; o < len(x) && o < len(y); o++ {
				if x[o].epoch == y[o].epoch {
					return fmt.Errorf("broker %d has %s, broker %d %s", a.id, appendEntries(nil, x), b.id, appendEntries(nil, y))
				}
			}
		}
	}
	return nil
}
