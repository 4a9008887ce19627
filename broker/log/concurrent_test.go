package log_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/broker/log/logtest"
)

// Readers see whole batches in order beside a leader that appends, rolls, applies retention and flushes, with fewer
// handles than files.
func TestReadsBesideAppends(t *testing.T) {
	r := newRig(t)
	r.config.Log.SegmentBytesMax = 2000
	r.config.Log.RetentionBytesMax, r.config.Log.RetentionAgeMax = 8000, -1
	r.config.Log.IndexIntervalBytes = 200
	r.config.OpenFilesMax = 2
	r.start()
	l := r.open(foo0)
	const n = 2000
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() { readUpTo(t, l, n) })
	}
	readers.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if err := r.FlushRolled(); err != nil {
				t.Error(err)
			}
			if _, err := l.ApplyRetention(); err != nil {
				t.Error(err)
			}
			if err := r.WriteCheckpoints(); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range int64(n) {
		produce(t, l, 1, logtest.Batch{Timestamp: i, Values: logtest.Records(1, 30)})
		l.RaiseHighWatermark(i + 1)
	}
	close(done)
	readers.Wait()
	if l.Failure() != nil {
		t.Error(l.Failure())
	}
}

// readUpTo reads a log to an offset while it is written, and holds its bounds to be in order.
func readUpTo(t *testing.T, l *log.Log, to int64) {
	at := int64(0)
	for at < to {
		start, high, end := l.Offsets()
		if start > high || high > end {
			t.Errorf("log start %d, high watermark %d, log end %d", start, high, end)
			return
		}
		at = max(at, start) // retention may be faster
		p, err := l.Read(log.ReadRequest{Offset: at, UpperBound: high, BytesMax: 500, AtLeastOne: true})
		if errors.Is(err, log.ErrOffsetOutOfRange) {
			continue
		}
		if err != nil {
			t.Error(err)
			return
		}
		for b, err := range log.Batches(p) {
			if err != nil || b.Check() != nil || b.NextOffset() > high {
				t.Errorf("read a batch at %d with %v below %d", b.BaseOffset(), err, high)
				return
			}
			at = b.NextOffset()
		}
		if _, _, err := l.OffsetForTimestamp(at); err != nil {
			t.Error(err)
			return
		}
	}
}

// A log may be deleted while it is used; whoever uses it is told.
func TestDeleteBesideUse(t *testing.T) {
	r := newRig(t)
	r.config.Log.SegmentBytesMax = 1000
	r.start()
	var users sync.WaitGroup
	for range 20 {
		l := r.open(foo0)
		fill(t, l, 1, 1)
		for range 2 {
			users.Go(func() {
				for {
					_, err := l.Read(log.ReadRequest{Offset: 0, UpperBound: 1, BytesMax: 100})
					if err == nil {
						_, err = tryProduce(l, 1, logtest.Batch{})
					}
					if err == nil {
						_, err = l.TruncateTo(1)
					}
					if err != nil {
						if !errors.Is(err, log.ErrClosed) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		if failed := r.Delete(foo0); failed != nil {
			t.Fatal(failed)
		}
		r.RemoveRenamed(context.Background())
	}
	users.Wait()
}
