package client

import (
	"cmp"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// rank orders claims to the active role: by the lineage of the log, then by the controller epoch. Epochs of a lineage that an
// offline recovery has left say nothing, however high they are.
type rank struct {
	lineage int32
	epoch   uint64
}

func rankOf(a *controllerpb.ActiveController) rank {
	return rank{a.GetLineage(), a.GetControllerEpoch()}
}

func (c Controller) rank() rank { return rank{c.Lineage, c.ControllerEpoch} }

func (r rank) above(o rank) bool {
	return cmp.Or(cmp.Compare(r.lineage, o.lineage), cmp.Compare(r.epoch, o.epoch)) > 0
}

func (r rank) orHigher(o rank) rank {
	if o.above(r) {
		return o
	}
	return r
}
