package replica

import (
	"container/heap"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
)

// fetcher copies partitions from one leader over one stream. Its lock is held while a log is changed, so that whoever
// removes a partition waits for the change under way, and no other follows.
type fetcher struct {
	manager  *Manager
	endpoint endpoint
	wake     chan struct{}

	mu         sync.Mutex
	partitions map[image.PartitionID]*follow
	// news are partitions whose position the leader has to be told, in that order; those that have gone are left in.
	news []*follow
	// forgotten are partitions of the leader's session that are not fetched any more.
	forgotten []image.PartitionID
	// delayed is ordered by the time of the next try.
	delayed delays
}

// follow is a fetched partition.
type follow struct {
	Assignment
	status Status
	// offset is the log end, logStart the log start, lastEpoch the epoch of the last record: what the leader is told.
	offset, logStart int64
	lastEpoch        image.LeaderEpoch
	// leaderEnd is the leader's log end as it was last told.
	leaderEnd int64
	// known: the leader's session holds the partition. told: at the position that is still the present one; since the
	// request of that number. An answer to an earlier one is not used.
	known, told bool
	toldIn      int64
	// inNews: it stands in the list of news.
	inNews bool
	gone   bool
	// backoff is the last delay, 0 after a success. due and place are for the heap of delays; place is -1 outside.
	backoff time.Duration
	due     time.Time
	place   int
}

func newFetcher(m *Manager, e endpoint) *fetcher {
	return &fetcher{manager: m, endpoint: e, wake: make(chan struct{}, 1), partitions: make(map[image.PartitionID]*follow)}
}

// fetches tells whether a partition is fetched in the leader epoch of the assignment and has not failed.
func (f *fetcher) fetches(a Assignment) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.partitions[a.Partition]
	return p != nil && p.LeaderEpoch == a.LeaderEpoch && p.status != StatusFailed
}

// add begins with partitions that are not fetched by anyone.
func (f *fetcher) add(list []Assignment) {
	f.mu.Lock()
	for _, a := range list {
		p := &follow{Assignment: a, status: StatusFetching, leaderEnd: partition.UnknownOffset, place: -1}
		p.locate()
		f.partitions[a.Partition] = p
		f.tell(p)
	}
	f.mu.Unlock()
	f.ring()
}

// remove lets go of partitions.
func (f *fetcher) remove(ids []image.PartitionID) {
	f.mu.Lock()
	for _, id := range ids {
		if p := f.partitions[id]; p != nil {
			f.leaveSession(p)
			if p.place >= 0 {
				heap.Remove(&f.delayed, p.place)
			}
			p.gone = true
			delete(f.partitions, id)
		}
	}
	f.mu.Unlock()
	f.ring()
}

// ring wakes the fetcher's goroutine.
func (f *fetcher) ring() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// locate reads where the log stands.
func (p *follow) locate() {
	p.logStart, _, p.offset = p.Replica.Offsets()
	epoch, ok := p.Replica.LatestEpoch()
	if p.lastEpoch = epoch; !ok {
		p.lastEpoch = partition.NoLeaderEpoch
	}
}

// tell has the leader told of the position with the next request.
func (f *fetcher) tell(p *follow) {
	p.told = false
	if !p.inNews {
		p.inNews = true
		f.news = append(f.news, p)
	}
}

// leaveSession has the leader forget a partition.
func (f *fetcher) leaveSession(p *follow) {
	if p.known {
		f.forgotten = append(f.forgotten, p.Partition)
	}
	p.known, p.told = false, false
}

// delay leaves a partition alone for a while.
func (f *fetcher) delay(p *follow) {
	f.leaveSession(p)
	p.backoff = min(max(2*p.backoff, f.manager.cfg.BackoffMin), f.manager.cfg.BackoffMax)
	p.status, p.due = StatusDelayed, f.manager.clock.Now().Add(p.backoff)
	heap.Push(&f.delayed, p)
}

// fail leaves a partition alone until it is added again.
func (f *fetcher) fail(p *follow, what string, err error) {
	f.leaveSession(p)
	p.status = StatusFailed
	if errors.Is(err, ErrOvertaken) {
		return
	}
	f.manager.logger.Error("replica fetch failed for good", "partition", p.Partition, "leader", p.Leader,
		"leaderEpoch", p.LeaderEpoch, "doing", what, "error", err)
}

// resume takes up what was delayed long enough. It returns how long the next one still waits, 0 if none does.
func (f *fetcher) resume() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.manager.clock.Now()
	for len(f.delayed) > 0 {
		p := f.delayed[0]
		if wait := p.due.Sub(now); wait > 0 {
			return wait
		}
		heap.Pop(&f.delayed)
		p.status = StatusFetching
		p.locate()
		f.tell(p)
	}
	return 0
}

// restart forgets the session: a new stream's leader knows nothing.
func (f *fetcher) restart() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgotten, f.news = nil, nil
	for _, p := range f.partitions {
		p.known, p.told, p.inNews = false, false, false
		if p.status == StatusFetching {
			f.tell(p)
		}
	}
	slices.SortFunc(f.news, func(a, b *follow) int { return a.Partition.Compare(b.Partition) })
}

func (f *fetcher) isIdle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.partitions) == 0
}

func (f *fetcher) status(id image.PartitionID) Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.partitions[id]; p != nil {
		return p.status
	}
	return StatusNone
}

func (f *fetcher) count(c *Counts) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.partitions {
		switch p.status {
		case StatusFetching:
			c.Fetching++
			c.LagMax = max(c.LagMax, p.leaderEnd-p.offset)
		case StatusDelayed:
			c.Delayed++
		case StatusFailed:
			c.Failed++
		}
	}
}

// delays is a heap of delayed partitions.
type delays []*follow

func (d delays) Len() int           { return len(d) }
func (d delays) Less(i, j int) bool { return d[i].due.Before(d[j].due) }
func (d delays) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = i, j
}

func (d *delays) Push(x any) {
	p := x.(*follow)
	p.place = len(*d)
	*d = append(*d, p)
}

func (d *delays) Pop() any {
	last := len(*d) - 1
	p := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	p.place = -1
	return p
}
