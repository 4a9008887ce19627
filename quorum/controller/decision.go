package controller

import (
	"fmt"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// Decision is the outcome of one request or event.
type Decision[R any] struct {
	// Records in the order in which they must be written; none if nothing changes.
	Records []*metadatapb.Record
	// Atomic records go into one entry or are refused. Others may be cut between any two.
	Atomic bool
	// Response is true once the records, and everything in the view's image, are committed.
	Response R
	// Reasons say why, for the log and for dry runs. Why each partition changed is in its record.
	Reasons []Reason
	// Liveness is the soft state after the decision; nil leaves it as it was.
	Liveness *Liveness
}

func (d *Decision[R]) because(subject, format string, args ...any) {
	d.Reasons = append(d.Reasons, Reason{Subject: subject, Text: fmt.Sprintf(format, args...)})
}

// Reason says in words why a decision came out as it did.
type Reason struct {
	// Subject is what the reason is about, such as "broker 3".
	Subject string
	Text    string
}

// String returns the reason on one line.
func (r Reason) String() string { return r.Subject + ": " + r.Text }

// Done is the response of an event that nobody waits for.
type Done struct{}
