package raftnode

import (
	"bytes"
	"errors"
	"sync"
)

// errVoteWithoutTerm cannot happen with the library's order of writes.
var errVoteWithoutTerm = errors.New("raftnode: a vote was written without its term")

// voteStore implements raft.StableStore and writes term and candidate of a vote in one transaction.
//
// The library writes the vote's term first and its candidate second. After a crash in between, the node would grant the
// new term to the candidate of the old vote, as a repeat and without a look at its log (hashicorp/raft GH-661). So the
// term waits in memory until the candidate comes. Reads give what is on disk, always.
type voteStore struct {
	file  *stableFile
	guard *guard

	mu      sync.Mutex
	pending []byte // the vote's term that waits for its candidate
}

// Set implements raft.StableStore.
func (s *voteStore) Set(key, value []byte) error {
	if !bytes.Equal(key, keyLastVoteCand) {
		s.guard.env.At(PointTermWrite)
		return s.guard.write(CallStableSet, func() error { return s.file.set(pair{key, value}) })
	}
	s.mu.Lock()
	term := s.pending
	s.pending = nil
	s.mu.Unlock()
	if term == nil {
		return errVoteWithoutTerm
	}
	s.guard.env.At(PointVoteWrite)
	err := s.guard.write(CallStableVote, func() error {
		return s.file.set(pair{keyLastVoteTerm, term}, pair{keyLastVoteCand, value})
	})
	s.guard.env.At(PointVoteWritten)
	return err
}

// SetUint64 implements raft.StableStore.
func (s *voteStore) SetUint64(key []byte, value uint64) error {
	if !bytes.Equal(key, keyLastVoteTerm) {
		return s.Set(key, uint64Bytes(value))
	}
	s.mu.Lock()
	s.pending = uint64Bytes(value)
	s.mu.Unlock()
	return nil
}

// Get implements raft.StableStore. A missing key gives an error whose text is "not found".
func (s *voteStore) Get(key []byte) (value []byte, err error) {
	err = s.guard.read(CallStableGet, func() error { value, err = s.file.get(key); return err })
	return value, err
}

// GetUint64 implements raft.StableStore.
func (s *voteStore) GetUint64(key []byte) (uint64, error) {
	value, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	return uint64From(key, value)
}
