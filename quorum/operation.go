package quorum

import (
	"context"
	"time"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// operation is one request or event on its way through the active controller.
type operation struct {
	// ctx bounds the time in the queue only: once decided, the outcome is awaited by the caller.
	ctx   context.Context
	cause *metadatapb.Cause
	// decide is nil for a read, which only waits for a committed image newer than its arrival.
	decide func(controller.View) plan
	// extent estimates how large the decision is; a large one is made beside the loop. Nil: it is always small.
	extent func(controller.View) controller.Extent
	// heartbeat is the request if it is a heartbeat.
	heartbeat *controllerpb.BrokerHeartbeatRequest
	// bytes is the size of the request that the operation holds on to until it is answered.
	bytes int64
	// answer is called exactly once, by the loop, and must not block.
	answer func(result)
	// late is decided instead when the request has waited for longer than lateAfter, or its caller has given up: what it
	// asks for is void then, but that it was sent is not. Nil: such a request is dropped undecided.
	late      func(controller.View) plan
	lateAfter time.Duration
	arrived   time.Time
}

// plan is a decision with its response's type taken off.
type plan struct {
	records []*metadatapb.Record
	// atomic records go into one entry or are refused.
	atomic bool
	// response is what the caller gets once everything it rests on is committed.
	response any
	// reasons explain the decision in the controller's log.
	reasons []controller.Reason
	// liveness is the soft state after the decision; nil leaves it.
	liveness *controller.Liveness
	// then is decided right after, before anything else, if records are written; the answer rests on both. Nil: nothing.
	then *operation
	// err refuses the request as a whole.
	err error
}

// result is what becomes of an operation.
type result struct {
	response any
	// image is the committed image that holds the decision.
	image *image.Image
	err   error
}

// planOf takes the type off a decision.
func planOf[R any](d controller.Decision[R], err error) plan {
	if err != nil {
		return plan{err: err}
	}
	return plan{records: d.Records, atomic: d.Atomic, response: d.Response, reasons: d.Reasons, liveness: d.Liveness}
}

// submit puts a small decision through the loop and waits for its commit. It may be called from any goroutine.
func submit[R any](ctx context.Context, l *loop, cause *metadatapb.Cause, decide func(controller.View) (controller.Decision[R], error)) (R, *image.Image, error) {
	return await[R](ctx, l, &operation{ctx: ctx, cause: cause, decide: func(v controller.View) plan { return planOf(decide(v)) }})
}

// await puts an operation through the loop and takes its response.
func await[R any](ctx context.Context, l *loop, op *operation) (R, *image.Image, error) {
	res, err := l.do(ctx, op)
	if err != nil {
		var none R
		return none, nil, err
	}
	return res.response.(R), res.image, nil
}

// do enqueues an operation and waits. When the caller's context ends first the outcome is unknown to it.
func (l *loop) do(ctx context.Context, op *operation) (result, error) {
	if l.active.Load() == nil {
		return result{}, ErrNotActive
	}
	op.arrived = l.env.Now()
	if op.heartbeat != nil {
		l.contacts.note(l.fsm.Image(), op.heartbeat, op.arrived)
	}
	answered := make(chan result, 1)
	op.answer = func(r result) {
		l.bytesHeld.Add(-op.bytes)
		answered <- r
	}
	if err := l.enqueue(op); err != nil {
		l.metrics.OperationsRefused.Add(1)
		return result{}, err
	}
	select {
	case r := <-answered:
		return r, r.err
	case <-ctx.Done():
		return result{}, ErrOutcomeUnknown
	case <-l.stopped:
		return result{}, ErrOutcomeUnknown
	}
}

func (l *loop) enqueue(op *operation) error {
	if l.bytesHeld.Add(op.bytes) > operationBytesMax {
		l.bytesHeld.Add(-op.bytes)
		return ErrQueueBytesFull
	}
	select {
	case l.queue <- op:
		return nil
	default:
		l.bytesHeld.Add(-op.bytes)
		return ErrQueueFull
	}
}

// isLate tells whether what the request asks for is void by now.
func (op *operation) isLate(now time.Time) bool {
	return op.ctx.Err() != nil || op.lateAfter > 0 && now.Sub(op.arrived) > op.lateAfter
}
