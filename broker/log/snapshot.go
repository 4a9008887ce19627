package log

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/quorate/quorate/quorum/env"
)

// A producer snapshot is Kafka's (ProducerStateManager.PID_SNAPSHOT_MAP_SCHEMA), big endian: version (int16), CRC-32C
// of what follows (uint32), number of entries (int32), and for each: producer id (int64), epoch (int16), last
// sequence (int32), last offset (int64), offset delta (int32), timestamp (int64), coordinator epoch (int32), first
// offset of the open transaction (int64, -1). The timestamp is the broker's clock, not the record's, so that records
// with old timestamps do not make their producer old. Entries are in the order of producer ids. Kafka writes the last
// batch of each producer; here each batch that is remembered has an entry, oldest first, of which Kafka's reader keeps the last: a
// producer whose unanswered batches are in the log sends all of them again after a restart, and each must be known.
const (
	snapshotVersion     = 1
	snapshotHeaderBytes = 2 + 4 + 4
	snapshotEntryBytes  = 8 + 2 + 4 + 8 + 4 + 8 + 4 + 8
	atSnapshotCRC       = 2
	atSnapshotCount     = 6

	noSequence    int32 = -1
	noOffset      int64 = -1
	noCoordinator int32 = -1
)

var errSnapshot = errors.New("log: not a producer snapshot")

func (p *producers) marshal() []byte {
	ids := slices.Sorted(maps.Keys(p.byID))
	b := make([]byte, snapshotHeaderBytes, snapshotHeaderBytes+len(ids)*snapshotEntryBytes)
	binary.BigEndian.PutUint16(b, snapshotVersion)
	for _, id := range ids {
		e := p.byID[id]
		if e.count == 0 {
			b = e.appendSnapshot(b, id, producerBatch{lastSequence: noSequence, lastOffset: noOffset})
		}
		for _, batch := range e.remembered() {
			b = e.appendSnapshot(b, id, batch)
		}
	}
	binary.BigEndian.PutUint32(b[atSnapshotCount:], uint32((len(b)-snapshotHeaderBytes)/snapshotEntryBytes))
	binary.BigEndian.PutUint32(b[atSnapshotCRC:], crc32.Checksum(b[atSnapshotCount:], castagnoli))
	return b
}

func (e *producerEntry) appendSnapshot(b []byte, id int64, batch producerBatch) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(id))
	b = binary.BigEndian.AppendUint16(b, uint16(e.epoch))
	b = binary.BigEndian.AppendUint32(b, uint32(batch.lastSequence))
	b = binary.BigEndian.AppendUint64(b, uint64(batch.lastOffset))
	b = binary.BigEndian.AppendUint32(b, uint32(batch.offsetDelta))
	b = binary.BigEndian.AppendUint64(b, uint64(e.lastMs))
	coordinator, transaction := noCoordinator, noOffset
	b = binary.BigEndian.AppendUint32(b, uint32(coordinator))
	return binary.BigEndian.AppendUint64(b, uint64(transaction))
}

// unmarshal replaces the state by a snapshot's.
func (p *producers) unmarshal(b []byte) error {
	if len(b) < snapshotHeaderBytes || binary.BigEndian.Uint16(b) != snapshotVersion ||
		binary.BigEndian.Uint32(b[atSnapshotCRC:]) != crc32.Checksum(b[atSnapshotCount:], castagnoli) {
		return errSnapshot
	}
	n := int(int32(binary.BigEndian.Uint32(b[atSnapshotCount:])))
	b = b[snapshotHeaderBytes:]
	if n < 0 || len(b) != n*snapshotEntryBytes {
		return errSnapshot
	}
	p.byID = nil
	for ; n > 0; n-- {
		e := p.entry(int64(binary.BigEndian.Uint64(b)))
		e.epoch = int16(binary.BigEndian.Uint16(b[8:]))
		last := producerBatch{
			lastSequence: int32(binary.BigEndian.Uint32(b[10:])),
			lastOffset:   int64(binary.BigEndian.Uint64(b[14:])),
			offsetDelta:  int32(binary.BigEndian.Uint32(b[22:])),
		}
		if last.lastSequence != noSequence {
			e.add(last)
		}
		e.lastMs = int64(binary.BigEndian.Uint64(b[26:]))
		b = b[snapshotEntryBytes:]
	}
	return nil
}

// save writes a snapshot named by the offset up to which the state goes, unless there is one. It is not synced: a
// torn snapshot does not pass its checksum and the state is made from the log then.
func (p *producers) save(f env.FS, dir string) error {
	if p.snapshotEnd == p.end {
		return nil
	}
	path := segmentPath(dir, p.end, kindSnapshot)
	file, err := f.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return storage("create", path, err)
	}
	_, err = file.Write(p.marshal())
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return storage("write", path, err)
	}
	p.snapshotEnd = p.end
	return nil
}

// restore takes the state from the newest whole snapshot at or below an offset, among the offsets given in
// ascending order; without one it is empty, as at offset from. What is no snapshot is removed.
func (p *producers) restore(f env.FS, dir string, snapshots []int64, from, limit int64) error {
	p.byID, p.end, p.snapshotEnd = nil, from, -1
	for _, offset := range slices.Backward(snapshots) {
		if offset > limit || offset < from {
			continue
		}
		path := segmentPath(dir, offset, kindSnapshot)
		data, err := env.ReadFile(f, path)
		if err != nil {
			return storage("read", path, err)
		}
		if err := p.unmarshal(data); err != nil {
			if err := removeIfThere(f, path); err != nil {
				return err
			}
			continue
		}
		p.end, p.snapshotEnd = offset, offset
		return nil
	}
	return nil
}

// removeIfThere removes a file; one that is gone already is no failure.
func removeIfThere(f env.FS, path string) error {
	if err := f.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return storage("remove", path, err)
	}
	return nil
}
