package image

import (
	"fmt"
	"strings"
)

// String returns one canonical line.
func (b Broker) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "broker %d epoch=%d registered=%d", b.ID, b.Epoch, b.RegistrationOffset)
	if b.Fenced {
		s.WriteString(" fenced")
	}
	if b.InControlledShutdown {
		fmt.Fprintf(&s, " controlled-shutdown=%d", b.ControlledShutdownOffset)
	}
	if b.Rack != nil {
		fmt.Fprintf(&s, " rack=%s", *b.Rack)
	}
	for _, l := range b.Listeners {
		fmt.Fprintf(&s, " %s=%s:%d", l.Name, l.Host, l.Port)
	}
	return s.String()
}

// String returns one canonical line.
func (p PendingDeletion) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "pending-deletion %s %v", p.Name, p.TopicID)
	for _, r := range p.Replicas {
		fmt.Fprintf(&s, " %d", r.Broker)
		switch {
		case r.Deleted:
			s.WriteString("(deleted)")
		case r.Failure != "":
			fmt.Fprintf(&s, "(%s)", r.Failure)
		}
	}
	return s.String()
}

// RecoveryState returns RECOVERED or RECOVERING (KIP-704).
func (p Partition) RecoveryState() string {
	if p.Recovering {
		return "RECOVERING"
	}
	return "RECOVERED"
}

// String returns the whole image as canonical lines: what it stands at, features, lineage, brokers, controllers, topics with
// their partitions, configs, producer ids, pending deletions. It is meant for transcripts and small images.
func (im *Image) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "offset=%d chain=%v\n", im.offset, im.chain)
	for name, level := range im.Features() {
		fmt.Fprintf(&s, "feature %s=%d\n", name, level)
	}
	if im.lineage.Number > 0 {
		fmt.Fprintln(&s, im.lineage)
	}
	for b := range im.Brokers() {
		fmt.Fprintln(&s, b)
	}
	for c := range im.Controllers() {
		fmt.Fprintf(&s, "controller %d incarnation=%v\n", c.ID, c.IncarnationID)
	}
	for c := range im.RemovedControllers() {
		fmt.Fprintf(&s, "removed controller %d directory=%v\n", c.ID, c.DirectoryID)
	}
	for t := range im.Topics() {
		fmt.Fprintf(&s, "topic %s %v\n", t.Name(), t.ID())
		for i, p := range t.Partitions() {
			fmt.Fprintf(&s, "  %d %v\n", i, p)
		}
	}
	for k, v := range im.configs.all() {
		fmt.Fprintf(&s, "config %d %q %s=%s\n", k.resourceType, k.resource, k.key, v)
	}
	if im.nextProducerID > 0 {
		fmt.Fprintf(&s, "next-producer-id %d\n", im.nextProducerID)
	}
	for p := range im.PendingDeletions() {
		fmt.Fprintln(&s, p)
	}
	return s.String()
}
