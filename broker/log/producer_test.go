package log_test

import (
	"errors"
	"testing"
	"time"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/broker/log/logtest"
)

// from is a batch of n records of a producer.
func from(id int64, epoch int16, sequence int32, n int) logtest.Batch {
	return logtest.Batch{HasProducer: true, ProducerID: id, ProducerEpoch: epoch, Sequence: sequence, Values: logtest.Records(n, 4)}
}

func TestProducerChecks(t *testing.T) {
	const last = 1<<31 - 1
	type step struct {
		batch     logtest.Batch
		want      error
		first     int64
		duplicate bool
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"in sequence", []step{{from(1, 0, 0, 3), nil, 0, false}, {from(1, 0, 3, 2), nil, 3, false}}},
		{"duplicate of the last", []step{{from(1, 0, 0, 3), nil, 0, false}, {from(1, 0, 0, 3), nil, 0, true}, {from(1, 0, 3, 1), nil, 3, false}}},
		{"duplicate of any of five", []step{
			{from(1, 0, 0, 1), nil, 0, false}, {from(1, 0, 1, 1), nil, 1, false}, {from(1, 0, 2, 1), nil, 2, false},
			{from(1, 0, 3, 1), nil, 3, false}, {from(1, 0, 4, 1), nil, 4, false}, {from(1, 0, 0, 1), nil, 0, true},
		}},
		{"older than five", []step{
			{from(1, 0, 0, 1), nil, 0, false}, {from(1, 0, 1, 1), nil, 1, false}, {from(1, 0, 2, 1), nil, 2, false},
			{from(1, 0, 3, 1), nil, 3, false}, {from(1, 0, 4, 1), nil, 4, false}, {from(1, 0, 5, 1), nil, 5, false},
			{from(1, 0, 0, 1), log.ErrOutOfOrderSequence, 0, false},
		}},
		{"a gap", []step{{from(1, 0, 0, 3), nil, 0, false}, {from(1, 0, 4, 1), log.ErrOutOfOrderSequence, 0, false}}},
		{"a partial overlap", []step{{from(1, 0, 0, 3), nil, 0, false}, {from(1, 0, 0, 4), log.ErrOutOfOrderSequence, 0, false}, {from(1, 0, 1, 2), log.ErrOutOfOrderSequence, 0, false}}},
		{"an older epoch", []step{{from(1, 3, 0, 1), nil, 0, false}, {from(1, 2, 1, 1), log.ErrInvalidProducerEpoch, 0, false}}},
		{"a newer epoch", []step{{from(1, 3, 0, 2), nil, 0, false}, {from(1, 4, 2, 1), log.ErrOutOfOrderSequence, 0, false}, {from(1, 4, 0, 1), nil, 2, false}, {from(1, 4, 1, 1), nil, 3, false}}},
		{"the epoch's first duplicate", []step{{from(1, 3, 0, 2), nil, 0, false}, {from(1, 4, 0, 2), nil, 2, false}, {from(1, 4, 0, 2), nil, 2, true}}},
		{"unknown, the log never held a record", []step{{from(1, 0, 5, 1), log.ErrOutOfOrderSequence, 0, false}, {from(1, 0, 0, 1), nil, 0, false}}},
		{"unknown, the log held records", []step{{logtest.Batch{}, nil, 0, false}, {from(1, 0, 5, 1), nil, 1, false}, {from(1, 0, 6, 1), nil, 2, false}}},
		{"the sequence wraps", []step{{logtest.Batch{}, nil, 0, false}, {from(1, 0, last-1, 2), nil, 1, false}, {from(1, 0, 0, 1), nil, 3, false}}},
		{"the sequence wraps inside a batch", []step{{logtest.Batch{}, nil, 0, false}, {from(1, 0, last-1, 4), nil, 1, false}, {from(1, 0, 2, 1), nil, 5, false}, {from(1, 0, last-1, 4), nil, 1, true}}},
		{"two producers", []step{{from(1, 0, 0, 1), nil, 0, false}, {logtest.Batch{}, nil, 1, false}, {from(2, 0, 0, 1), nil, 2, false}, {from(1, 0, 1, 1), nil, 3, false}, {from(2, 0, 0, 1), nil, 2, true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.start()
			l := r.open(foo0)
			for i, s := range c.steps {
				before := l.LogEndOffset()
				a, err := tryProduce(l, 1, s.batch)
				if !errors.Is(err, s.want) {
					t.Fatalf("step %d: error %v, want %v", i, err, s.want)
				}
				if err == nil && (a.FirstOffset != s.first || a.Duplicate != s.duplicate || a.LastOffset != s.first+int64(len(s.batch.Values))-1 && len(s.batch.Values) > 0) {
					t.Fatalf("step %d: %+v", i, a)
				}
				if moved := l.LogEndOffset() != before; moved == (s.duplicate || s.want != nil) {
					t.Fatalf("step %d: log end %d, was %d", i, l.LogEndOffset(), before)
				}
			}
		})
	}
}

