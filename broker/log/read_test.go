package log_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/broker/log/logtest"
)

func TestReadBounds(t *testing.T) {
	r := newRig(t)
	r.config.Log.SegmentBytesMax = 1000
	r.start()
	l := r.open(foo0)
	size := len(logtest.Batch{Values: logtest.Records(2, 50)}.Bytes())
	for range 20 {
		produce(t, l, 1, logtest.Batch{Values: logtest.Records(2, 50)})
	}
	if l.SegmentCount() < 4 {
		t.Fatalf("%d segments", l.SegmentCount())
	}
	l.RaiseHighWatermark(30)
	r.must(l.AdvanceLogStart(3))
	for _, c := range []struct {
		name string
		r    log.ReadRequest
		want []int64
		err  error
	}{
		{"below the log start", log.ReadRequest{Offset: 2, UpperBound: 40, BytesMax: 1000}, nil, log.ErrOffsetOutOfRange},
		{"above the log end", log.ReadRequest{Offset: 41, UpperBound: 41, BytesMax: 1000}, nil, log.ErrOffsetOutOfRange},
		{"at the log end", log.ReadRequest{Offset: 40, UpperBound: 40, BytesMax: 1000, AtLeastOne: true}, nil, nil},
		{"between bound and log end", log.ReadRequest{Offset: 35, UpperBound: 30, BytesMax: 1000, AtLeastOne: true}, nil, nil},
		{"the batch that contains it, whole", log.ReadRequest{Offset: 3, UpperBound: 40, BytesMax: size}, []int64{2}, nil},
		{"as many as fit", log.ReadRequest{Offset: 2 + 1, UpperBound: 40, BytesMax: 2*size + 1}, []int64{2, 4}, nil},
		{"one that does not fit", log.ReadRequest{Offset: 4, UpperBound: 40, BytesMax: 10}, nil, nil},
		{"one at least", log.ReadRequest{Offset: 4, UpperBound: 40, BytesMax: 10, AtLeastOne: true}, []int64{4}, nil},
		{"one at least of nothing", log.ReadRequest{Offset: 4, UpperBound: 40, BytesMax: 0, AtLeastOne: true}, []int64{4}, nil},
		{"nothing wanted", log.ReadRequest{Offset: 4, UpperBound: 40, BytesMax: 0}, nil, nil},
		{"up to the bound", log.ReadRequest{Offset: 26, UpperBound: 30, BytesMax: 1000}, []int64{26, 28}, nil},
		{"no half batch below the bound", log.ReadRequest{Offset: 26, UpperBound: 29, BytesMax: 1000}, []int64{26}, nil},
		{"not beyond the segment", log.ReadRequest{Offset: 4, UpperBound: 40, BytesMax: 10000}, []int64{4, 6, 8}, nil},
		{"the newest", log.ReadRequest{Offset: 38, UpperBound: 100, BytesMax: 1000}, []int64{38}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := l.Read(c.r)
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if got := offsets(t, p); !slices.Equal(got, c.want) {
				t.Errorf("batches at %v, want %v", got, c.want)
			}
		})
	}
}

// What is served is what was appended, byte for byte but for offset and leader epoch.
func TestStoredBytes(t *testing.T) {
	r := newRig(t)
	r.start()
	l := r.open(foo0)
	b := logtest.Batch{Values: logtest.Records(3, 33), Timestamp: 5}
	produce(t, l, 7, b)
	produce(t, l, 7, b)
	b.BaseOffset, b.LeaderEpoch = 3, 7
	if got := readAll(t, l, 3, 6); string(got) != string(b.Bytes()) {
		t.Errorf("got  %x\nwant %x", got, b.Bytes())
	}
}

