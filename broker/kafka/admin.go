package kafka

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// newTopicID draws the id of a topic to be made, so that the create is answered alike however often it is sent. As in
// Kafka no id begins with a dash, which command lines would take for a flag.
func newTopicID() image.TopicID {
	for {
		var id image.TopicID
		rand.Read(id[:])
		if !id.IsZero() && id.String()[0] != '-' {
			return id
		}
	}
}

// newRequestID draws the name of a change for all its repetitions.
func newRequestID(broker image.BrokerID) string {
	return fmt.Sprintf("kafka-%d-%s", broker, rand.Text())
}

// changeAnswer is what every answer of the controller to a change says.
type changeAnswer interface {
	GetMetadataOffset() int64
	GetUnfencedBrokers() []int32
}

// outcome is what is to be told of a change as a whole, nil if nothing: that it was refused, that nobody knows, or that
// this broker has not applied it in time. It waits until the change can be seen, if any of it was made.
func (s *Server) outcome(ctx context.Context, answer changeAnswer, err error, validateOnly, anyDone bool) error {
	switch {
	case err != nil:
		return forwardError(err)
	case validateOnly || !anyDone:
		return nil
	}
	return s.settle(ctx, answer.GetMetadataOffset(), answer.GetUnfencedBrokers())
}

// itemAnswer is the controller's answer for one item of a change.
type itemAnswer interface{ GetError() *controllerpb.Error }

// anyDone tells whether some item was not refused.
func anyDone[R itemAnswer](results []R) bool {
	return slices.ContainsFunc(results, func(r R) bool { return r.GetError().GetCode() == 0 })
}

// itemOutcome is what is to be told of one item: its own refusal goes before what is to be told of the change as a whole.
func itemOutcome[R itemAnswer](i int, results []R, failure error) error {
	switch {
	case i < len(results) && results[i].GetError().GetCode() != 0:
		return itemError(results[i].GetError())
	case failure != nil:
		return failure
	case i >= len(results):
		return forwardError(errNoAnswer)
	}
	return nil
}

// itemError is the client's form of a refusal of one item; nil for none.
func itemError(e *controllerpb.Error) error {
	if int16(e.GetCode()) == kerr.NotController.Code {
		return forwardError(kerr.NotController)
	}
	return refused(int16(e.GetCode()), e.GetMessage())
}

// settle waits until a change that the controller has made can be seen: by whoever asks this broker next, which is a
// condition of the answer, and then, as clients ask any broker, by the others, which is not. It returns
// REQUEST_TIMED_OUT if this broker has not applied the change in time.
func (s *Server) settle(ctx context.Context, offset int64, brokers []int32) error {
	if offset < 0 {
		return nil
	}
	at := image.MetadataOffset(offset)
	if err := s.backend.Admin.WaitApplied(ctx, at); err != nil {
		return &wireError{code: kerr.RequestTimedOut, text: fmt.Sprintf(
			"committed at metadata offset %d, which broker %d has not applied in time", offset, s.backend.Metadata.BrokerID())}
	}
	others := make([]image.BrokerID, 0, len(brokers))
	for _, id := range brokers {
		if image.BrokerID(id) != s.backend.Metadata.BrokerID() {
			others = append(others, image.BrokerID(id))
		}
	}
	if len(others) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.EveryBrokerMax)
	defer cancel()
	if err := s.backend.Admin.WaitEveryBroker(ctx, at, others); err != nil {
		s.log.LogAttrs(ctx, slog.LevelInfo, "answered before every broker has applied the change",
			slog.Int64("metadataOffset", offset), slog.String("error", err.Error()))
	}
	return nil
}
