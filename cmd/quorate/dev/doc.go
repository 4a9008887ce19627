// Package dev is the supervisor behind quorate dev: a whole cluster on loopback, each node a process of its own.
//
// # Purpose
//
// One command gives a newcomer, a test or a judge a real cluster: formatted on first use, kept in a directory, stopped in order.
//
// # Usage
//
// [Run] blocks until its context ends. What it started is described by DIR/cluster.json, a [Cluster].
//
// # Guarantees
//
// A line that begins with "ready" is printed once all nodes are ready and all brokers unfenced. When Run returns no node of the directory
// runs, whoever started it; it returns nil only if all ended by themselves in time. Nodes end too when the supervisor dies.
//
// # Goroutines
//
// One a node process waits for its end; all have ended when Run returns.
package dev
