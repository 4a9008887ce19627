// Package clienttest has a controller that says what a test wants, over a real socket.
//
// # Purpose
//
// Tests of clients and commands need controllers that are active, standing by, silent or wrong.
//
// # Usage
//
// [Start] serves a [Controller] until the test ends. Its fields are changed under [Controller.Set].
// [Silent] is the address of a process that was stopped: it accepts connections and never speaks.
//
// # Guarantees
//
// A method whose function is not set answers Unimplemented.
//
// # Goroutines
//
// The server's end with the test.
package clienttest
