package log

import (
	"fmt"

	"github.com/quorate/quorate/fsm/image"
)

// AppendAsFollower appends whole batches as the leader sent them, after a test of their checksums. The first must begin
// at the log end ([ErrUnexpectedOffset]) and each next one where the last ended; leader epochs must not fall. Epochs
// that are new to the log are on disk before their records.
//
// Batches of an epoch above leaderEpoch, the one that was fetched under, are left out (KAFKA-18723): they belong to an
// answer that was overtaken. An empty log whose log start lies inside the first batch begins anew at that batch.
//
// Refusals: CORRUPT_MESSAGE, INVALID_RECORD; nothing was appended then.
func (l *Log) AppendAsFollower(records []byte, leaderEpoch image.LeaderEpoch) (Appended, error) {
	records, first, err := checkReplicated(records, leaderEpoch)
	if err != nil {
		return Appended{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return Appended{}, err
	}
	start, _, end := l.Offsets()
	if len(records) == 0 {
		return Appended{end, end - 1, NoTimestamp, start, false}, nil
	}
	if newest, ok := l.epochs.latest(); ok && first.LeaderEpoch() < int32(newest.Epoch) {
		return Appended{}, refuse(ErrInvalidRecord, "record batch at offset %d has leader epoch %d; the log has seen %d",
			first.BaseOffset(), first.LeaderEpoch(), newest.Epoch)
	}
	if first.BaseOffset() != end {
		inside := start == end && first.BaseOffset() < end && end < first.NextOffset()
		if !inside {
			return Appended{}, fmt.Errorf("%w: records begin at %d, the log ends at %d", ErrUnexpectedOffset, first.BaseOffset(), end)
		}
		if err := l.check(l.restartAt(first.BaseOffset())); err != nil {
			return Appended{}, err
		}
	}
	err = l.check(l.write(records, l.config.Load(), l.env.Now()))
	start, _, end = l.Offsets()
	return Appended{first.BaseOffset(), end - 1, NoTimestamp, start, false}, err
}

// checkReplicated tests batches without the log, and cuts them before the first of an epoch above leaderEpoch.
func checkReplicated(records []byte, leaderEpoch image.LeaderEpoch) (kept []byte, first Batch, err error) {
	var last Batch
	n := 0
	for b, err := range Batches(records) {
		if err != nil {
			return nil, nil, err
		}
		if err := b.Check(); err != nil {
			return nil, nil, err
		}
		if b.LeaderEpoch() < 0 {
			return nil, nil, refuse(ErrInvalidRecord, "record batch at offset %d has leader epoch %d", b.BaseOffset(), b.LeaderEpoch())
		}
		if b.LeaderEpoch() > int32(leaderEpoch) {
			break
		}
		if last != nil && b.BaseOffset() != last.NextOffset() {
			return nil, nil, refuse(ErrInvalidRecord, "record batch at offset %d follows one that ends at %d", b.BaseOffset(), last.LastOffset())
		}
		if last != nil && b.LeaderEpoch() < last.LeaderEpoch() {
			return nil, nil, refuse(ErrInvalidRecord, "record batch at offset %d has leader epoch %d after %d", b.BaseOffset(), b.LeaderEpoch(), last.LeaderEpoch())
		}
		if last == nil {
			first = b
		}
		last = b
		n += len(b)
	}
	return records[:n], first, nil
}
