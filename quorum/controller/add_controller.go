package controller

import (
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// membersMax bounds the members of the quorum, non-voters included: every one of them is asked by every client that
// looks for the active controller.
const membersMax = 15

// AddController decides whom the quorum takes in (KIP-853). Who is a voter with that directory already stays one. The
// member catches up as a non-voter first; that is carried out by the node, as are the questions whether
// the address answers and is the controller's. Nothing is written into the metadata log.
//
//	INVALID_REQUEST           id, directory or address are malformed, or only one of the latter is named
//	BROKER_ID_NOT_REGISTERED  directory and address are not named, and the node has not registered
//	INVALID_VOTER_KEY         the node was removed from the quorum with this directory
//	DUPLICATE_VOTER           the node is a member with another directory, or another member has the address
//	POLICY_VIOLATION          the quorum has 15 members
//	BROKER_ID_NOT_REGISTERED  the node has not registered with that directory, so its feature levels are not known
func AddController(v View, q Quorum, req *controllerpb.AddControllerRequest) (Decision[QuorumMember], error) {
	var d Decision[QuorumMember]
	m, err := newcomer(v, req)
	if err != nil {
		return d, err
	}
	if v.Image.IsRemovedController(m.ID, m.DirectoryID) {
		return d, removedForGood(m.ID, m.DirectoryID)
	}
	if known, ok := q.Find(m.ID); ok {
		if known.DirectoryID != m.DirectoryID {
			return d, controllerpb.Refuse(codeDuplicateVoter, "controller %v is a member with directory %v: remove it first with `quorate quorum remove %v`, then add it with directory %v",
				m.ID, known.DirectoryID, m.ID, m.DirectoryID)
		}
		if known.Voter && known.Address == m.Address {
			d.Response = known
			return d, nil
		}
	} else if len(q.Members) >= membersMax {
		return d, controllerpb.Refuse(codePolicyViolation, "the quorum has %d members, the most it may have: remove one first", len(q.Members))
	}
	for _, other := range q.Members {
		if other.ID != m.ID && other.Address == m.Address {
			return d, controllerpb.Refuse(codeDuplicateVoter, "raft address %s belongs to controller %v: two members cannot share one; correct the address, or remove that member",
				m.Address, other.ID)
		}
	}
	if known, ok := q.Find(m.ID); !ok || !known.Voter {
		if err := CheckLevelsKnown(v.Image, m); err != nil {
			return d, err
		}
	}
	d.Response = m
	d.because("controller "+m.ID.String(), "joins the quorum at %s with directory %v", m.Address, m.DirectoryID)
	return d, nil
}

// CheckLevelsKnown refuses a newcomer of which it is not known whether it supports the finalized feature levels: a voter that
// cannot read the log would stop in the middle of it (KIP-853 asks the newcomer itself). A registration is refused if they
// are not supported, and no level is finalized that a registered controller does not support.
func CheckLevelsKnown(im *image.Image, m QuorumMember) error {
	known, ok := im.Controller(m.ID)
	if ok && known.DirectoryID == m.DirectoryID {
		return nil
	}
	has := "has not registered"
	if ok {
		has = "has registered directory " + known.DirectoryID.String() + " and not " + m.DirectoryID.String()
	}
	return controllerpb.Refuse(codeBrokerIDNotRegistered, "controller %v %s, so it is not known which feature levels it supports: nothing was changed; "+
		"start it with directory %v, with controller.quorum.bootstrap.servers naming this quorum, and it registers; its log says why if it cannot", m.ID, has, m.DirectoryID)
}

// newcomer is the member that a request names, by itself or as the controller registered.
func newcomer(v View, req *controllerpb.AddControllerRequest) (QuorumMember, error) {
	id, directory, err := readMemberIDs(req.GetControllerId(), req.GetDirectoryId())
	if err != nil {
		return QuorumMember{}, err
	}
	address := req.GetRaftAddress()
	if (address == "") != directory.IsZero() {
		return QuorumMember{}, controllerpb.Refuse(codeInvalidRequest, "directory id and raft address are named together or not at all")
	}
	if address != "" {
		return QuorumMember{ID: id, DirectoryID: directory, Address: address}, checkRaftAddress(address)
	}
	known, ok := v.Image.Controller(id)
	if !ok {
		return QuorumMember{}, controllerpb.Refuse(codeBrokerIDNotRegistered, "controller %v has not registered%s: start it, formatted with --no-initial-controllers, "+
			"with controller.quorum.bootstrap.servers naming this quorum; its log says why if it cannot register", id, otherwiseKnown(v.Image, id))
	}
	listener, ok := known.Listener("RAFT")
	if !ok {
		return QuorumMember{}, controllerpb.Refuse(codeInvalidRequest, "controller %v registered no RAFT listener: name it %v@host:port:%v", id, id, known.DirectoryID)
	}
	return QuorumMember{ID: id, DirectoryID: known.DirectoryID, Address: hostPort(listener)}, nil
}

// otherwiseKnown says what else is known of a node that has not registered as a controller.
func otherwiseKnown(im *image.Image, id image.BrokerID) string {
	for removed := range im.RemovedControllers() {
		if removed.ID == id {
			return " since it was removed from the quorum; the directory that it had stays out"
		}
	}
	if _, ok := im.Broker(id); ok {
		return ", only a broker with that id"
	}
	return ""
}

// IsNewcomer tells whether a member that AddController answered with is yet to become a voter there.
func (q Quorum) IsNewcomer(m QuorumMember) bool {
	known, ok := q.Find(m.ID)
	return !ok || !known.Voter || known.DirectoryID != m.DirectoryID || known.Address != m.Address
}