func TestReadOfFlippedHeaderIsRefused(t *testing.T) {
	r := newRig(t)
	r.config.Log.SegmentBytesMax = 200
	r.start()
	l := r.open(foo0)
	fill(t, l, 1, 5)
	r.cleanRestart()
	l, _ = r.load(foo0)
	r.disk.Flip(logFile(foo0, 0, ".log"), 16)
	if _, err := l.Read(log.ReadRequest{Offset: 0, UpperBound: 5, BytesMax: 100}); !errors.Is(err, log.ErrCorruptBatch) {
		t.Errorf("%v", err)
	}
	if l.Failure() != nil {
		t.Errorf("the log is offline: %v", l.Failure())
	}
}

func TestOffsetForTimestamp(t *testing.T) {
	r := newRig(t)
	r.config.Log.SegmentBytesMax = 400
	r.config.Log.IndexIntervalBytes = 100
	r.start()
	l := r.open(foo0)
	if _, ok, err := l.OffsetForTimestamp(0); ok || err != nil {
		t.Errorf("empty log: %v %v", ok, err)
	}
	if _, ok, err := l.MaxTimestampOffset(); ok || err != nil {
		t.Errorf("empty log: %v %v", ok, err)
	}
	// Records at 0..29 with timestamps 1000, 1010, …, but 15 and 16 are early.
	for i := range int64(10) {
		ts := []int64{1000 + 30*i, 1010 + 30*i, 1020 + 30*i}
		if i == 5 {
			ts = []int64{1, 2, 1170}
		}
		produce(t, l, 3, logtest.Batch{Timestamp: ts[0], Timestamps: ts, Values: logtest.Records(3, 10)})
	}
	check := func() {
		t.Helper()
		for _, c := range []struct{ ask, offset, timestamp int64 }{
			{0, 0, 1000}, {1000, 0, 1000}, {1001, 1, 1010}, {1020, 2, 1020}, {1025, 3, 1030}, {1140, 14, 1140},
			{1141, 17, 1170}, {1171, 18, 1180}, {1290, 29, 1290},
		} {
			at, ok, err := l.OffsetForTimestamp(c.ask)
			if err != nil || !ok || at.Offset != c.offset || at.TimestampMs != c.timestamp || at.LeaderEpoch != 3 {
				t.Errorf("%d: %+v %v %v, want offset %d", c.ask, at, ok, err, c.offset)
			}
		}
		if _, ok, err := l.OffsetForTimestamp(1291); ok || err != nil {
			t.Errorf("after all: %v %v", ok, err)
		}
		if at, ok, err := l.MaxTimestampOffset(); err != nil || !ok || at.Offset != 29 || at.TimestampMs != 1290 {
			t.Errorf("newest: %+v %v %v", at, ok, err)
		}
	}
	check()
	r.cleanRestart()
	l, _ = r.load(foo0)
	check()
	r.kill()
	l, _ = r.load(foo0)
	check()
	l.RaiseHighWatermark(30)
	r.must(l.AdvanceLogStart(10))
	if at, ok, err := l.OffsetForTimestamp(0); err != nil || !ok || at.Offset != 10 {
		t.Errorf("from the log start on: %+v %v %v", at, ok, err)
	}
}

func TestOffsetForTimestampInCompressedBatch(t *testing.T) {
	invert := func(p []byte) []byte {
		q := slices.Clone(p)
		for i := range q {
			q[i] ^= 0xff
		}
		return q
	}
	for name, decompress := range map[string]log.Decompress{
		"with a decompressor": func(_ log.Codec, p []byte) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(invert(p))), nil
		},
		"without": nil,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.config.Decompress = decompress
			r.start()
			l := r.open(foo0)
			fill(t, l, 1, 1)
			produce(t, l, 1, logtest.Batch{Timestamp: 1000, Timestamps: []int64{1000, 1010, 1020}, Values: logtest.Records(3, 10), Attributes: 1, Compress: invert})
			want := int64(1)
			if decompress != nil {
				want = 2
			}
			if at, ok, err := l.OffsetForTimestamp(1005); err != nil || !ok || at.Offset != want {
				t.Errorf("%+v %v %v, want offset %d", at, ok, err, want)
			}
		})
	}
}

