package log_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/broker/log/logtest"
	"github.com/quorate/quorate/fsm/image"
)

// model is what one log ought to hold.
type model struct {
	// batches is the history of this log: what it holds, and what lies before its start.
	batches          []log.Batch
	start, high, end int64
	epochs           []log.EpochEntry
}

func (m model) clone() model {
	m.batches = slices.Clone(m.batches)
	m.epochs = slices.Clone(m.epochs)
	return m
}

// at is the batch that begins at an offset.
func (m model) at(offset int64) (log.Batch, bool) {
	for _, b := range m.batches {
		if b.BaseOffset() == offset {
			return b, true
		}
	}
	return nil, false
}

func (m *model) assign(epoch image.LeaderEpoch, start int64) {
	if n := len(m.epochs); n > 0 && m.epochs[n-1].Epoch == epoch && m.epochs[n-1].StartOffset <= start {
		return
	}
	m.epochs = slices.DeleteFunc(m.epochs, func(e log.EpochEntry) bool { return e.Epoch >= epoch || e.StartOffset >= start })
	m.epochs = append(m.epochs, log.EpochEntry{Epoch: epoch, StartOffset: start})
}

func (m *model) append(b log.Batch) {
	if n := len(m.epochs); n == 0 || m.epochs[n-1].Epoch < image.LeaderEpoch(b.LeaderEpoch()) {
		m.assign(image.LeaderEpoch(b.LeaderEpoch()), b.BaseOffset())
	}
	m.batches = append(m.batches, b)
	m.end = b.NextOffset()
}

func (m *model) truncate(offset int64) {
	switch {
	case offset < m.start:
		m.restart(offset)
		return
	case offset < m.end:
		for i, b := range m.batches {
			if b.LastOffset() >= offset {
				m.end = b.BaseOffset()
				m.batches = m.batches[:i]
				break
			}
		}
		offset = m.end
		m.high = min(m.high, m.end)
	}
	if m.end < m.start {
		m.restart(m.start)
		return
	}
	m.epochs = slices.DeleteFunc(m.epochs, func(e log.EpochEntry) bool { return e.StartOffset >= offset })
}

func (m *model) restart(offset int64) {
	*m = model{start: offset, high: offset, end: offset}
}

func (m *model) advance(start int64) {
	if start <= m.start {
		return
	}
	m.start = start
	covering := -1
	for i, e := range m.epochs {
		if e.StartOffset <= start {
			covering = i
		}
	}
	if covering >= 0 {
		m.epochs = m.epochs[covering:]
		m.epochs[0].StartOffset = start
	}
}

// killed is what a hook panics with where the process dies.
type killed struct{ point string }

// machine drives one log and its model.
type machine struct {
	*rig
	t     *rapid.T
	l     *log.Log
	m     model
	epoch image.LeaderEpoch
	// fuse is the number of hook points to the death of the process; negative: none.
	fuse   int
	lastMs int64
	random *rand.Rand
}

func newMachine(t *rapid.T) *machine {
	x := &machine{rig: newRig(t), t: t, epoch: 1, fuse: -1, random: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))}
	x.config.Log.SegmentBytesMax = rapid.SampledFrom([]int32{400, 900, 3000}).Draw(t, "segmentBytesMax")
	x.config.Log.IndexIntervalBytes = rapid.SampledFrom([]int32{0, 150, 4096}).Draw(t, "indexIntervalBytes")
	x.config.OpenFilesMax = rapid.SampledFrom([]int{1, 100}).Draw(t, "openFilesMax")
	x.hook = func(point string) {
		if x.fuse == 0 {
			x.disk.Freeze()
			panic(killed{point})
		}
		x.fuse--
	}
	x.start()
	x.l = x.open(foo0)
	return x
}

// life runs one operation, which may end in the death of the process.
func (x *machine) life(do func() error) (died bool) {
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(killed); !ok {
				panic(p)
			}
			died = true
		}
		x.fuse = -1
	}()
	if err := do(); err != nil {
		x.t.Fatal(err)
	}
	return false
}

