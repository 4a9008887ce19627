package kafka

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// request is one request of a client and the place of its answer. A handler answers it exactly once, now or later,
// from any goroutine, by one of reply, replyBy, replyNothing and hangUp.
type request struct {
	header
	body     kmsg.Request
	caller   Caller
	arrived  time.Time
	entry    *entry
	metrics  *metrics
	ctx      context.Context // ends with the connection
	answered atomic.Bool
	// ready is closed when the answer is decided.
	ready  chan struct{}
	answer answer
	// sent is closed when the answer has left; only requests of a serial API have it.
	sent chan struct{}
	// parked is where the request waits, for its removal when the connection ends before.
	parked atomic.Pointer[waiter]
}

// answer is what the writer does for one request.
type answer struct {
	// build makes the response on the writer's goroutine; nil for none.
	build func() kmsg.Response
	// written runs when the response has been encoded, or never will be.
	written func()
	// hangUp closes the connection, for this reason, after the answers before.
	hangUp string
}

func (r *request) complete(a answer) {
	if !r.answered.CompareAndSwap(false, true) {
		panic("kafka: a request was answered twice: " + r.entry.name)
	}
	r.answer = a
	close(r.ready)
}

// reply answers with a response.
func (r *request) reply(resp kmsg.Response) {
	r.complete(answer{build: func() kmsg.Response { return resp }})
}

// replyBy answers with a response that the connection's writer builds when its turn comes, so that large answers
// exist one a connection, and are made by as many goroutines as there are connections. Written may be nil.
func (r *request) replyBy(build func() kmsg.Response, written func()) {
	r.complete(answer{build: build, written: written})
}

// replyNothing ends a request that wants no answer.
func (r *request) replyNothing() { r.complete(answer{}) }

// hangUp closes the connection: the only sign that a request without an answer has failed.
func (r *request) hangUp(reason string) { r.complete(answer{hangUp: reason}) }

// response makes the response of a request, in its version and with the protocol's defaults, which Go's zero values
// often are not.
func response[T interface {
	kmsg.Response
	Default()
}](r *request) T {
	resp := r.body.ResponseKind().(T)
	resp.Default()
	resp.SetVersion(r.version)
	return resp
}
