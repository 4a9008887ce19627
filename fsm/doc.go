// Package fsm applies the committed Raft log: same entries, same image, on every replica.
//
// # Purpose
//
// [FSM] is the state machine that hashicorp/raft drives. It gives each entry a verdict that is the same everywhere
// (apply, fenced, halt), replays what is applied, publishes the new image by one pointer, and keeps the newest entries
// at hand for metadata streams. [Walker] reads older ones from the log again and judges them with the same function.
//
// # Usage
//
//	f, err := fsm.New(cfg)
//	r, err := raft.NewRaft(raftConfig, f, …)
//	im, err := f.WaitOffset(ctx, offset)
//	entries, ok := f.After(offset, max)    // !ok: f.Walk(logs, offset), and if that fails a snapshot
//
// The active controller hands each image it has already built to [FSM.Offer], so that a record is replayed once.
//
// # Guarantees
//
// An entry is applied whole or not at all. What cannot be read or does not fit stops the FSM for good ([HaltError]):
// nothing more is applied, no snapshot is taken, and the process is told. A snapshot is loaded aside and takes effect
// in one step. Images, positions and entries are published in order, at the ends of entries only, and Apply never
// waits for whoever reads them.
//
// # Goroutines
//
// The package starts none. Raft's FSM goroutine calls Apply, ApplyBatch, Snapshot, Restore and StoreConfiguration;
// all other methods may be called from any goroutine. A Walker belongs to one goroutine.
package fsm
