// Package layering holds the law of the tree as tests: who may import whom, what the pure packages may touch,
// how long files and functions may be, what a package's documentation says, and that every kept rule has a test.
//
// # Purpose
//
// A law that no test holds is forgotten. Each test names the offender, the law and the way out.
//
// # Usage
//
// The tests read the source tree; they run with all others. A new package gets a line in the table of bands.
//
// # Guarantees
//
// The tests only read. They need no network and no built program.
//
// # Goroutines
//
// None.
package layering
