package image

import (
	"cmp"
	"errors"
	"fmt"
	"iter"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// RemovedController is a controller that was taken out of the quorum, a node with one of its directories. It stays
// out: under the old identity it could vote although others no longer count it.
type RemovedController struct {
	ID          BrokerID
	DirectoryID UUID
	// RemovedAtMs is the active controller's time when the removal was decided.
	RemovedAtMs int64
}

type removedKey struct {
	id        BrokerID
	directory UUID
}

func (k removedKey) compare(o removedKey) int {
	return cmp.Or(cmp.Compare(k.id, o.id), compareUUID(k.directory, o.directory))
}

// RemovedControllers returns all controllers that were removed from the quorum, ascending by id, then by directory id.
func (im *Image) RemovedControllers() iter.Seq[RemovedController] {
	return values(&im.removedControllers)
}

// IsRemovedController tells whether the node was removed from the quorum with that very directory.
func (im *Image) IsRemovedController(id BrokerID, directory UUID) bool {
	return im.removedControllers.has(removedKey{id, directory})
}

// Record returns the record that restores the removal.
func (c *RemovedController) Record() *metadatapb.RemovedController {
	return &metadatapb.RemovedController{ControllerId: int32(c.ID), DirectoryId: c.DirectoryID.Bytes(), RemovedAtMs: c.RemovedAtMs}
}

// removeController notes the removal for good and drops what that directory had registered.
func (d *Delta) removeController(r *metadatapb.RemovedController) error {
	directory, err := UUIDFrom(r.DirectoryId)
	c := &RemovedController{ID: BrokerID(r.ControllerId), DirectoryID: directory, RemovedAtMs: r.RemovedAtMs}
	key := removedKey{c.ID, c.DirectoryID}
	switch {
	case err != nil:
	case c.ID < 0:
		err = errors.New("the id must not be below zero")
	case d.removedControllers.has(key):
		err = fmt.Errorf("directory %v was removed before", directory)
	}
	if err != nil {
		return fmt.Errorf("RemovedController %d: %w", r.ControllerId, err)
	}
	d.removedControllers.set(d.gen, key, c)
	d.sum += hashRemoved(c)
	if old, ok := d.controllers.get(c.ID); ok && old.DirectoryID == directory {
		d.sum -= hashController(old)
		d.controllers.delete(d.gen, c.ID)
	}
	return nil
}
