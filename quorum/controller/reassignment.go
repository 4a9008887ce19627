package controller

import (
	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// completeReassignment ends a reassignment whose final replicas are all in the ISR (KIP-455, KAFKA-15665). It is tried
// with every change of the partition. Since every final replica is in sync, min.insync.replicas is met as far as the
// number of replicas allows.
func (c *partitionChange) completeReassignment() {
	if len(c.adding) == 0 && len(c.removing) == 0 {
		return
	}
	isr, replicas := c.isr, c.replicas
	if len(c.removing) > 0 {
		isr, replicas = image.Without(c.isr, c.removing...), image.Without(c.replicas, c.removing...)
	}
	if len(isr) == 0 || len(replicas) == 0 || !image.ContainsAll(isr, replicas) {
		return
	}
	c.isr, c.replicas = isr, replicas
	c.adding, c.removing, c.original = nil, nil, nil
	c.reason = metadatapb.ChangeReason_CHANGE_REASON_REASSIGNMENT_COMPLETED
}