// A follower takes what the leader has, also what it would refuse from a client; as a leader it knows the originals.
func TestFollowerTakesBatchesWithoutSequenceChecks(t *testing.T) {
	r := newRig(t)
	r.start()
	l := r.open(foo0)
	for i, sequence := range []int32{0, 0, 9} {
		b := from(1, 0, sequence, 1)
		b.BaseOffset, b.LeaderEpoch = int64(i), 1
		r.must(follow(t, l, b))
	}
	if l.LogEndOffset() != 3 {
		t.Fatalf("end %d", l.LogEndOffset())
	}
	if a := produce(t, l, 2, from(1, 0, 9, 1)); !a.Duplicate || a.FirstOffset != 2 {
		t.Errorf("%+v", a)
	}
}

// After a control marker and nothing else, a producer begins at 0.
func TestProducerKnownByMarkerBeginsAtZero(t *testing.T) {
	r := newRig(t)
	r.start()
	l := r.open(foo0)
	marker := from(1, 4, 0, 1)
	marker.LeaderEpoch, marker.Attributes = 1, 0x30
	r.must(follow(t, l, marker))
	if _, err := tryProduce(l, 2, from(1, 4, 3, 1)); !errors.Is(err, log.ErrOutOfOrderSequence) {
		t.Errorf("sequence 3: %v", err)
	}
	produce(t, l, 2, from(1, 4, 0, 1))
}

// afterRestarts runs a test on a log of small segments for each way in which a process ends.
func afterRestarts(t *testing.T, test func(t *testing.T, r *rig, restart func(*rig))) {
	for name, restart := range map[string]func(*rig){"clean": (*rig).cleanRestart, "killed": (*rig).kill} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.config.Log.SegmentBytesMax = 400
			r.start()
			test(t, r, restart)
		})
	}
}

func TestProducersSurviveRestart(t *testing.T) {
	afterRestarts(t, func(t *testing.T, r *rig, restart func(*rig)) {
		l := r.open(foo0)
		for i := range int32(20) {
			produce(t, l, 1, from(1, 0, i, 1))
			produce(t, l, 1, logtest.Batch{})
		}
		restart(r)
		l, _ = r.load(foo0)
		if a := produce(t, l, 1, from(1, 0, 19, 1)); !a.Duplicate || a.FirstOffset != 38 {
			t.Errorf("%+v", a)
		}
		if _, err := tryProduce(l, 1, from(1, 0, 25, 1)); !errors.Is(err, log.ErrOutOfOrderSequence) {
			t.Errorf("a gap after the restart: %v", err)
		}
		produce(t, l, 1, from(1, 0, 20, 1))
	})
}

// A producer whose answers were lost sends all that it had in flight again: none of it is refused or stored twice, though a snapshot
// stands behind it.
func TestAllThatWasInFlightIsKnownAfterARestart(t *testing.T) {
	afterRestarts(t, func(t *testing.T, r *rig, restart func(*rig)) {
		l := r.open(foo0)
		for i := range int32(7) {
			produce(t, l, 1, from(1, 0, i, 1))
		}
		restart(r)
		l, _ = r.load(foo0)
		for i := range int32(5) {
			if a := produce(t, l, 1, from(1, 0, 2+i, 1)); !a.Duplicate || a.FirstOffset != int64(2+i) {
				t.Errorf("%d: %+v", 2+i, a)
			}
		}
		produce(t, l, 1, from(1, 0, 7, 1))
	})
}

// A retry whose original was truncated away is appended: the sequence goes on from what survived.
func TestProducersFollowTruncation(t *testing.T) {
	r := newRig(t)
	r.config.Log.SegmentBytesMax = 400
	r.start()
	l := r.open(foo0)
	for i := range int32(20) {
		produce(t, l, 1, from(1, 0, i, 1))
	}
	if l.SegmentCount() < 3 {
		t.Fatalf("%d segments", l.SegmentCount())
	}
	_, err := l.TruncateTo(10)
	r.must(err)
	if a := produce(t, l, 2, from(1, 0, 10, 1)); a.Duplicate || a.FirstOffset != 10 {
		t.Errorf("%+v", a)
	}
	if _, err := tryProduce(l, 2, from(1, 0, 19, 1)); !errors.Is(err, log.ErrOutOfOrderSequence) {
		t.Errorf("what was truncated is still known: %v", err)
	}
}

func TestProducersExpire(t *testing.T) {
	r := newRig(t)
	r.start()
	l := r.open(foo0)
	// The timestamps of the records do not make a producer old.
	produce(t, l, 1, from(1, 0, 0, 1))
	r.clock.now = r.clock.now.Add(time.Hour)
	produce(t, l, 1, from(2, 0, 0, 1))
	r.clock.now = r.clock.now.Add(23 * time.Hour)
	if n := l.ExpireProducers(); n != 1 {
		t.Fatalf("%d expired", n)
	}
	produce(t, l, 1, from(1, 0, 77, 1))
	if _, err := tryProduce(l, 1, from(2, 0, 77, 1)); !errors.Is(err, log.ErrOutOfOrderSequence) {
		t.Errorf("producer 2 was forgotten: %v", err)
	}
}
