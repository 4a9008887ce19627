package controller

import (
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// TransferLeadership decides whom the active controller hands over to: the voter that is named, else the one whose log
// reaches furthest. If the named one is active already, the answer is that one. Nothing is written.
//
//	INVALID_REQUEST                 the id is malformed
//	VOTER_NOT_FOUND                 the node named is no voter
//	ELIGIBLE_LEADERS_NOT_AVAILABLE  it does not answer or has not caught up, or no other voter does
func TransferLeadership(_ View, q Quorum, req *controllerpb.TransferLeadershipRequest) (Decision[QuorumMember], error) {
	var d Decision[QuorumMember]
	if req.ControllerId == nil {
		m, ok := q.successor()
		if !ok {
			return d, controllerpb.Refuse(codeEligibleLeadersNotAvailable, "no other voter answers and has caught up; `quorate quorum status` shows how far each is")
		}
		d.Response = m
		return d, nil
	}
	id, _, err := readMemberIDs(req.GetControllerId(), nil)
	if err != nil {
		return d, err
	}
	m, ok := q.Find(id)
	switch {
	case !ok:
		return d, controllerpb.Refuse(codeVoterNotFound, "controller %v is no member of the quorum; `quorate quorum status` names the members", id)
	case !m.Voter:
		return d, controllerpb.Refuse(codeVoterNotFound, "controller %v has no vote; `quorate quorum add %v` gives it one", id, id)
	case !m.CaughtUp && id != q.Active:
		return d, controllerpb.Refuse(codeEligibleLeadersNotAvailable, "controller %v does not answer or has not caught up; wait for it, or name another one", id)
	}
	d.Response = m
	return d, nil
}
