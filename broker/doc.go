// Package broker follows the metadata log and hosts partition logs: it leads some, follows others, and serves clients.
//
// # Purpose
//
// A [Broker] registers with the active controller, follows the metadata stream of any controller, and makes its own
// state what the metadata says: logs created and deleted, leaders and followers made. It decides nothing about the
// cluster; what a leader may decide about its ISR is the package partition's, asked for through alterpartition.
//
// # Usage
//
//	cfg := broker.DefaultConfig() // and identity, addresses, controllers
//	b, err := broker.New(cfg, e, logger)
//	b.Register(prometheus.DefaultRegisterer)
//	err = b.Run(ctx) // blocks; the end of ctx is a controlled shutdown
//
// [Broker.Ready] tells whether it serves, and if not, why. [Broker.Shutdown] stops it and waits.
//
// # Guarantees
//
// Nothing on disk is deleted, and nothing led, on the word of metadata that is empty or older than what this broker has
// ever acted on (KAFKA-15605). A log belongs to a topic id, never to a name. A former life's end is told before
// the first log is opened, so that no lost tail is taken for a whole one. A broker applies metadata until its very end
// (KAFKA-14296). A restart after a crash at any moment finds a directory it can start from.
//
// # Goroutines
//
// [Broker.Run] starts all goroutines and waits for all of them. One owns the lifecycle, one the metadata stream,
// one the replicas; each hosted partition has a lock and no goroutine. Exported methods may be called from any goroutine.
package broker
