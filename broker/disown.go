package broker

import (
	"context"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// disown tells the controller of logs that turned out, when they were loaded, not to hold what was acknowledged, and
// returns when the metadata that this broker follows relies on none of them: it counts them neither in ISR nor ELR nor
// last-known ELR. Until then the broker stays fenced, so none of them can be elected (KIP-966: a replica that lost
// acknowledged records must not lead cleanly).
//
// It registers again under the same incarnation. Whether that was written is read from the metadata, not from the
// answer, so a lost answer is no matter. It repeats until it succeeds or ctx ends.
func (b *Broker) disown(ctx context.Context, damaged map[image.PartitionID]bool) error {
	isWhole := func(id image.PartitionID) bool { return !damaged[id] }
	isSettled := func(im *image.Image) bool { return len(lostReplicas(im, b.cfg.ID, isWhole)) == 0 }
	for {
		im := b.newest.image()
		if int32(im.Lineage().Number) != b.registeredIn.Load() {
			return ErrNewLineage
		}
		if isSettled(im) {
			return nil
		}
		// An image that knows this id by another incarnation leaves nothing to amend: registering would open a new life.
		if reg, ok := im.Broker(b.cfg.ID); ok && reg.IncarnationID == b.incarnation {
			err := b.amend(ctx, b.registrationBy(im, isWhole), isSettled)
			if err == nil {
				continue
			}
			if ctx.Err() == nil {
				b.log.Warn("lost replicas could not be told; trying again", "damaged", len(damaged), "error", err)
			}
		}
		if !sleep(ctx, retryBackoffMax) {
			return ErrStopped
		}
	}
}

// amend registers again in this life and waits until the metadata shows it.
func (b *Broker) amend(ctx context.Context, r *controllerpb.RegisterBrokerRequest, isSettled func(*image.Image) bool) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	a, err := b.RegisterBroker(ctx, r)
	if err != nil {
		return err
	}
	for _, l := range r.LostReplicas {
		id, _ := image.UUIDFrom(l.TopicId)
		b.log.Warn("logs do not hold what was acknowledged; they are no longer counted on and are fetched again",
			"topicId", id.String(), "partitions", l.Partitions, "registrationOffset", a.RegistrationOffset)
	}
	_, err = b.newest.wait(ctx, isSettled)
	return err
}
