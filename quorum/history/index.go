package history

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"path/filepath"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/env"
)

// An index lies beside a closed segment: where its runs are, and a Bloom filter of the topics, by id and by name, that
// its records are about. It is written when the segment has been synced, so a segment with an index is whole.
//
//	magic 8, size of the segment 8, number of runs 4, runs, bytes of the filter 4, filter, CRC-32C 4
//	run     start 8, end 8, marks before and after 16 each, entries 8, time of the last entry 8
const (
	indexMagic = "QUOHIDX\x01"
	runBytes   = 64

	// bloomBitsPerKey and bloomProbes give one false answer in a hundred.
	bloomBitsPerKey = 10
	bloomProbes     = 7
	// indexBytesMax bounds what is read of an index.
	indexBytesMax = 64 << 20
)

// key is what a topic is found by.
type key uint64

func idKey(topicID []byte) key { return hashKey('i', string(topicID)) }
func nameKey(name string) key  { return hashKey('n', name) }

// brokersKey is what records about registrations of brokers are found by.
var brokersKey = hashKey('b', "")

func hashKey(kind byte, text string) key {
	h := fnv.New64a()
	h.Write([]byte{kind})
	h.Write([]byte(text))
	return key(h.Sum64())
}

// keySet are the keys of a segment.
type keySet map[key]struct{}

// addEntry adds the topics that an entry is about. One that cannot be decoded adds nothing: no reader can use it either.
func (s keySet) addEntry(e *fsm.Entry) {
	raw, err := record.ScanEntry(e.Bytes)
	if err != nil {
		return
	}
	var decoder record.Decoder
	for i, b := range raw.Records() {
		r, err := decoder.DecodeAt(e.BaseOffset+image.MetadataOffset(i), b)
		if err != nil {
			return
		}
		s.addRecord(r)
	}
}

func (s keySet) addRecord(r *metadatapb.Record) {
	switch k := r.GetKind().(type) {
	case *metadatapb.Record_RegisterBroker, *metadatapb.Record_BrokerRegistrationChange, *metadatapb.Record_UnregisterBroker:
		s[brokersKey] = struct{}{}
	case *metadatapb.Record_Topic:
		s[idKey(k.Topic.GetTopicId())] = struct{}{}
		s[nameKey(k.Topic.GetName())] = struct{}{}
	case *metadatapb.Record_Partition:
		s[idKey(k.Partition.GetTopicId())] = struct{}{}
	case *metadatapb.Record_PartitionChange:
		s[idKey(k.PartitionChange.GetTopicId())] = struct{}{}
	case *metadatapb.Record_RemoveTopic:
		s[idKey(k.RemoveTopic.GetTopicId())] = struct{}{}
	case *metadatapb.Record_ReplicasDeleted:
		for _, id := range k.ReplicasDeleted.GetTopicIds() {
			s[idKey(id)] = struct{}{}
		}
	case *metadatapb.Record_ReplicaDeletionFailed:
		s[idKey(k.ReplicaDeletionFailed.GetTopicId())] = struct{}{}
	}
}

// bloom is a Bloom filter.
type bloom []byte

func (s keySet) bloom() bloom {
	b := make(bloom, (max(1, len(s))*bloomBitsPerKey+7)/8)
	for k := range s {
		for i := range bloomProbes {
			bit := b.bit(k, i)
			b[bit/8] |= 1 << (bit % 8)
		}
	}
	return b
}

func (b bloom) bit(k key, i int) uint64 {
	// Two halves of one hash make all probes (Kirsch and Mitzenmacher).
	low, high := uint64(uint32(k)), uint64(k>>32)|1
	return (low + uint64(i)*high) % (uint64(len(b)) * 8)
}

func (b bloom) mayHold(k key) bool {
	if len(b) == 0 {
		return true
	}
	for i := range bloomProbes {
		if bit := b.bit(k, i); b[bit/8]&(1<<(bit%8)) == 0 {
			return false
		}
	}
	return true
}

func encodeIndex(s *segment, filter bloom) []byte {
	b := append(make([]byte, 0, 32+len(s.runs)*runBytes+len(filter)), indexMagic...)
	le := binary.LittleEndian
	b = le.AppendUint64(b, uint64(s.size))
	b = le.AppendUint32(b, uint32(len(s.runs)))
	for _, r := range s.runs {
		for _, v := range [...]uint64{
			uint64(r.start), uint64(r.end), uint64(r.before.Offset), uint64(r.before.Chain), uint64(r.after.Offset), uint64(r.after.Chain),
			uint64(r.entries), uint64(r.lastTimeMs),
		} {
			b = le.AppendUint64(b, v)
		}
	}
	b = le.AppendUint32(b, uint32(len(filter)))
	b = append(b, filter...)
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeIndex(b []byte) (size int64, runs []run, filter bloom, err error) {
	le := binary.LittleEndian
	if len(b) < 28 || string(b[:8]) != indexMagic || le.Uint32(b[len(b)-4:]) != crc32.Checksum(b[:len(b)-4], castagnoli) {
		return 0, nil, nil, fmt.Errorf("%w: an index", errDamaged)
	}
	size = int64(le.Uint64(b[8:]))
	n, at := int(le.Uint32(b[16:])), 20
	if len(b) < at+n*runBytes+8 {
		return 0, nil, nil, fmt.Errorf("%w: an index", errDamaged)
	}
	for range n {
		var v [runBytes / 8]uint64
		for i := range v {
			v[i] = le.Uint64(b[at:])
			at += 8
		}
		runs = append(runs, run{
			start: int64(v[0]), end: int64(v[1]),
			before:  Mark{image.MetadataOffset(v[2]), image.Chain(v[3])},
			after:   Mark{image.MetadataOffset(v[4]), image.Chain(v[5])},
			entries: int64(v[6]), lastTimeMs: int64(v[7]),
		})
	}
	return size, runs, bloom(b[at+4 : len(b)-4]), nil
}

// readIndex reads the index of a segment.
func readIndex(fs env.FS, dir, name string) (size int64, runs []run, filter bloom, err error) {
	path := filepath.Join(dir, name+indexSuffix)
	if info, err := fs.Stat(path); err != nil {
		return 0, nil, nil, err
	} else if info.Size() > indexBytesMax {
		return 0, nil, nil, fmt.Errorf("%w: an index of %d bytes", errDamaged, info.Size())
	}
	b, err := env.ReadFile(fs, path)
	if err != nil {
		return 0, nil, nil, err
	}
	return decodeIndex(b)
}
