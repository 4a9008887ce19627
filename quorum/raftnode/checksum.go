package raftnode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// errChecksum says that the bytes that were read are not those that were written.
var errChecksum = errors.New("the checksum does not match")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// boltLog is the library's log in bolt, with a checksum of each entry: bolt checks its meta pages only, and an entry in which a bit
// has changed would be applied, and replicated to others, as if it had been decided so.
//
// The sum is kept in the entry's Extensions, which the disk alone sees: they are set anew by each write and taken out by each read. An
// entry without one is from a release that wrote none.
type boltLog struct{ *raftboltdb.BoltStore }

// GetLog implements raft.LogStore.
func (l boltLog) GetLog(index uint64, log *raft.Log) error {
	log.Extensions = nil
	if err := l.BoltStore.GetLog(index, log); err != nil {
		return err
	}
	sum := log.Extensions
	log.Extensions = nil
	if len(sum) == 0 && log.Index == index {
		return nil
	}
	if log.Index != index || string(sum) != string(entrySum(log)) {
		return fmt.Errorf("raftnode: log entry %d is damaged: %w", index, errChecksum)
	}
	return nil
}

// coveredLog is the log as the library reads it: a damaged entry that a snapshot covers counts as compacted. A follower that needs it gets
// the snapshot then; the library would send it nothing at all for as long as this node leads.
type coveredLog struct {
	raft.LogStore
	// covered is the index up to which a whole snapshot goes. It may be called from any goroutine.
	covered func() uint64
}

// IsMonotonic forwards what the inner store says of itself.
func (l coveredLog) IsMonotonic() bool { return isMonotonic(l.LogStore) }

// GetLog implements raft.LogStore.
func (l coveredLog) GetLog(index uint64, log *raft.Log) error {
	err := l.LogStore.GetLog(index, log)
	if err != nil && errors.Is(err, errChecksum) && index <= l.covered() {
		return raft.ErrLogNotFound // exactly: the library compares it
	}
	return err
}

// StoreLog implements raft.LogStore.
func (l boltLog) StoreLog(log *raft.Log) error { return l.StoreLogs([]*raft.Log{log}) }

// StoreLogs implements raft.LogStore. The entries given are not changed: the library sends them to followers.
func (l boltLog) StoreLogs(logs []*raft.Log) error {
	copies, summed := make([]raft.Log, len(logs)), make([]*raft.Log, len(logs))
	for i, log := range logs {
		copies[i] = raft.Log{Index: log.Index, Term: log.Term, Type: log.Type, Data: log.Data, AppendedAt: log.AppendedAt}
		copies[i].Extensions = entrySum(log)
		summed[i] = &copies[i]
	}
	return l.BoltStore.StoreLogs(summed)
}

// entrySum covers what is an entry's own; not AppendedAt, on which nothing rests.
func entrySum(log *raft.Log) []byte {
	var head [17]byte
	binary.BigEndian.PutUint64(head[:], log.Index)
	binary.BigEndian.PutUint64(head[8:], log.Term)
	head[16] = byte(log.Type)
	return binary.BigEndian.AppendUint32(nil, crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, log.Data))
}

// keyStableSum is the key of the checksum of term and vote, behind the number of the transaction that wrote it: a transaction of a
// release that writes no sum makes the sum old, not wrong.
var keyStableSum = []byte("Sum")

// checkStable compares term and vote with their sum. In a transaction that writes it is called before anything is written.
func checkStable(tx *bbolt.Tx) error {
	newest := tx.ID() // the transaction that wrote last
	if tx.Writable() {
		newest--
	}
	sum := tx.Bucket(stableBucket).Get(keyStableSum)
	if sum == nil || len(sum) == 12 && binary.BigEndian.Uint64(sum) != uint64(newest) {
		return nil
	}
	if len(sum) != 12 || binary.BigEndian.Uint32(sum[8:]) != stableSum(tx) {
		return fmt.Errorf("%w: term and vote: %w", errBoltDamaged, errChecksum)
	}
	return nil
}

// sumStable writes the sum of what the transaction leaves.
func sumStable(tx *bbolt.Tx) error {
	sum := binary.BigEndian.AppendUint64(nil, uint64(tx.ID()))
	return tx.Bucket(stableBucket).Put(keyStableSum, binary.BigEndian.AppendUint32(sum, stableSum(tx)))
}

func stableSum(tx *bbolt.Tx) uint32 {
	var all []byte
	for _, key := range [][]byte{keyCurrentTerm, keyLastVoteTerm, keyLastVoteCand} {
		value := tx.Bucket(stableBucket).Get(key)
		all = binary.BigEndian.AppendUint32(all, uint32(len(value)))
		all = append(all, value...)
	}
	return crc32.Checksum(all, castagnoli)
}