func (x *machine) draw(what string, low, high int64) int64 {
	return rapid.Int64Range(low, max(low, high)).Draw(x.t, what)
}

// operation draws one operation, what it does to the log and to the model.
func (x *machine) operation() (name string, do func() error, change func(*model)) {
	name = rapid.SampledFrom([]string{
		"append", "append", "append", "append", "produce", "produce", "follow", "elect", "truncate", "truncate to",
		"restart at", "raise", "advance", "retain", "flush", "flush rolled", "checkpoint",
	}).Draw(x.t, "operation")
	switch name {
	case "append", "produce":
		x.lastMs += x.draw("ms", -5, 20)
		b := logtest.Batch{Timestamp: max(0, x.lastMs), Values: logtest.Records(int(x.draw("records", 1, 4)), int(x.draw("size", 0, 60)))}
		if name == "produce" {
			b.HasProducer, b.ProducerID = true, x.draw("producer", 1, 3)
			b.Sequence = x.nextSequence(b.ProducerID)
		}
		return name, func() error { _, err := tryProduce(x.l, x.epoch, b); return err },
			func(m *model) {
				b.BaseOffset, b.LeaderEpoch = m.end, int32(x.epoch)
				m.append(b.Bytes())
			}
	case "follow":
		first := logtest.Batch{BaseOffset: x.m.end, LeaderEpoch: int32(x.epoch), Values: logtest.Records(2, 20)}
		x.epoch += image.LeaderEpoch(x.draw("epochs", 0, 1))
		second := logtest.Batch{BaseOffset: x.m.end + 2, LeaderEpoch: int32(x.epoch), Values: logtest.Records(1, 90)}
		return name, func() error { return follow(x.rig.t, x.l, first, second) },
			func(m *model) { m.append(first.Bytes()); m.append(second.Bytes()) }
	case "elect":
		x.epoch++
		return name, func() error { return x.l.AssignEpoch(x.epoch, x.m.end) }, func(m *model) { m.assign(x.epoch, m.end) }
	case "truncate", "truncate to":
		to := x.draw("to", max(0, x.m.start-2), x.m.end+2)
		return name, func() error { _, err := x.l.TruncateTo(to); return err }, func(m *model) { m.truncate(to) }
	case "restart at":
		to := x.draw("to", 0, x.m.end+5)
		return name, func() error { return x.l.TruncateFullyAndStartAt(to) }, func(m *model) { m.restart(to) }
	case "raise":
		to := x.draw("to", 0, x.m.end+3)
		return name, func() error { x.l.RaiseHighWatermark(to); return nil }, func(m *model) { m.high = max(m.high, min(to, m.end)) }
	case "advance":
		to := x.draw("to", 0, x.m.high)
		return name, func() error { return x.l.AdvanceLogStart(to) }, func(m *model) { m.advance(to) }
	case "retain":
		return name, func() error { _, err := x.l.ApplyRetention(); return err }, func(*model) {}
	case "flush":
		return name, x.l.Flush, func(*model) {}
	case "flush rolled":
		return name, x.FlushRolled, func(*model) {}
	default:
		return name, x.WriteCheckpoints, func(*model) {}
	}
}

func (x *machine) nextSequence(id int64) int32 {
	for _, b := range slices.Backward(x.m.batches) {
		if b.ProducerID() == id {
			return b.LastSequence() + 1
		}
	}
	return 0
}

// check compares the log with the model.
func (x *machine) check() {
	start, high, end := x.l.Offsets()
	if start != x.m.start || high != x.m.high || end != x.m.end {
		x.t.Fatalf("log start %d, high watermark %d, log end %d; want %d, %d, %d", start, high, end, x.m.start, x.m.high, x.m.end)
	}
	if got := x.l.Epochs(); !slices.Equal(got, x.m.epochs) {
		x.t.Fatalf("epochs %v, want %v", got, x.m.epochs)
	}
	x.checkContent()
	if x.l.RecoveryPoint() > end {
		x.t.Fatalf("recovery point %d, log end %d", x.l.RecoveryPoint(), end)
	}
}

