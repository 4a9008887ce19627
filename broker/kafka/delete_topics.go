package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

const deleteTopicIDMin = 6 // KIP-516

// deleteTopics forwards deletes to the active controller, which judges everything but the following, each on its row:
//   - neither name nor id, or both, or a topic named twice: INVALID_REQUEST
//   - no answer of the controller in time, or none that is certain: REQUEST_TIMED_OUT, which means "perhaps done"
//
// An unknown id is UNKNOWN_TOPIC_ID, an unknown name UNKNOWN_TOPIC_OR_PARTITION. The answer waits as that of
// createTopics does; it does not wait for the data to be gone.
func (s *Server) deleteTopics(r *request) {
	req := r.body.(*kmsg.DeleteTopicsRequest)
	s.forward(r, req.TimeoutMillis, func(ctx context.Context) {
		r.reply(s.deleteTopicsVia(ctx, r, req))
	})
}

// deleteRow is one topic of the request, by name or by id.
type deleteRow struct {
	name *string
	id   image.TopicID
}

type deleteKey struct {
	name string
	id   image.TopicID
}

func (d deleteRow) key() deleteKey {
	k := deleteKey{id: d.id}
	if d.name != nil {
		k.name = *d.name
	}
	return k
}

func deleteRows(r *request, req *kmsg.DeleteTopicsRequest) []deleteRow {
	var rows []deleteRow
	if r.version < deleteTopicIDMin {
		for _, name := range req.TopicNames {
			rows = append(rows, deleteRow{name: &name})
		}
		return rows
	}
	for _, t := range req.Topics {
		rows = append(rows, deleteRow{name: t.Topic, id: t.TopicID})
	}
	return rows
}

func (s *Server) deleteTopicsVia(ctx context.Context, r *request, req *kmsg.DeleteTopicsRequest) *kmsg.DeleteTopicsResponse {
	rows := deleteRows(r, req)
	errs := make([]error, len(rows))
	place := map[deleteKey]int{}
	ask := &controllerpb.DeleteTopicsRequest{RequestId: newRequestID(s.backend.Metadata.BrokerID())}
	for i, row := range rows {
		first, twice := place[row.key()]
		switch {
		case (row.name != nil) == !row.id.IsZero():
			errs[i] = refused(kerr.InvalidRequest.Code, "a topic is named either by name or by id: give one of them")
		case twice:
			errs[i] = refused(kerr.InvalidRequest.Code, "the request names the topic twice: name it once")
			errs[first] = errs[i]
		default:
			place[row.key()] = i
		}
	}
	for i, row := range rows {
		if errs[i] != nil {
			continue
		}
		t := &controllerpb.DeletableTopic{Name: row.name}
		if row.name == nil {
			t.TopicId = row.id.Bytes()
		}
		ask.Topics = append(ask.Topics, t)
	}
	results := s.askDelete(ctx, r, ask)

	resp := response[*kmsg.DeleteTopicsResponse](r)
	resp.Topics = make([]kmsg.DeleteTopicsResponseTopic, 0, len(rows))
	for i, row := range rows {
		out := kmsg.NewDeleteTopicsResponseTopic()
		out.Topic, out.TopicID = row.name, row.id
		if errs[i] == nil {
			res := results[row.key()]
			errs[i] = res.err
			if out.Topic == nil {
				out.Topic = res.name
			}
			if out.TopicID == (image.TopicID{}) {
				out.TopicID = res.id
			}
		}
		if out.Topic == nil && r.version < deleteTopicIDMin {
			out.Topic = new(string)
		}
		out.ErrorCode, out.ErrorMessage = codeOf(errs[i]), messageOf(errs[i])
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// deleteResult is what became of one row.
type deleteResult struct {
	name *string
	id   image.TopicID
	err  error
}

// askDelete asks the controller and waits until the deletes can be seen. It has a result for each topic asked for.
func (s *Server) askDelete(ctx context.Context, r *request, ask *controllerpb.DeleteTopicsRequest) map[deleteKey]deleteResult {
	results := map[deleteKey]deleteResult{}
	if len(ask.Topics) == 0 {
		return results
	}
	answer, err := s.backend.Admin.DeleteTopics(ctx, r.caller, ask)
	if err != nil {
		err = forwardError(err)
	}
	done := false
	byKey := map[deleteKey]*controllerpb.DeletableTopicResult{}
	for i, res := range answer.GetTopics() {
		if i < len(ask.Topics) { // in the order of the request
			byKey[rowOf(ask.Topics[i]).key()] = res
		}
		done = done || res.GetError().GetCode() == 0
	}
	var unseen error
	if err == nil && done {
		unseen = s.settle(ctx, answer.GetMetadataOffset(), answer.GetUnfencedBrokers())
	}
	for _, t := range ask.Topics {
		row := rowOf(t)
		out := deleteResult{name: row.name, id: row.id, err: err}
		if res := byKey[row.key()]; res != nil {
			if out.name == nil {
				out.name = res.Name
			}
			if id, err := image.UUIDFrom(res.GetTopicId()); err == nil {
				out.id = id
			}
			out.err = itemError(res.GetError())
			if out.err == nil {
				out.err = unseen
			}
		} else if err == nil {
			out.err = forwardError(errors.New("the controller did not answer for this topic"))
		}
		results[row.key()] = out
	}
	return results
}

func rowOf(t *controllerpb.DeletableTopic) deleteRow {
	row := deleteRow{name: t.Name}
	if id, err := image.UUIDFrom(t.GetTopicId()); err == nil {
		row.id = id
	}
	return row
}
