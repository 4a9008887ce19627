package raftnode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The handshake opens every Raft connection, inside TLS if that is on. The dialer says
//
//	"QRT2" | u8 purpose | i32 lineage | u8 length, cluster id | u8 length, sender's server id | u8 length, addressed server id
//
// and the listener answers
//
//	u8 verdict | i32 lineage | u8 length, its own server id
//
// and closes unless the verdict is 0 and the purpose is to speak Raft. Nothing but these bytes is read before the verdict, so
// memory is bounded by three short strings. The library's own messages follow. Numbers are big-endian. The dialer's lineage is
// that of its log, the listener's the newest that it has heard of; [NoLineage] is that of an empty log, and of a listener that
// belongs to another cluster.
const handshakeMagic = "QRT2"

// purpose is what a connection is for.
type purpose uint8

const (
	speakRaft purpose = iota // the library's messages follow
	askOnly                  // the verdict is all that is wanted
)

// verdict is the listener's answer, and the label under which a refusal is counted.
type verdict uint8

const (
	accepted       verdict = iota
	wrongCluster           // another cluster id
	wrongDirectory         // our node id, another directory id
	wrongNode              // another node's id
	ownID                  // the sender calls itself by our id
	malformed              // not a handshake
	tooSlow                // not complete before the deadline
	tooMany                // pushed out by newer connections
	removedSender          // the sender was removed from the quorum
	olderSender            // the sender's log is of an older lineage
	superseded             // the listener's own log is of an older lineage than one it has heard of, or it was removed
	verdicts               // how many there are
)

var verdictNames = [verdicts]string{
	"accepted", ReasonWrongCluster, "wrong_directory", "wrong_node", "own_id", "malformed", "too_slow", "too_many", "removed",
	"older_lineage", ReasonSuperseded,
}

func (v verdict) String() string {
	if v >= verdicts {
		return fmt.Sprintf("verdict %d", uint8(v))
	}
	return verdictNames[v]
}

// hello is what the dialer says.
type hello struct {
	purpose   purpose
	lineage   int32
	clusterID string
	from, to  string // server ids; the listener parses what it needs
}

// answer is what the listener says.
type answer struct {
	verdict  verdict
	lineage  int32
	listener string // its server id
}

var errMalformed = errors.New("raftnode: not a raft handshake")

func (h hello) encode() ([]byte, error) {
	out := append([]byte(handshakeMagic), byte(h.purpose))
	out = binary.BigEndian.AppendUint32(out, uint32(h.lineage))
	for _, s := range []string{h.clusterID, h.from, h.to} {
		if len(s) > 255 {
			return nil, fmt.Errorf("raftnode: handshake field of %d bytes, limit 255", len(s))
		}
		out = append(out, byte(len(s)))
		out = append(out, s...)
	}
	return out, nil
}

func readHello(r io.Reader) (h hello, err error) {
	var magic [len(handshakeMagic)]byte
	if _, err := io.ReadFull(r, magic[:]); err != nil {
		return h, err
	}
	if string(magic[:]) != handshakeMagic {
		return h, errMalformed
	}
	var fixed [5]byte
	if _, err := io.ReadFull(r, fixed[:]); err != nil {
		return h, err
	}
	h.purpose, h.lineage = purpose(fixed[0]), int32(binary.BigEndian.Uint32(fixed[1:]))
	if h.purpose > askOnly || h.lineage < NoLineage {
		return h, errMalformed
	}
	for _, field := range []*string{&h.clusterID, &h.from, &h.to} {
		if *field, err = readShort(r); err != nil {
			return h, err
		}
	}
	return h, nil
}

func (a answer) encode() []byte {
	out := binary.BigEndian.AppendUint32([]byte{byte(a.verdict)}, uint32(a.lineage))
	return append(append(out, byte(len(a.listener))), a.listener...)
}

func readAnswer(r io.Reader) (a answer, err error) {
	var fixed [5]byte
	if _, err := io.ReadFull(r, fixed[:]); err != nil {
		return a, err
	}
	a.verdict, a.lineage = verdict(fixed[0]), int32(binary.BigEndian.Uint32(fixed[1:]))
	a.listener, err = readShort(r)
	return a, err
}

func readShort(r io.Reader) (string, error) {
	var n [1]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return "", err
	}
	b := make([]byte, n[0])
	_, err := io.ReadFull(r, b)
	return string(b), err
}

// judge is the listener's decision on a well-formed hello.
func judge(h hello, clusterID string, own ServerID) verdict {
	from, err := ParseServerID(h.from)
	if err != nil {
		return malformed
	}
	to, err := ParseServerID(h.to)
	if err != nil {
		return malformed
	}
	switch {
	case h.clusterID != clusterID:
		return wrongCluster
	case to.NodeID != own.NodeID:
		return wrongNode
	case to != own:
		return wrongDirectory
	case from == own:
		return ownID
	}
	return accepted
}

// judgeLineage is the decision on a hello that is meant for this server. own is the lineage of its log, [NoLineage] for an empty
// one, which may become a member of any.
func judgeLineage(h hello, own int32) verdict {
	switch {
	case h.lineage == NoLineage || own == NoLineage || h.lineage == own:
		return accepted
	case h.lineage < own:
		return olderSender
	}
	return superseded
}
