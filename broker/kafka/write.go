package kafka

// writer sends the answers of one connection in the order of their requests. It collects what is decided and writes
// once, and it stops taking answers as long as the peer takes none.
type writer struct {
	c   *conn
	buf []byte
	// batch holds the requests whose answers are in buf.
	batch []*request
	// held was taken from the slots before its answer was decided.
	held *request
}

func (w *writer) run() {
	defer w.end()
	for {
		r, ok := w.next()
		if !ok {
			return
		}
		if !w.collect(r) {
			return
		}
		if !w.flush() {
			return
		}
	}
}

// next waits for the next answer; ok is false at the end of the connection.
func (w *writer) next() (*request, bool) {
	r := w.held
	w.held = nil
	if r == nil {
		var ok bool
		if r, ok = <-w.c.slots; !ok {
			return nil, false
		}
	}
	select {
	case <-r.ready:
		return r, true
	case <-w.c.ctx.Done():
		w.held = r
		return nil, false
	}
}

// collect encodes an answer and those behind it that are decided too. It returns false if the connection must end.
func (w *writer) collect(r *request) bool {
	for {
		w.batch = append(w.batch, r)
		if r.answer.hangUp != "" {
			if w.flush() {
				w.c.close(r.answer.hangUp)
			}
			return false
		}
		if r.answer.build != nil {
			w.buf = appendResponse(w.buf, r.correlationID, r.answer.build())
		}
		if len(w.buf) >= flushBytes {
			return true
		}
		var ok bool
		select {
		case r, ok = <-w.c.slots:
		default:
		}
		if !ok {
			return true
		}
		select {
		case <-r.ready:
		default:
			w.held = r
			return true
		}
	}
}

// flush writes what is collected, in steps that must each be taken in time, and finishes its requests.
func (w *writer) flush() bool {
	c := w.c
	for rest := w.buf; len(rest) > 0; {
		step := rest[:min(len(rest), writeStepBytes)]
		c.nc.SetWriteDeadline(c.s.clock.Now().Add(c.s.cfg.StallMax))
		if _, err := c.stream.Write(step); err != nil {
			c.close(reasonOf(err))
			return false
		}
		rest = rest[len(step):]
	}
	w.finish()
	if w.buf = w.buf[:0]; cap(w.buf) > keptWriteBuffer {
		w.buf = nil
	}
	return true
}

func (w *writer) finish() {
	now := w.c.s.clock.Now()
	for _, r := range w.batch {
		r.metrics.answered(r, now)
		if r.answer.written != nil {
			r.answer.written()
		}
		w.c.active.Store(now.UnixNano())
		w.c.pending.Add(-1)
		if r.sent != nil {
			close(r.sent)
		}
	}
	clear(w.batch)
	w.batch = w.batch[:0]
}

// end gives up what was not sent.
func (w *writer) end() {
	w.c.close(reasonDone)
	w.finish()
	if w.held != nil {
		w.abandon(w.held)
	}
	for r := range w.c.slots {
		w.abandon(r)
	}
}

func (w *writer) abandon(r *request) {
	if p := r.parked.Load(); p != nil {
		w.c.s.purgatory.cancel(p)
	}
}
