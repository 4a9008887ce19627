package controller

import (
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// addressBytesMax bounds a RAFT address: it stands in every message of Raft, with its server's id.
const addressBytesMax = 300

// Quorum is the Raft configuration as a decision about it sees it.
type Quorum struct {
	// Active is the controller that decides.
	Active  image.BrokerID
	Members []QuorumMember
}

// QuorumMember is a server of the Raft configuration.
type QuorumMember struct {
	ID          image.BrokerID
	DirectoryID image.UUID
	// Address is the RAFT address host:port.
	Address string
	Voter   bool
	// CaughtUp: it answers, and its log reaches what was committed when the request came.
	CaughtUp bool
	// Match is the Raft index up to which its log is known to equal the active controller's.
	Match uint64
}

// Find returns the member of that node id.
func (q Quorum) Find(id image.BrokerID) (QuorumMember, bool) {
	i := slices.IndexFunc(q.Members, func(m QuorumMember) bool { return m.ID == id })
	if i < 0 {
		return QuorumMember{}, false
	}
	return q.Members[i], true
}

// without counts the voters other than one, those of them that have caught up, and how many of them are a majority.
func (q Quorum) without(id image.BrokerID) (voters, caughtUp, majority int) {
	for _, m := range q.Members {
		if !m.Voter || m.ID == id {
			continue
		}
		voters++
		if m.CaughtUp {
			caughtUp++
		}
	}
	return voters, caughtUp, voters/2 + 1
}

// successor is the voter that an active controller hands over to: the one whose log reaches furthest, then the lowest id.
func (q Quorum) successor() (QuorumMember, bool) {
	var best QuorumMember
	found := false
	for _, m := range q.Members {
		if !m.Voter || !m.CaughtUp || m.ID == q.Active {
			continue
		}
		if !found || m.Match > best.Match || m.Match == best.Match && m.ID < best.ID {
			best, found = m, true
		}
	}
	return best, found
}

// readMemberIDs reads the node id and, if one is named, the directory id of a request about the quorum.
func readMemberIDs(node int32, directory []byte) (image.BrokerID, image.UUID, error) {
	if node < 0 {
		return 0, image.UUID{}, controllerpb.Refuse(codeInvalidRequest, "controller id is %d, must be 0 or more", node)
	}
	if len(directory) == 0 {
		return image.BrokerID(node), image.UUID{}, nil
	}
	id, err := image.UUIDFrom(directory)
	if err != nil || id.IsZero() {
		return 0, image.UUID{}, controllerpb.Refuse(codeInvalidRequest, "directory id must be 16 bytes, not all zero")
	}
	return image.BrokerID(node), id, nil
}

// hostPort joins a listener's host and port.
func hostPort(l image.Listener) string {
	host := l.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(l.Port))
}

// checkRaftAddress refuses what no member could dial.
func checkRaftAddress(address string) error {
	at := strings.LastIndex(address, ":")
	if at > 0 && len(address) <= addressBytesMax {
		host := address[:at]
		bracketed := strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") && len(host) > 2
		port, err := strconv.ParseUint(address[at+1:], 10, 16)
		if err == nil && port > 0 && bracketed == strings.Contains(host, ":") && !strings.ContainsAny(host, "/ ") {
			return nil
		}
	}
	return controllerpb.Refuse(codeInvalidRequest, "raft address is %q: it needs host:port with a port from 1 to 65535", address)
}