// checkContent reads everything: each batch must be the model's.
func (x *machine) checkContent() {
	start, _, end := x.l.Offsets()
	at := start
	for b, err := range log.Batches(readAll(x.rig.t, x.l, start, end)) {
		if err != nil {
			x.t.Fatal(err)
		}
		want, ok := x.m.at(b.BaseOffset())
		if !ok || !bytes.Equal(want, b) {
			x.t.Fatalf("batch at %d (epoch %d) is not the one that was appended", b.BaseOffset(), b.LeaderEpoch())
		}
		if b.BaseOffset() > at || b.NextOffset() <= at {
			x.t.Fatalf("a gap at %d: the batch begins at %d", at, b.BaseOffset())
		}
		at = b.NextOffset()
	}
	if at != end {
		x.t.Fatalf("nothing at %d, the log end is %d", at, end)
	}
}

// checkEpochs holds that the cache has the epoch of every batch at the right place (I16).
func (x *machine) checkEpochs() {
	entries := x.l.Epochs()
	for i, e := range entries {
		if i > 0 && (entries[i-1].Epoch >= e.Epoch || entries[i-1].StartOffset >= e.StartOffset) {
			x.t.Fatalf("epochs do not rise: %v", entries)
		}
	}
	start, _, end := x.l.Offsets()
	for b := range log.Batches(readAll(x.rig.t, x.l, start, end)) {
		covering := image.LeaderEpoch(-1)
		for _, e := range entries {
			if e.StartOffset <= max(start, b.BaseOffset()) {
				covering = e.Epoch
			}
		}
		if int32(covering) != b.LeaderEpoch() {
			x.t.Fatalf("the batch at %d is of epoch %d, the cache says %d: %v", b.BaseOffset(), b.LeaderEpoch(), covering, entries)
		}
	}
}

// checkProducers holds that a repetition of a producer's last batch is recognised.
func (x *machine) checkProducers() {
	start, _, end := x.l.Offsets()
	for id := int64(1); id <= 3; id++ {
		for _, b := range slices.Backward(x.m.batches) {
			if b.ProducerID() != id {
				continue
			}
			if b.BaseOffset() < start || b.NextOffset() > end {
				break
			}
			again := log.Batch(bytes.Clone(b))
			again.SetBaseOffset(0)
			p, err := log.ParseProduce(again, 1<<20)
			if err != nil {
				x.t.Fatal(err)
			}
			a, err := x.l.Append(p, x.epoch)
			if err != nil || !a.Duplicate || a.FirstOffset != b.BaseOffset() || a.LastOffset != b.LastOffset() {
				x.t.Fatalf("producer %d: its batch at %d again: %+v %v", id, b.BaseOffset(), a, err)
			}
			break
		}
	}
}

// resume begins the next life and takes over what survived, after a test that it is a beginning of what there was:
// of before or of after, at least up to least.
func (x *machine) resume(before, after model, least int64) {
	x.start()
	_, err := x.Scan()
	x.must(err)
	x.l, _ = x.load(foo0)
	start, high, end := x.l.Offsets()
	if start > high || high > end {
		x.t.Fatalf("log start %d, high watermark %d, log end %d", start, high, end)
	}
	if end < least {
		x.t.Fatalf("log end %d, but %d was there", end, least)
	}
	held, err := x.lineage(before, start, end)
	if err != nil {
		if held, err = x.lineage(after, start, end); err != nil {
			x.t.Fatal(err)
		}
	}
	x.m = held
	x.m.start, x.m.high, x.m.end, x.m.epochs = start, high, end, x.l.Epochs()
	x.checkContent()
	x.checkEpochs()
	x.checkProducers()
}