// TestDecompressingIsBounded asks for many lookups at once: only so many batches are open at a time.
func TestDecompressingIsBounded(t *testing.T) {
	const atOnce, lookups = 4, 12
	var open, most atomic.Int32
	opened, goOn := make(chan struct{}, lookups), make(chan struct{})
	r := newRig(t)
	r.config.Decompress = func(_ log.Codec, p []byte) (io.ReadCloser, error) {
		n := open.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		opened <- struct{}{}
		<-goOn
		return closing{bytes.NewReader(p), func() { open.Add(-1) }}, nil
	}
	r.start()
	l := r.open(foo0)
	produce(t, l, 1, logtest.Batch{Timestamp: 1000, Values: logtest.Records(1, 10), Attributes: 1, Compress: slices.Clone[[]byte]})
	var done sync.WaitGroup
	for range lookups {
		done.Go(func() {
			if at, ok, err := l.OffsetForTimestamp(1000); err != nil || !ok || at.Offset != 0 {
				t.Errorf("%+v %v %v", at, ok, err)
			}
		})
	}
	for range atOnce {
		<-opened
	}
	close(goOn)
	done.Wait()
	if n := most.Load(); n != atOnce {
		t.Errorf("%d batches were open at once, want %d", n, atOnce)
	}
	if n := open.Load(); n != 0 {
		t.Errorf("%d batches were not closed", n)
	}
}

type closing struct {
	io.Reader
	close func()
}

func (c closing) Close() error { c.close(); return nil }

func TestRoll(t *testing.T) {
	const batch = 78 // of one record of ten bytes
	for _, c := range []struct {
		name   string
		config func(*log.LogConfig)
		do     func(r *rig, l *log.Log)
		want   int
	}{
		{"size", func(c *log.LogConfig) { c.SegmentBytesMax = 2 * batch }, func(*rig, *log.Log) {}, 5},
		{"size, a batch more than a half", func(c *log.LogConfig) { c.SegmentBytesMax = 2*batch - 1 }, func(*rig, *log.Log) {}, 10},
		{"time by the clock", func(c *log.LogConfig) { c.SegmentAgeMax = time.Hour }, func(r *rig, l *log.Log) {
			r.clock.now = r.clock.now.Add(time.Hour + 1)
			for range 3 {
				produce(r.t, l, 1, logtest.Batch{Timestamp: log.NoTimestamp})
			}
		}, 2},
		{"time by timestamps", func(c *log.LogConfig) { c.SegmentAgeMax = time.Second }, func(r *rig, l *log.Log) {
			produce(r.t, l, 1, logtest.Batch{Timestamp: 1000})
			produce(r.t, l, 1, logtest.Batch{Timestamp: 1001})
			produce(r.t, l, 1, logtest.Batch{Timestamp: 2001})
			produce(r.t, l, 1, logtest.Batch{Timestamp: 2002})
		}, 3},
		{"index full", func(c *log.LogConfig) { c.IndexIntervalBytes, c.IndexBytesMax = 0, 24 }, func(*rig, *log.Log) {}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			c.config(&r.config.Log)
			r.start()
			l := r.open(foo0)
			fill(t, l, 1, 10)
			c.do(r, l)
			if l.SegmentCount() != c.want {
				t.Errorf("%d segments, want %d", l.SegmentCount(), c.want)
			}
		})
	}
}

// Offsets more than 2^31 from the segment's base do not fit its index.
func TestRollWhenOffsetsDoNotFit(t *testing.T) {
	r := newRig(t)
	r.start()
	l := r.open(foo0)
	far := logtest.Batch{LeaderEpoch: 1}.Bytes()
	put32(23, 1<<31-1)(far) // such a batch can only come of compaction
	log.Batch(far).SealCRC()
	_, err := l.AppendAsFollower(far, 1)
	r.must(err)
	r.must(follow(t, l, logtest.Batch{BaseOffset: 1 << 31, LeaderEpoch: 1}))
	if l.SegmentCount() != 2 || l.LogEndOffset() != 1<<31+1 {
		t.Errorf("%d segments, end %d", l.SegmentCount(), l.LogEndOffset())
	}
}
