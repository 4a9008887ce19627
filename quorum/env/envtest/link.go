package envtest

import (
	"net"
	"strconv"
	"sync"
	"time"
)

// link is one connection: two pipes, and between them two goroutines for each direction that apply the rules.
type link struct {
	network          *Network
	dialer, listener string // hosts
	ends             [4]net.Conn
	dead             chan struct{}
	once             sync.Once
}

// kill closes a connection at once, in both directions.
func (l *link) kill() {
	l.once.Do(func() {
		close(l.dead)
		for _, end := range l.ends {
			end.Close()
		}
	})
}

type conn struct {
	net.Conn
	local, remote addr
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

type chunk struct {
	data []byte
	due  time.Time
}

// half is one direction of a link.
type half struct {
	link     *link
	way      direction
	src, dst net.Conn
	queue    chan chunk
	deaf     chan struct{} // closed when the receiving end is gone
	deafOnce *sync.Once
	passed   int // bytes, for CloseAfter
}

func (n *Network) connect(from string, l *listener) (dialed, accepted net.Conn, made *link) {
	dialEnd, dialPump := net.Pipe()
	acceptPump, acceptEnd := net.Pipe()
	made = &link{
		network: n, dialer: from, listener: l.host,
		ends: [4]net.Conn{dialEnd, dialPump, acceptPump, acceptEnd}, dead: make(chan struct{}),
	}
	newHalf := func(from, to string, src, dst net.Conn) *half {
		return &half{
			link: made, way: direction{from, to}, src: src, dst: dst, queue: make(chan chunk, chunksMax),
			deaf: make(chan struct{}), deafOnce: new(sync.Once),
		}
	}
	there := newHalf(from, l.host, dialPump, acceptPump)
	back := newHalf(l.host, from, acceptPump, dialPump)

	n.mu.Lock()
	n.links[made] = struct{}{}
	n.nextPort++
	local := addr(from + ":" + strconv.Itoa(n.nextPort))
	n.wg.Add(1)
	n.mu.Unlock()
	go func() {
		defer n.wg.Done()
		var running sync.WaitGroup
		running.Go(func() { there.read(back) })
		running.Go(func() { back.read(there) })
		running.Go(there.write)
		running.Go(back.write)
		running.Wait()
		n.mu.Lock()
		delete(n.links, made)
		n.mu.Unlock()
	}()
	return &conn{dialEnd, local, addr(l.address)}, &conn{acceptEnd, addr(l.address), local}, made
}

// read takes what one end writes. When that end is closed, nothing can be brought to it any more: the opposite direction
// stops, while this one brings what is under way and then closes the other end.
func (h *half) read(opposite *half) {
	defer close(h.queue)
	defer opposite.deafOnce.Do(func() { close(opposite.deaf) })
	buf := make([]byte, chunkBytes)
	for {
		k, err := h.src.Read(buf)
		if k > 0 {
			r, _ := h.link.network.ruleFor(h.way)
			c := chunk{data: append([]byte(nil), buf[:k]...), due: time.Now().Add(r.delay)}
			select {
			case h.queue <- c:
			case <-h.deaf:
				return
			case <-h.link.dead:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// write brings the pieces to the other end when they are due and no cut holds them up.
func (h *half) write() {
	defer h.dst.Close()
	for c := range h.queue {
		if !h.waitUntil(c.due) || !h.waitOpen() || !h.deliver(c.data) {
			h.drain()
			return
		}
	}
	h.waitOpen() // a cut holds the close up as well
}

func (h *half) drain() {
	for range h.queue {
	}
}

func (h *half) waitUntil(due time.Time) bool {
	d := time.Until(due)
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-h.deaf:
	case <-h.link.dead:
	}
	return false
}

func (h *half) waitOpen() bool {
	for {
		r, changed := h.link.network.ruleFor(h.way)
		if !r.cut {
			return true
		}
		select {
		case <-changed:
		case <-h.deaf:
			return false
		case <-h.link.dead:
			return false
		}
	}
}

func (h *half) deliver(data []byte) bool {
	r, _ := h.link.network.ruleFor(h.way)
	if r.closeAfter > 0 && h.passed+len(data) >= r.closeAfter {
		h.link.network.takeClose(h.way)
		h.dst.Write(data[:max(0, r.closeAfter-h.passed)])
		h.link.kill()
		return false
	}
	h.passed += len(data)
	_, err := h.dst.Write(data)
	return err == nil
}
