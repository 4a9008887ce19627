package client

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// errSuperseded ends a request whose controller is no longer the active one.
var errSuperseded = errors.New("client: another controller is active")

// Invoke sends a unary request to the active controller; with it the client is a grpc.ClientConnInterface.
func (c *Client) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	err := c.Do(ctx, mayRepeat(method, request), func(ctx context.Context, cc grpc.ClientConnInterface) error {
		return cc.Invoke(ctx, method, request, reply, options...)
	})
	if named, ok := reply.(interface {
		GetActiveController() *controllerpb.ActiveController
	}); ok && err == nil {
		c.Observe(named.GetActiveController())
	}
	return err
}

// NewStream opens a stream to the active controller. What goes wrong on it later is the caller's to handle; a read
// that streams its answer is better put into [Client.Do].
func (c *Client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	active, err := c.Active(ctx)
	if err != nil {
		return nil, err
	}
	cc, err := c.conns.get(active.Address)
	if err != nil {
		return nil, err
	}
	return cc.NewStream(ctx, desc, method, options...)
}

// Do runs a request against the active controller, again when that is allowed (see [Repeat]). The request gets a context that
// ends early when its controller is superseded, and returns gRPC's error as it came. The result is nil, a [*Refusal],
// [ErrNoController] (nothing was sent), [ErrOutcomeUnknown], or what the request returned.
func (c *Client) Do(ctx context.Context, repeat Repeat, request func(context.Context, grpc.ClientConnInterface) error) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, requestTimeoutDefault)
		defer cancel()
	}
	var last, lost error // what the last attempt met; the first that was sent and not answered
	giveUp := func(err error) error {
		if lost != nil {
			return lost
		}
		return because(err, last)
	}
	wait := roundWaitMin
	for unanswered := 0; ; {
		active, err := c.Active(ctx)
		if err != nil {
			return giveUp(err)
		}
		sent, err := c.attempt(ctx, active, request)
		if newest := c.newest.Load(); err == nil && active.Lineage < newest {
			err = olderAnswer(active, newest, repeat)
		}
		if err == nil {
			return nil
		}
		refusal, refused := AsRefusal(err)
		switch {
		case refused && refusal.Code != controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER:
			return refusal
		case refused:
			err = refusal
			c.see(refusal.NewestLineage)
			c.Observe(refusal.Active)
		case !isTransport(err):
			return err
		}
		c.forget(active)
		if repeat == RepeatAlways && ctx.Err() != nil {
			return fmt.Errorf("client: %s did not answer in time: %w", active.Address, err)
		}
		if unknown := refused && refusal.OutcomeUnknown || !refused && sent; unknown && repeat != RepeatAlways {
			unanswered++
			if lost == nil {
				lost = fmt.Errorf("%w: %s: %w", ErrOutcomeUnknown, active.Address, err)
			}
			if repeat == RepeatNever || unanswered > 1 || ctx.Err() != nil {
				return lost
			}
		}
		last = err
		if !sleep(ctx, wait) {
			if repeat == RepeatAlways && status.Code(err) == codes.DeadlineExceeded { // the other end noticed first
				return fmt.Errorf("client: %s did not answer in time: %w", active.Address, err)
			}
			return giveUp(fmt.Errorf("%w: %w", ErrNoController, context.Cause(ctx)))
		}
		wait = min(2*wait, roundWaitMax)
	}
}

// olderAnswer is what stands for an answer of a controller that turned out to be left from an older lineage meanwhile: what it
// acknowledged may be lost.
func olderAnswer(active Controller, newest int32, repeat Repeat) error {
	return &Refusal{
		Code: controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER, OutcomeUnknown: repeat != RepeatAlways, NewestLineage: newest,
		Message: fmt.Sprintf("controller %d at %s answered in lineage %d, and the log is of lineage %d by now", active.ID, active.Address, active.Lineage, newest),
	}
}

// because adds to "nobody found" what the last one found had said.
func because(err, last error) error {
	if last == nil {
		return err
	}
	return fmt.Errorf("%w (before that: %v)", err, last)
}

// attempt runs the request once, and tells whether any of it may have left. A watcher ends it when its controller
// does not answer and another is active.
func (c *Client) attempt(ctx context.Context, active Controller, request func(context.Context, grpc.ClientConnInterface) error) (sent bool, err error) {
	cc, err := c.conns.get(active.Address)
	if err != nil {
		return false, err
	}
	mark := new(atomic.Bool)
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, sentKey{}, mark))
	watched := make(chan struct{})
	timer := time.AfterFunc(watchAfter, func() {
		defer close(watched)
		if c.superseded(ctx, active) {
			cancel(errSuperseded)
		}
	})
	err = request(ctx, cc)
	superseded := context.Cause(ctx) == errSuperseded
	cancel(nil)
	if !timer.Stop() {
		<-watched
	}
	if err != nil && superseded {
		err = status.FromContextError(context.Canceled).Err()
	}
	return mark.Load(), err
}

// superseded asks until another controller is active in a newer lineage or under a higher epoch, or the context ends.
func (c *Client) superseded(ctx context.Context, active Controller) bool {
	for ctx.Err() == nil {
		found, err := c.locate(ctx, 0)
		if err == nil && found.rank().above(active.rank()) {
			return true
		}
		if !sleep(ctx, watchInterval) {
			return false
		}
	}
	return false
}

// isTransport tells whether an error speaks of the connection or of time, not of the request.
func isTransport(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	s, ok := status.FromError(err)
	if !ok {
		return false
	}
	switch s.Code() {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return true
	}
	return false
}
