package envtest

import (
	"sync"
	"time"
	"unsafe"
)

// Clock is the process's clock with steps.
type Clock struct {
	mu   sync.Mutex
	wall time.Duration // what the time of day was stepped by
	both time.Duration // what both readings were moved by
}

// NewClock makes a clock that shows the process's time.
func NewClock() *Clock { return &Clock{} }

// Now is the time of day with its steps, and the monotonic reading with its own.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return stepWall(time.Now().Add(c.both), c.wall)
}

// StepWall steps the time of day, forward or back, as an operator or NTP does. Durations between two values are not
// changed, unless their monotonic reading was dropped. The step is rounded to seconds.
func (c *Clock) StepWall(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += d.Round(time.Second)
}

// Jump moves both readings forward, as a process sees it that was stopped for this long.
func (c *Clock) Jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.both += d
}

// stepWall changes only the time of day. No exported way makes such a value, so it relies on the layout that package time
// has had since Go 1.9: a word with a flag for the monotonic reading in its highest bit, 33 bits of seconds since
// 1885 and 30 bits of nanoseconds; then the monotonic reading. TestClock fails if that changes.
//
// Inside a synctest bubble package time leaves the monotonic reading out. There it is made from the bubble's time, else
// a step could not be told from time that passed.
func stepWall(t time.Time, d time.Duration) time.Time {
	const monotonic, secondsShift, year1885 = 1 << 63, 30, -2682288000
	fields := (*struct {
		wall uint64
		ext  int64
	})(unsafe.Pointer(&t))
	if fields.wall&monotonic == 0 {
		seconds, nanos := uint64(t.Unix()-year1885), uint64(t.Nanosecond())
		fields.ext = t.UnixNano()
		fields.wall = monotonic | seconds<<secondsShift | nanos
	}
	fields.wall += uint64(int64(d/time.Second) << secondsShift)
	return t
}