// lineage is the part of a model that the log holds now, or what does not fit.
func (x *machine) lineage(m model, start, end int64) (model, error) {
	m = m.clone()
	for b := range log.Batches(readAll(x.rig.t, x.l, start, end)) {
		if want, ok := m.at(b.BaseOffset()); !ok || !bytes.Equal(want, b) {
			return m, fmt.Errorf("batch at %d (epoch %d) is not one that was appended", b.BaseOffset(), b.LeaderEpoch())
		}
	}
	m.batches = slices.DeleteFunc(m.batches, func(b log.Batch) bool { return b.NextOffset() > end })
	return m, nil
}

// TestLogAgainstModel appends, truncates, flushes, stops and dies at drawn points, and compares with a model.
func TestLogAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newMachine(t)
		for range rapid.IntRange(1, 30).Draw(t, "operations") {
			switch how := rapid.SampledFrom([]string{"go on", "go on", "go on", "go on", "dies in it", "clean", "killed", "power cut", "torn"}).Draw(t, "how"); how {
			case "clean":
				x.FinishLoading()
				x.must(x.Shutdown(1))
				x.disk.Restart()
				m := x.m
				m.epochs = slices.DeleteFunc(slices.Clone(m.epochs), func(e log.EpochEntry) bool { return e.StartOffset >= m.end })
				x.resume(m, m, m.end)
				if !slices.Equal(x.m.epochs, m.epochs) || x.m.start != m.start || x.m.high != m.high {
					t.Fatalf("after a clean stop %+v, want %+v", x.m, m)
				}
			case "killed":
				x.disk.Restart()
				x.resume(x.m, x.m, x.m.end)
			case "power cut":
				least := x.l.RecoveryPoint()
				x.disk.PowerCut(x.random)
				x.resume(x.m, x.m, least)
			case "torn":
				x.tear()
			default:
				before := x.m.clone()
				if how == "dies in it" {
					x.fuse = int(x.draw("fuse", 0, 6))
				}
				name, do, change := x.operation()
				least, died := x.l.RecoveryPoint(), x.life(do)
				change(&x.m)
				if !died {
					if name == "retain" {
						x.m.advance(x.l.LogStartOffset())
					}
					x.check()
					continue
				}
				least = min(least, x.m.end)
				if strings.HasPrefix(name, "restart") || x.m.end <= before.start {
					least = 0 // everything may be gone
				}
				if x.random.IntN(2) == 0 {
					x.disk.Restart()
					if least > 0 {
						least = min(before.end, x.m.end)
					}
				} else {
					x.disk.PowerCut(x.random)
				}
				x.resume(before, x.m.clone(), least)
			}
		}
	})
}

// tear damages the newest segment of a killed process's log: what comes before the damage is kept.
func (x *machine) tear() {
	x.disk.Restart()
	var newest string
	for _, name := range x.ls(dataDir + "/foo-0") {
		if strings.HasSuffix(name, ".log") {
			newest = dataDir + "/foo-0/" + name
		}
	}
	if newest == "" {
		x.resume(x.m, x.m, x.m.end)
		return
	}
	size := int64(len(x.read(newest)))
	if size == 0 {
		x.resume(x.m, x.m, x.m.end)
		return
	}
	at := x.draw("damaged byte", 0, size-1)
	least := x.m.end
	position := size
	for _, b := range slices.Backward(x.m.batches) {
		position -= int64(len(b))
		least = b.BaseOffset()
		if position <= at {
			break
		}
	}
	if rapid.Bool().Draw(x.t, "flip") {
		if in := at - position; in < 16 && in >= 12 {
			x.resume(x.m, x.m, x.m.end) // nothing protects the leader epoch of a batch but those around it
			return
		}
		x.disk.Flip(newest, at)
	} else {
		x.change(newest, func(p []byte) []byte { return p[:at] })
	}
	x.resume(x.m, x.m, min(least, x.m.end))
}
