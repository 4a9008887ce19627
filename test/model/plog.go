package model

import (
	"slices"
	"strconv"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
)

// entry is one record of a partition's log: the leader epoch that it was appended in, and what the producer sent.
type entry struct {
	epoch image.LeaderEpoch
	value int8
}

// plog is a partition's log as package broker/log keeps it, without bytes. It is a value; its slices are never changed.
type plog struct {
	entries []entry
	epochs  []partition.EpochStart
	high    int64
	// synced is the end of what survives the machine.
	synced int64
}

func (l *plog) end() int64 { return int64(len(l.entries)) }

// append adds a record, and the epoch if it is new to the log.
func (l *plog) append(e entry) {
	if n := len(l.epochs); n == 0 || l.epochs[n-1].Epoch < e.epoch {
		l.assign(partition.EpochStart{Epoch: e.epoch, Offset: l.end()})
	}
	l.entries = append(slices.Clip(l.entries), e)
}

// assign enters an epoch into the cache, as broker/log does.
func (l *plog) assign(e partition.EpochStart) {
	if n := len(l.epochs); n > 0 && l.epochs[n-1].Epoch == e.Epoch && e.Offset >= l.epochs[n-1].Offset {
		return
	}
	kept := make([]partition.EpochStart, 0, len(l.epochs)+1)
	for _, old := range l.epochs {
		if old.Epoch < e.Epoch && old.Offset < e.Offset {
			kept = append(kept, old)
		}
	}
	l.epochs = append(kept, e)
}

// cut takes away the records from an offset on and the epochs that start there or later. It reaches the disk.
func (l *plog) cut(offset int64) {
	offset = min(offset, l.end())
	if offset < l.end() {
		l.entries = slices.Clip(l.entries[:offset])
		l.synced = offset
	}
	l.epochs = slices.DeleteFunc(slices.Clone(l.epochs), func(e partition.EpochStart) bool { return e.Offset >= offset })
	l.high = min(l.high, offset)
}

// reload is what a start finds after the log was cut to an offset by a crash: epochs without a record are gone.
func (l *plog) reload(offset int64) {
	synced := l.synced
	l.cut(offset)
	l.synced = min(synced, offset)
}

// latest is the newest epoch that the log knows, with records or without.
func (l *plog) latest() image.LeaderEpoch {
	if n := len(l.epochs); n > 0 {
		return l.epochs[n-1].Epoch
	}
	return partition.NoLeaderEpoch
}

// EndOffsetForEpoch implements [partition.Epochs].
func (l *plog) EndOffsetForEpoch(epoch image.LeaderEpoch) (partition.EpochEnd, bool) {
	n := len(l.epochs)
	if epoch < 0 || n == 0 {
		return partition.EpochEnd{}, false
	}
	if l.epochs[n-1].Epoch == epoch {
		return partition.EpochEnd{Epoch: epoch, EndOffset: l.end()}, true
	}
	switch higher := slices.IndexFunc(l.epochs, func(e partition.EpochStart) bool { return e.Epoch > epoch }); higher {
	case -1:
		return partition.EpochEnd{}, false
	case 0:
		return partition.EpochEnd{Epoch: epoch, EndOffset: l.epochs[0].Offset}, true
	default:
		return partition.EpochEnd{Epoch: l.epochs[higher-1].Epoch, EndOffset: l.epochs[higher].Offset}, true
	}
}

// holds tells whether the log begins with these records.
func (l *plog) holds(records []entry) bool {
	return len(l.entries) >= len(records) && slices.Equal(l.entries[:len(records)], records)
}

// common is how many records both begin with.
func common(a, b []entry) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func (l *plog) appendTo(b []byte) []byte {
	b = append(b, "log="...)
	b = appendEntries(b, l.entries)
	b = append(b, " epochs=["...)
	for i, e := range l.epochs {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, int64(e.Epoch), 10)
		b = append(b, '@')
		b = strconv.AppendInt(b, e.Offset, 10)
	}
	b = append(b, "] high="...)
	b = strconv.AppendInt(b, l.high, 10)
	b = append(b, " synced="...)
	return strconv.AppendInt(b, l.synced, 10)
}

// appendEntries writes records as value@epoch.
func appendEntries(b []byte, entries []entry) []byte {
	b = append(b, '[')
	for i, e := range entries {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(b, 'a'+byte(e.value))
		b = append(b, '@')
		b = strconv.AppendInt(b, int64(e.epoch), 10)
	}
	return append(b, ']')
}
