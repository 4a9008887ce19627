package model

import (
	"slices"

	"github.com/quorate/quorate/fsm/image"
)

// Harm is a kind of thing that goes wrong.
type Harm uint8

// The harms.
const (
	// Fence: a session ends, though the broker may live on.
	Fence Harm = iota
	// Failover: another controller becomes active; what was not committed is gone.
	Failover
	// Lost: a request, its answer, the answer to a registration or to a fetch does not arrive.
	Lost
	// Repeated: a request is sent again while a copy is under way.
	Repeated
	// Delayed: a fetch or its answer arrives after other things have happened.
	Delayed
	// Crash: a broker's process ends; with its machine, the unsynced tail of its logs is gone; with its disk, all of them.
	Crash
	// Lag: a follower has not caught up for the lag limit.
	Lag
	// Stop: a broker is told to stop, hands over and begins another life.
	Stop
	harms
)

// Harms are all of them.
func Harms() []Harm {
	list := make([]Harm, harms)
	for h := range list {
		list[h] = Harm(h)
	}
	return list
}

// String returns the harm's name.
func (h Harm) String() string {
	return [...]string{"fence", "failover", "lost", "repeated", "delayed", "crash", "lag", "stop"}[h]
}

// Budget bounds harm: of each kind, and altogether.
type Budget struct {
	Of    [harms]int8
	Total int8
}

// upTo is a budget of so much harm altogether, of the kinds named; there is one failover at most.
func upTo(total int8, kinds ...Harm) Budget {
	b := Budget{Total: total}
	for _, h := range kinds {
		b.Of[h] = total
	}
	b.Of[Failover] = min(b.Of[Failover], 1)
	return b
}

// Config is a small world: who is there, by which settings, and how much may go wrong.
type Config struct {
	Name string
	// Replicas of each partition.
	Replicas [][]int32
	// ELR turns eligible leader replicas on, Unclean sets unclean.leader.election.enable, MinISR is min.insync.replicas.
	ELR, Unclean bool
	MinISR       int
	// Values is how many records producers append, with acks=all.
	Values int8
	// Patient gives followers the benefit of the lag limit: one that was caught up once is waited for. Otherwise every step
	// lies a lag limit after the one before.
	Patient bool
	// Cut makes an entry of each record of a decision that is not atomic, so that brokers and failovers see every prefix.
	Cut bool
	// Moves are the targets of reassignments of partition 0 that may be started one after the other, also while the one
	// before is under way; nil cancels it.
	Moves [][]int32
	// MinISRs are values that an operator gives to the topic's min.insync.replicas one after the other.
	MinISRs []int
	// ByRequest lets an operator ask for unclean elections of partitions without a leader.
	ByRequest bool
	// Preferred lets an operator ask for preferred elections as often as they change something.
	Preferred bool
	// Budget of harm after the prefix.
	Budget Budget
	// Prefix are the steps that lead from the beginning to the state that the search starts from. They cost no harm.
	Prefix []string
}

// Prefixes: where a search may start from.
var (
	// replicated: a record is committed and on all brokers, whose followers have not heard of the watermark.
	replicated = []string{"produce broker=1", "fetch from=2", "fetch from=3", "fetch from=2", "fetch from=3"}
	// behind: a record is committed, and broker 3, which lacks it, has left the ISR.
	behind = []string{
		"produce broker=1", "fetch from=2", "fetch from=2", "lag broker=1", "request 1", "answer 1",
		"apply broker=1", "apply broker=2", "apply broker=3",
	}
	// joining: as behind, but broker 3 has caught up, and the leader asks to let it in.
	joining = append(slices.Clip(behind), "fetch from=3", "fetch from=3")
	// parted: broker 1 was fenced and still leads, with a record that nobody has; broker 2 leads, with a committed one.
	parted = []string{
		"produce broker=1", "fence ids=1", "apply broker=2", "apply broker=3", "produce broker=2", "fetch from=3", "fetch from=3",
	}
	// raised: the topic's min.insync.replicas was raised, and no broker knows it.
	raised = []string{"configure"}
	// alone: the leader is the last member of the ISR, and the others lack a record of it.
	alone = []string{"produce broker=1", "lag broker=1", "request 1", "answer 1", "apply broker=1", "apply broker=2", "apply broker=3"}
)

