package broker

import (
	"errors"
	"fmt"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/fsm/image"
)

// checkLineage refuses an image of another lineage than the one by which the logs have been judged. From then on nothing is deleted,
// and that the new lineage was met is kept, so that the next life takes no older one.
func (rs *replicas) checkLineage(im *image.Image, lineage image.LineageNumber) error {
	if im.Lineage().Number == lineage {
		return nil
	}
	rs.holding.Store(true)
	rs.logs.HoldRemovals(true)
	err := fmt.Errorf("%w (lineage %d, registered in lineage %d)", ErrNewLineage, im.Lineage().Number, lineage)
	return errors.Join(err, rs.kept.keep(im))
}

// hold stops all deletion as long as the metadata is of a lineage that no operator has confirmed: it may be older than what was
// acted on before, and what it does not know, or says is deleted, may be data that somebody needs.
func (rs *replicas) hold(im *image.Image) {
	hold := im.Lineage().IsUnconfirmed()
	rs.holding.Store(hold)
	rs.logs.HoldRemovals(hold)
}

// release does what was held back, when the lineage has just been confirmed.
func (rs *replicas) release(im *image.Image) {
	if _, err := rs.compare(im); err != nil {
		rs.log.Error("the disk could not be compared with the metadata", "error", err)
	}
}

// openHeld opens a log whose name another topic's directory bears, one that is held: that one is set aside. Nothing of it is
// removed.
func (rs *replicas) openHeld(r log.Replica, config log.LogConfig) (*log.Log, error) {
	list, err := rs.logs.Scan()
	if err != nil {
		return nil, err
	}
	for _, d := range list {
		if d.State == log.DirLive && d.Name == r.Name && !rs.isHosted(d) {
			rs.setAside([]log.Replica{{Name: d.Name, TopicID: d.TopicID}})
		}
	}
	return rs.logs.Open(r, config)
}
