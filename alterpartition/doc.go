// Package alterpartition carries ISR changes of this broker's partitions to the active controller.
//
// # Purpose
//
// A partition leader does not change its ISR, it asks for the change (KIP-497). [Manager] takes such proposals and
// sends them on in batches: at most one of a partition is under way, at most one request of a broker.
//
// # Usage
//
//	m, err := alterpartition.New(cfg, clock, alterpartition.Via(controllers), logger)
//	go m.Run(ctx)
//	err = m.Submit(alterpartition.Item{Partition: id, Proposal: effects.Submit, Done: func(a partition.AlterPartitionAnswered) { … }})
//	if errors.Is(err, alterpartition.ErrNotAttempted) { … } // step OPERATION_NOT_ATTEMPTED
//
// # Guarantees
//
// A lone change is sent at once. A change submitted while a request is under way rides in the next one, with everything
// else that is queued. An item is answered once, by the controller's answer to itself, and its place is free again before
// its Done is called. Failures of a whole request keep all its items; they go again after [Config.RetryBackoff], to whoever
// is the active controller then, with the broker epoch of that moment. INELIGIBLE_REPLICA is passed on only when no
// earlier sending of the same item can still be under way: it then proves that the change was not made and will not be.
//
// # Goroutines
//
// The package starts none. Run blocks on the goroutine it is given until its context ends; Done is called on it, with no
// lock held. Submit and Pending may be called from any goroutine, also from Done. Items that are not answered when Run
// ends are never answered.
package alterpartition
