// Package env is a node's only way to the outside: network, files and the clock.
//
// # Purpose
//
// Every listener, every outgoing connection, every file operation and every read of a clock of a node
// goes through one [Env] value, so that a whole cluster can run inside a testing/synctest bubble over
// net.Pipe, and so that a fault can be placed anywhere a node meets the world.
//
// # Usage
//
// A program makes one value with [OS] and hands it to every part of the node. Tests use the doubles in
// the package envtest: an in-memory network with cuts and delays, a file system that fails at the n-th call,
// a clock that steps. Timers are taken from the time package: they never read a clock, and a bubble holds them.
//
// # Guarantees
//
// An Env is immutable once handed out. [WriteFileAtomic] leaves either the old or the new content, synced,
// also across a crash. [Env.At] costs one nil check in production.
//
// # Goroutines
//
// The package starts none. All methods may be called from any goroutine.
package env
