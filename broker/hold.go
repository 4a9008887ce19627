package broker

import (
	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/fsm/image"
)

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
