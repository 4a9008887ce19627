// Command quorate is the whole product in one binary: a node, a cluster on loopback, and the commands of an operator.
//
// # Purpose
//
// Everything is a subcommand, a noun and a verb; quorate help lists them.
//
// # Usage
//
// quorate dev runs a cluster. quorate server runs one node of one. The rest asks or changes a running cluster, found by
// --controllers, --cluster or QUORATE_CONTROLLERS.
//
// # Guarantees
//
// Exit code 0: done. 1: refused; what was refused changed nothing, what else the command named was done and is listed. 2: the command line is
// wrong, nothing was sent. 3: unavailable, or the outcome is unknown; the text says which. Errors are one line on stderr, "error: CODE: reason" with Kafka's name of the code; with -o json they are a document on
// stdout as well. JSON is written by our own writer: keys keep their order and are never renamed.
//
// # Goroutines
//
// A command runs on the main goroutine; waits on several brokers run on goroutines that it waits for.
package main
