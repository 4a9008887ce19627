package model

import "github.com/quorate/quorate/fsm/image"

// Harm is a kind of thing that goes wrong.
type Harm uint8

// The harms.
const (
	// Fence: a session ends, though the broker may live on.
	Fence Harm = iota
	// Failover: another controller becomes active; what was not committed is gone.
	Failover
	// Lost: a request, its answer or the answer to a fetch does not arrive.
	Lost
	// Repeated: a request is sent again while a copy is under way.
	Repeated
	// Delayed: a fetch arrives after other things have happened.
	Delayed
	// Crash: a broker's process ends; with its machine, the unsynced tail of its logs is gone; with its disk, all of them.
	Crash
	// Lag: a follower has not caught up for the lag limit.
	Lag
	harms
)

// String returns the harm's name.
func (h Harm) String() string {
	return [...]string{"fence", "failover", "lost", "repeated", "delayed", "crash", "lag"}[h]
}

// Budget bounds harm: of each kind, and altogether.
type Budget struct {
	Of    [harms]int8
	Total int8
}

// upTo is a budget of n harms altogether, of whatever kinds, with one failover.
func upTo(n int8) Budget {
	b := Budget{Total: n}
	for h := range b.Of {
		b.Of[h] = n
	}
	b.Of[Failover] = 1
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
	// Move is the target of a reassignment of partition 0 that may be started, and cancelled, once; nil for none.
	Move []int32
	// Preferred lets an operator ask for preferred elections as often as they change something.
	Preferred bool
	// Budget of harm after the prefix.
	Budget Budget
	// Prefix are the steps that lead from the beginning to the state that the search starts from. They cost no harm.
	Prefix []string
}

// Worlds are the worlds that are searched, small ones of different kinds.
func Worlds() []Config {
	all := [][]int32{{1, 2, 3}}
	two := [][]int32{{1, 2, 3}, {2, 3, 1}}
	// A record that is committed, on all three brokers, whose followers have not heard of the watermark.
	replicated := []string{"produce broker=1", "fetch from=2", "fetch from=3", "fetch from=2", "fetch from=3"}
	// As before, but broker 3 has fallen behind and left the ISR without it.
	behind := []string{"produce broker=1", "fetch from=2", "fetch from=2", "lag broker=1", "request 1", "answer 1", "apply broker=1", "apply broker=2", "apply broker=3"}
	// Broker 3 has caught up and the leader asks to let it in.
	joining := append(append([]string(nil), behind...), "fetch from=3", "fetch from=3")
	// Broker 1 leads on in epoch 0 with a record of its own, while broker 2 leads already.
	parted := []string{"produce broker=1", "fence (1)", "apply broker=2", "apply broker=3", "produce broker=2"}
	return []Config{
		{Name: "plain", Replicas: all, MinISR: 1, Values: 2, Budget: upTo(2)},
		{Name: "elr", Replicas: all, MinISR: 2, ELR: true, Values: 2, Budget: upTo(2)},
		{Name: "elr-min-1", Replicas: all, MinISR: 1, ELR: true, Values: 2, Budget: upTo(2), Prefix: replicated},
		{Name: "unclean", Replicas: all, MinISR: 1, Unclean: true, Values: 2, Budget: upTo(2), Prefix: replicated},
		{Name: "elr-unclean", Replicas: all, MinISR: 2, ELR: true, Unclean: true, Values: 2, Budget: upTo(2), Prefix: replicated},
		{Name: "replicated", Replicas: all, MinISR: 2, Values: 2, Budget: upTo(2), Prefix: replicated},
		{Name: "behind", Replicas: all, MinISR: 1, Values: 2, Budget: upTo(2), Prefix: behind},
		{Name: "elr-behind", Replicas: all, MinISR: 2, ELR: true, Values: 2, Patient: true, Budget: upTo(2), Prefix: behind},
		{Name: "joining", Replicas: all, MinISR: 1, Values: 2, Budget: upTo(2), Prefix: joining},
		{Name: "elr-joining", Replicas: all, MinISR: 2, ELR: true, Values: 2, Budget: upTo(2), Prefix: joining},
		{Name: "parted", Replicas: all, MinISR: 1, Values: 3, Budget: upTo(2), Prefix: parted},
		{Name: "elr-parted", Replicas: all, MinISR: 2, ELR: true, Values: 3, Cut: true, Budget: upTo(2), Prefix: parted},
		{Name: "patient", Replicas: all, MinISR: 2, Values: 2, Patient: true, Preferred: true, Budget: upTo(2)},
		{Name: "two", Replicas: two, MinISR: 1, Values: 1, Cut: true, Budget: upTo(2)},
		{Name: "elr-two", Replicas: two, MinISR: 2, ELR: true, Values: 1, Cut: true, Preferred: true, Budget: upTo(2)},
		{Name: "move", Replicas: [][]int32{{1, 2}}, MinISR: 1, Values: 2, Move: []int32{2, 3}, Budget: upTo(2)},
		{Name: "elr-move", Replicas: [][]int32{{1, 2}}, MinISR: 2, ELR: true, Values: 2, Cut: true, Move: []int32{3, 2}, Budget: upTo(2)},
	}
}

// brokerIDs are the brokers of every world.
var brokerIDs = []image.BrokerID{1, 2, 3}
