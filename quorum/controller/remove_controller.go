package controller

import (
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// Removal is what RemoveController decided.
type Removal struct {
	Member QuorumMember
	// WasRemoved: the removal was recorded before. Whether it is carried out yet, the configuration tells.
	WasRemoved bool
	// HandOver: the member is the active controller, which hands over to Successor first; the successor decides again.
	HandOver  bool
	Successor QuorumMember
	// Records are those that would be written, of a request that only validates.
	Records []*metadatapb.Record
}

// RemoveController takes a controller out of the quorum, for good: a node with one of its directories (KIP-853). It is
// recorded first; who is active then sees to it that the Raft configuration follows, also if this controller dies before.
// Asked again, nothing is written, and what is left to carry out is checked again.
//
//	INVALID_REQUEST                 id or directory are malformed
//	VOTER_NOT_FOUND                 the node is no member
//	INVALID_VOTER_KEY               it is one with another directory
//	INVALID_REQUEST                 it is the last voter
//	ELIGIBLE_LEADERS_NOT_AVAILABLE  it is the active controller, and no other voter has caught up to take over
//	POLICY_VIOLATION                without force: fewer than a majority of the voters that are left have caught up
func RemoveController(v View, q Quorum, req *controllerpb.RemoveControllerRequest) (Decision[Removal], error) {
	var d Decision[Removal]
	id, directory, err := readMemberIDs(req.GetControllerId(), req.GetDirectoryId())
	if err != nil {
		return d, err
	}
	m, isMember := q.Find(id)
	target := directory
	if target.IsZero() && isMember {
		target = m.DirectoryID
	} else if target.IsZero() {
		target = lastRemoved(v.Image, id)
	}
	d.Response.WasRemoved = v.Image.IsRemovedController(id, target)
	switch {
	case d.Response.WasRemoved && (!isMember || m.DirectoryID != target):
		d.Response.Member = QuorumMember{ID: id, DirectoryID: target}
		return d, nil
	case !isMember:
		return d, controllerpb.Refuse(codeVoterNotFound, "controller %v is no member of the quorum; `quorate quorum status` names the members", id)
	case m.DirectoryID != target:
		return d, controllerpb.Refuse(codeInvalidVoterKey, "controller %v is a member with directory %v, not %v; `quorate quorum status` names both", id, m.DirectoryID, directory)
	}
	if err := q.CheckRemoval(m, req.GetForce()); err != nil {
		return Decision[Removal]{}, err
	}
	d.Response.Member = m
	if id == q.Active {
		successor, ok := q.successor()
		if !ok {
			return Decision[Removal]{}, controllerpb.Refuse(codeEligibleLeadersNotAvailable,
				"controller %v is the active one, and no other voter has caught up to take over: bring another one up first", id)
		}
		d.Response.HandOver, d.Response.Successor = true, successor
	}
	if d.Response.WasRemoved {
		return d, nil
	}
	records := []*metadatapb.Record{{Kind: &metadatapb.Record_RemovedController{RemovedController: &metadatapb.RemovedController{
		ControllerId: int32(id), DirectoryId: m.DirectoryID.Bytes(), RemovedAtMs: v.nowMs(),
	}}}}
	switch {
	case req.GetValidateOnly():
		d.Response.Records = records
	case !d.Response.HandOver:
		d.Records = records
		d.because("controller "+id.String(), "leaves the quorum with directory %v", m.DirectoryID)
	}
	return d, nil
}

// lastRemoved is the directory with which a node was removed last; zero if it never was.
func lastRemoved(im *image.Image, id image.BrokerID) image.UUID {
	var last image.RemovedController
	for c := range im.RemovedControllers() {
		if c.ID == id && c.RemovedAtMs >= last.RemovedAtMs {
			last = c
		}
	}
	return last.DirectoryID
}

// CheckRemoval refuses to leave a quorum that cannot work. What was recorded is carried out only when it agrees: who is
// caught up may be others by then.
func (q Quorum) CheckRemoval(m QuorumMember, force bool) error {
	if !m.Voter {
		return nil
	}
	voters, caughtUp, majority := q.without(m.ID)
	if voters == 0 {
		return controllerpb.Refuse(codeInvalidRequest, "controller %v is the last voter: the cluster ends with it; add another one first", m.ID)
	}
	if caughtUp < majority && !force {
		return controllerpb.Refuse(codePolicyViolation, "of the voters left without controller %v (%d), %d must have caught up, and %d have: "+
			"nothing could be changed any more, and this removal would not end, until others are back; bring them up first, or use --force", m.ID, voters, majority, caughtUp)
	}
	return nil
}
