package raftnode

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"
)

// directoryIDChars is the length of a directory id: a UUID in Kafka's base64url form without padding.
const directoryIDChars = 22

// ServerID names a member of the Raft configuration: a node together with the directory that holds its log and votes.
// The directory id is minted by `quorate format`. A node that lost its disk gets another one and is another member: under
// the old id it could vote twice in a term and forget what it acknowledged.
type ServerID struct {
	// NodeID is `node.id`, at least 0.
	NodeID int32
	// DirectoryID is a UUID in Kafka's 22 characters.
	DirectoryID string
}

// String is "<node id>:<directory id>", the form that the Raft configuration holds.
func (id ServerID) String() string { return strconv.Itoa(int(id.NodeID)) + ":" + id.DirectoryID }

// IsZero tells the absent id.
func (id ServerID) IsZero() bool { return id == ServerID{} }

// Raft is the id as the library takes it.
func (id ServerID) Raft() raft.ServerID { return raft.ServerID(id.String()) }

// ParseServerID reads the form of String.
func ParseServerID(s string) (ServerID, error) {
	node, directory, found := strings.Cut(s, ":")
	if !found {
		return ServerID{}, fmt.Errorf("raftnode: server id %q: want NODE:DIRECTORYID", s)
	}
	n, err := strconv.ParseInt(node, 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != node {
		return ServerID{}, fmt.Errorf("raftnode: server id %q: node id must be a number from 0 to 2147483647", s)
	}
	id := ServerID{NodeID: int32(n), DirectoryID: directory}
	return id, id.validate()
}

func (id ServerID) validate() error {
	if id.NodeID < 0 {
		return fmt.Errorf("raftnode: node id %d: must be at least 0", id.NodeID)
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(id.DirectoryID)
	if err != nil || len(id.DirectoryID) != directoryIDChars || len(raw) != 16 {
		return fmt.Errorf("raftnode: directory id %q: want a UUID in %d characters, as `quorate random-uuid` prints", id.DirectoryID, directoryIDChars)
	}
	return nil
}

// Server is a member of the Raft configuration.
type Server struct {
	ID ServerID
	// Address is the RAFT address host:port that the other members dial.
	Address string
	// Voter tells a voter from a non-voter.
	Voter bool
}

// Configuration is the membership of the quorum.
type Configuration struct {
	// Index is the Raft index of the entry that holds it. A change that names it is a compare-and-set.
	Index uint64
	// Servers in the order of the entry.
	Servers []Server
}

// Has tells whether the very server is a member.
func (c Configuration) Has(id ServerID) bool {
	_, ok := c.Find(id)
	return ok
}

// Find returns the very server.
func (c Configuration) Find(id ServerID) (Server, bool) {
	for _, s := range c.Servers {
		if s.ID == id {
			return s, true
		}
	}
	return Server{}, false
}

func configurationFrom(c raft.Configuration, index uint64) (Configuration, error) {
	out := Configuration{Index: index, Servers: make([]Server, 0, len(c.Servers))}
	for _, s := range c.Servers {
		id, err := ParseServerID(string(s.ID))
		if err != nil {
			return Configuration{}, err
		}
		out.Servers = append(out.Servers, Server{ID: id, Address: string(s.Address), Voter: s.Suffrage == raft.Voter})
	}
	return out, nil
}
