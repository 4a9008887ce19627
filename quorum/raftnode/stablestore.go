package raftnode

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
)

// errKeyNotFound has exactly this text: raft compares it.
var errKeyNotFound = errors.New("not found")

var stableBucket = []byte("stable")

// The keys under which raft keeps its term and its vote.
var (
	keyCurrentTerm  = []byte("CurrentTerm")
	keyLastVoteTerm = []byte("LastVoteTerm")
	keyLastVoteCand = []byte("LastVoteCand")
)

// keyNothingHeld is our own: 1 as long as there were neither entries nor a snapshot yet, 0 from then on; absent in a file that an older
// release made, or a bootstrap. A newcomer hears a term before it gets the first of them.
var keyNothingHeld = []byte("NothingHeld")

// keyOwner is our own too: the server whose term and vote these are.
var keyOwner = []byte("Owner")

// stableFile keeps term and vote in a small bolt file of its own, so that a vote never queues behind writes of the log.
// A sum over them is in the same transaction (checksum.go).
type stableFile struct{ db *bbolt.DB }

func openStableFile(path string) (*stableFile, error) {
	db, err := openBolt(path, boltOptions())
	if err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		if _, err := tx.CreateBucketIfNotExists(stableBucket); err != nil {
			return err
		}
		if err := checkStable(tx); err != nil {
			return err
		}
		return sumStable(tx)
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &stableFile{db}, nil
}

func openBolt(path string, options *bbolt.Options) (db *bbolt.DB, err error) {
	err = unpanicked(func() error {
		db, err = bbolt.Open(path, storeFileMode, options)
		return err
	})
	return db, err
}

// get returns a copy of the value, or errKeyNotFound.
func (s *stableFile) get(key []byte) (value []byte, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		v := tx.Bucket(stableBucket).Get(key)
		if v == nil {
			return errKeyNotFound
		}
		value = append([]byte{}, v...)
		return nil
	})
	return value, err
}

// pair is a key with its value.
type pair struct{ key, value []byte }

// set writes pairs in one transaction.
func (s *stableFile) set(pairs ...pair) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		for _, p := range pairs {
			if err := tx.Bucket(stableBucket).Put(p.key, p.value); err != nil {
				return err
			}
		}
		return sumStable(tx)
	})
}

func (s *stableFile) close() error { return s.db.Close() }

func uint64Bytes(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

func uint64From(key, b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("raftnode: value of %s has %d bytes, want 8", key, len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}
