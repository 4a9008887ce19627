package raftnode

import (
	"errors"
	"fmt"
	"io"
)

// The handshake opens every Raft connection, inside TLS if that is on. The dialer says
//
//	"QRT1" | u8 length, cluster id | u8 length, sender's server id | u8 length, addressed server id
//
// and the listener answers
//
//	u8 verdict | u8 length, its own server id
//
// and closes unless the verdict is 0. Nothing but these bytes is read before the verdict, so memory is bounded by three
// short strings. The library's own messages follow.
const handshakeMagic = "QRT1"

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
	verdicts               // how many there are
)

var verdictNames = [verdicts]string{
	"accepted", "wrong_cluster", "wrong_directory", "wrong_node", "own_id", "malformed", "too_slow", "too_many", "removed",
}

func (v verdict) String() string {
	if v >= verdicts {
		return fmt.Sprintf("verdict %d", uint8(v))
	}
	return verdictNames[v]
}

// hello is what the dialer says.
type hello struct {
	clusterID string
	from, to  string // server ids; the listener parses what it needs
}

var errMalformed = errors.New("raftnode: not a raft handshake")

func (h hello) encode() ([]byte, error) {
	out := []byte(handshakeMagic)
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
	for _, field := range []*string{&h.clusterID, &h.from, &h.to} {
		if *field, err = readShort(r); err != nil {
			return h, err
		}
	}
	return h, nil
}

func encodeAnswer(v verdict, own ServerID) []byte {
	id := own.String()
	return append([]byte{byte(v), byte(len(id))}, id...)
}

func readAnswer(r io.Reader) (v verdict, listener string, err error) {
	var b [1]byte
	if _, err = io.ReadFull(r, b[:]); err != nil {
		return 0, "", err
	}
	listener, err = readShort(r)
	return verdict(b[0]), listener, err
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
