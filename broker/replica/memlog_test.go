package replica_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/broker/replica"
	"github.com/quorate/quorate/fsm/image"
)

// memLog is a log in memory. A batch is one record: leader epoch, length, offset, padding.
type memLog struct {
	mu          sync.Mutex
	epochs      []partition.EpochStart
	records     [][]byte // from start on
	start, high int64
	// appendErrors are returned by the next appends, one each. entered and leave, if set, hold up every append.
	appendErrors   []error
	entered, leave chan struct{}
	appends        int
}

const batchHeader = 16

func batch(epoch image.LeaderEpoch, offset int64, padding int) []byte {
	b := make([]byte, batchHeader+padding)
	binary.BigEndian.PutUint32(b, uint32(epoch))
	binary.BigEndian.PutUint32(b[4:], uint32(len(b)))
	binary.BigEndian.PutUint64(b[8:], uint64(offset))
	return b
}

func (l *memLog) end() int64 { return l.start + int64(len(l.records)) }

func (l *memLog) Offsets() (start, high, end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.start, l.high, l.end()
}

func (l *memLog) LatestEpoch() (image.LeaderEpoch, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.epochs) == 0 {
		return 0, false
	}
	return l.epochs[len(l.epochs)-1].Epoch, true
}

func (l *memLog) EndOffsetForEpoch(e image.LeaderEpoch) (partition.EpochEnd, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.epochs)
	if n == 0 || e > l.epochs[n-1].Epoch {
		return partition.EpochEnd{}, false
	}
	if e == l.epochs[n-1].Epoch {
		return partition.EpochEnd{Epoch: e, EndOffset: l.end()}, true
	}
	i := slices.IndexFunc(l.epochs, func(x partition.EpochStart) bool { return x.Epoch > e })
	if i == 0 {
		return partition.EpochEnd{Epoch: e, EndOffset: l.epochs[0].Offset}, true
	}
	return partition.EpochEnd{Epoch: l.epochs[i-1].Epoch, EndOffset: l.epochs[i].Offset}, true
}

// lead begins a leader epoch at the log's end.
func (l *memLog) lead(e image.LeaderEpoch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epochs = append(l.epochs, partition.EpochStart{Epoch: e, Offset: l.end()})
}

// write appends records as the leader of an epoch.
func (l *memLog) write(e image.LeaderEpoch, n, padding int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range n {
		l.put(batch(e, l.end(), padding))
	}
}

func (l *memLog) put(b []byte) {
	e := image.LeaderEpoch(binary.BigEndian.Uint32(b))
	if n := len(l.epochs); n == 0 || l.epochs[n-1].Epoch < e {
		l.epochs = append(l.epochs, partition.EpochStart{Epoch: e, Offset: l.end()})
	}
	l.records = append(l.records, b)
}

func (l *memLog) TruncateTo(offset int64) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = l.records[:max(0, min(offset, l.end())-l.start)]
	l.epochs = slices.DeleteFunc(l.epochs, func(e partition.EpochStart) bool { return e.Offset >= offset })
	l.high = min(l.high, l.end())
	return l.end(), nil
}

func (l *memLog) RestartAt(offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epochs, l.records, l.start, l.high = nil, nil, offset, offset
	return nil
}

func (l *memLog) AppendAsFollower(records []byte, _ image.LeaderEpoch) error {
	if l.entered != nil {
		l.entered <- struct{}{}
		<-l.leave
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.appends++
	if len(l.appendErrors) > 0 {
		err := l.appendErrors[0]
		l.appendErrors = l.appendErrors[1:]
		if err != nil {
			return err
		}
	}
	for len(records) > 0 {
		n := binary.BigEndian.Uint32(records[4:])
		if offset := int64(binary.BigEndian.Uint64(records[8:])); offset != l.end() {
			return fmt.Errorf("records begin at %d, the log ends at %d", offset, l.end())
		}
		l.put(records[:n])
		records = records[n:]
	}
	return nil
}

func (l *memLog) FollowHighWatermark(leader int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.high = partition.FollowerHighWatermark(leader, l.start, l.end())
}

func (l *memLog) AdvanceLogStart(offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if offset > l.high {
		return errors.New("log start above the watermark")
	}
	l.records = l.records[offset-l.start:]
	l.start = offset
	for len(l.epochs) > 1 && l.epochs[1].Offset <= offset {
		l.epochs = l.epochs[1:]
	}
	if len(l.epochs) > 0 {
		l.epochs[0].Offset = max(l.epochs[0].Offset, offset)
	}
	return nil
}

// read returns whole batches from an offset on.
func (l *memLog) read(offset int64, bytesMax int, oneBatch bool) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []byte
	for _, b := range l.records[offset-l.start:] {
		if len(out)+len(b) > bytesMax && (len(out) > 0 || !oneBatch) {
			break
		}
		out = append(out, b...)
	}
	return out
}

// String lists the records by leader epoch: 1:0-4 2:5-9, then the watermark.
func (l *memLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for i := 0; i < len(l.records); {
		e := binary.BigEndian.Uint32(l.records[i])
		j := i
		for j < len(l.records) && binary.BigEndian.Uint32(l.records[j]) == e {
			j++
		}
		fmt.Fprintf(&b, "%d:%d-%d ", e, l.start+int64(i), l.start+int64(j)-1)
		i = j
	}
	fmt.Fprintf(&b, "hw=%d", l.high)
	return b.String()
}

var _ replica.Replica = (*memLog)(nil)