// Worlds are the worlds that are searched, small ones of different kinds.
func Worlds() []Config {
	all := [][]int32{{1, 2, 3}}
	two := [][]int32{{1, 2, 3}, {2, 3, 1}}
	list := []Config{
		{Name: "any", MinISR: 1, Values: 2, Budget: upTo(2, Fence, Failover, Lost, Repeated, Delayed, Crash, Lag)},
		{Name: "elr-any", ELR: true, MinISR: 2, Values: 2, Budget: upTo(2, Fence, Failover, Lost, Repeated, Delayed, Crash, Lag)},
		{Name: "sessions", MinISR: 1, Values: 2, Preferred: true, Budget: upTo(3, Fence, Failover, Lag)},
		{Name: "elr-sessions", ELR: true, MinISR: 2, Values: 2, Cut: true, Patient: true, Budget: upTo(3, Fence, Failover, Lag)},
		{Name: "claims", Replicas: [][]int32{{1, 2}}, MinISR: 1, Values: 1, Moves: [][]int32{{2, 3}, {3, 2}}, Budget: Budget{Total: 3, Of: [harms]int8{Failover: 2, Fence: 1}}},
		{Name: "network", MinISR: 2, Values: 2, Budget: upTo(3, Lost, Repeated, Delayed, Lag)},
		{Name: "elr-network", ELR: true, MinISR: 2, Values: 2, Patient: true, Prefix: joining, Budget: upTo(3, Fence, Lost, Repeated, Delayed)},
		{Name: "crashes", MinISR: 1, Values: 2, Prefix: replicated, Budget: upTo(3, Crash, Fence)},
		{Name: "elr-crashes", ELR: true, MinISR: 2, Values: 2, Cut: true, Prefix: replicated, Budget: upTo(3, Crash, Fence)},
		{Name: "elr-min-1", ELR: true, MinISR: 1, Values: 2, Prefix: replicated, Budget: upTo(3, Crash, Fence, Failover)},
		{Name: "unclean", Unclean: true, MinISR: 1, Values: 2, Prefix: behind, Budget: upTo(3, Crash, Fence, Lag)},
		{Name: "elr-unclean", ELR: true, Unclean: true, MinISR: 2, Values: 2, Prefix: behind, Budget: upTo(3, Crash, Fence, Lag)},
		{Name: "behind", MinISR: 1, Values: 2, Prefix: behind, Budget: upTo(2, Fence, Lost, Delayed, Crash)},
		{Name: "elr-behind", ELR: true, MinISR: 2, Values: 2, Patient: true, Prefix: behind, Budget: upTo(2, Fence, Lost, Lag)},
		{Name: "joining", MinISR: 1, Values: 2, Prefix: joining, Budget: upTo(1, Fence, Crash, Repeated, Lost)},
		{Name: "elr-joining", ELR: true, MinISR: 2, Values: 2, Prefix: joining, Budget: upTo(2, Failover, Crash, Fence)},
		{Name: "parted", MinISR: 1, Values: 3, Prefix: parted, Budget: upTo(1, Fence, Crash, Lost, Delayed)},
		{Name: "elr-parted", ELR: true, MinISR: 2, Values: 3, Cut: true, Prefix: parted, Budget: upTo(2, Fence, Failover, Lag)},
		{Name: "alone", MinISR: 1, Values: 3, Prefix: alone, Budget: upTo(2, Fence, Crash, Failover)},
		{Name: "elr-alone", ELR: true, MinISR: 2, Values: 3, Prefix: alone, Budget: upTo(2, Fence, Crash, Lost)},
		{Name: "by-request", MinISR: 1, Values: 2, ByRequest: true, Prefix: behind, Budget: upTo(2, Crash, Fence)},
		{Name: "elr-by-request", ELR: true, MinISR: 2, Values: 2, ByRequest: true, Budget: upTo(2, Crash, Fence, Lag)},
		{Name: "stops", MinISR: 1, Values: 2, Budget: upTo(2, Stop, Fence, Failover)},
		{Name: "elr-stops", ELR: true, MinISR: 2, Values: 2, Prefix: replicated, Budget: upTo(3, Stop, Crash)},
		{Name: "two", Replicas: two, MinISR: 1, Values: 1, Cut: true, Budget: upTo(2, Fence, Failover, Crash)},
		{Name: "elr-two", Replicas: two, ELR: true, MinISR: 2, Values: 1, Cut: true, Preferred: true, Budget: upTo(2, Fence, Failover, Lag)},
		{Name: "move", Replicas: [][]int32{{1, 2}}, MinISR: 1, Values: 2, Moves: [][]int32{{2, 3}, nil}, Budget: upTo(2, Fence, Lag, Crash)},
		{Name: "retarget", Replicas: [][]int32{{1, 2}}, MinISR: 1, Values: 1, Moves: [][]int32{{3, 2}, {3, 1}, nil}, Budget: upTo(2, Fence, Failover)},
		{Name: "elr-raised", ELR: true, MinISR: 1, Values: 2, MinISRs: []int{2, 1}, Prefix: raised, Budget: upTo(2, Fence, Lag)},
		{Name: "elr-lowered", ELR: true, MinISR: 2, Values: 2, MinISRs: []int{1, 3}, Prefix: replicated, Budget: upTo(2, Fence, Lag, Failover)},
		{Name: "elr-move", Replicas: [][]int32{{1, 2}}, ELR: true, MinISR: 2, Values: 2, Cut: true, Moves: [][]int32{{3, 2}, nil}, Budget: upTo(2, Fence, Failover, Lost)},
	}
	for i := range list {
		if list[i].Replicas == nil {
			list[i].Replicas = all
		}
	}
	return list
}

// brokerIDs are the brokers of every world.
var brokerIDs = []image.BrokerID{1, 2, 3}
