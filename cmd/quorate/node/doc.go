// Package node is what makes a process a node: its configuration, its data directory and its listeners' wiring.
//
// # Purpose
//
// It reads server.properties, checks that the data directory was formatted for this node of this cluster, keeps a second process
// off it, and runs the quorum's and the broker's side under one configuration.
//
// # Usage
//
// [Load] gives a [Config] from file, environment and --set; [Config.Settings] shows where each value came from. [Format] prepares
// a data directory. [Run] runs a node until its context ends.
//
// # Guarantees
//
// Format leaves either a formatted directory or none: everything is written into a temporary directory that is renamed last. Run touches
// nothing in a directory that is not formatted, of another cluster, of another node or in use. Every refusal is one line that says what to do.
//
// # Goroutines
//
// Load and Format start none. Run starts those of the node and waits for all of them.
package node
