package quorum

import (
	"context"
	"errors"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// decideOwn decides an operation that nobody asked for, and sets its context. Its answer may be nil.
func (l *loop) decideOwn(op *operation) {
	name, answer := op.cause.GetName(), op.answer
	op.ctx = context.Background()
	op.answer = func(r result) {
		l.reportOwn(name, r.err)
		if answer != nil {
			answer(r)
		}
	}
	l.decide(op)
}

// reportOwn logs the refusal of an operation of the loop's own, of which nobody else hears. It is tried again, a refusal at
// a time: the same reason is told once.
func (l *loop) reportOwn(name string, err error) {
	if err == nil {
		delete(l.refusals, name)
		return
	}
	if errors.Is(err, ErrNotActive) || errors.Is(err, ErrOutcomeUnknown) || l.refusals[name] == err.Error() {
		return // the end of the claim was told
	}
	l.refusals[name] = err.Error()
	code := ""
	if refused := (*controllerpb.RefusedError)(nil); errors.As(err, &refused) {
		code = refused.Err.GetCode().KafkaName()
	}
	l.logger.Warn("a decision of the controller's own was refused", "cause", name, "code", code, "why", err)
}
