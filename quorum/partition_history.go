package quorum

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/history"
)

// formerTopicsMax bounds the earlier topics of one name that an answer lists; the newest are.
const formerTopicsMax = 20

// ReadHistory implements [reader.LogSource]. It goes over the log twice: first for what is missing and for the state before
// what is there, then for the events.
func (n *Node) ReadHistory(ctx context.Context, im *image.Image, r *controllerpb.ReadHistoryRequest, take func(*controllerpb.ReadHistoryResponse) error) error {
	id, name, err := n.findTopic(ctx, im, r)
	if err != nil {
		return err
	}
	survey, err := n.survey(ctx, im, id, r.GetPartition())
	if err != nil {
		return err
	}
	if name == "" {
		name = survey.name
	}
	if err := survey.refuse(im, id, r.GetPartition()); err != nil {
		return err
	}
	head := &controllerpb.HistoryHead{
		MetadataOffset: int64(im.Offset()), Topic: name, TopicId: id.Bytes(), Partition: r.GetPartition(), CompleteFrom: int64(survey.completeFrom),
	}
	if name != "" {
		if head.Former, err = n.formerTopics(ctx, im, name, id); err != nil {
			return err
		}
	}
	if err := take(&controllerpb.ReadHistoryResponse{Piece: &controllerpb.ReadHistoryResponse_Head{Head: head}}); err != nil {
		return err
	}
	return n.sendEvents(ctx, im, id, survey, take)
}

// sendEvents is the second pass.
func (n *Node) sendEvents(ctx context.Context, im *image.Image, id image.TopicID, survey *survey, take func(*controllerpb.ReadHistoryResponse) error) error {
	tracker := history.NewTracker(id, survey.partition)
	return n.readPast(ctx, 0, im.Offset(), &history.Topic{ID: id}, func(p history.Piece) error {
		if p.Gap != nil {
			tracker.Gap()
			if p.Gap.To+1 == survey.completeFrom {
				tracker = survey.seeded(im, id)
			}
			return take(&controllerpb.ReadHistoryResponse{Piece: &controllerpb.ReadHistoryResponse_Gap{Gap: gapMessage(*p.Gap)}})
		}
		return tracker.Entry(p.Entry, func(e *controllerpb.PartitionEvent) error {
			if e.GetMetadataOffset() > int64(im.Offset()) {
				return nil
			}
			return take(&controllerpb.ReadHistoryResponse{Piece: &controllerpb.ReadHistoryResponse_Event{Event: e}})
		})
	})
}

// survey is what the first pass finds.
type survey struct {
	partition    int32
	completeFrom image.MetadataOffset
	tracker      *history.Tracker
	name         string
	events       int
}

func (n *Node) survey(ctx context.Context, im *image.Image, id image.TopicID, partition int32) (*survey, error) {
	s := &survey{partition: partition, tracker: history.NewTracker(id, partition)}
	err := n.readPast(ctx, 0, im.Offset(), &history.Topic{ID: id}, func(p history.Piece) error {
		if p.Gap != nil {
			s.completeFrom = p.Gap.To + 1
			s.tracker.Gap()
			return nil
		}
		for t := range topicsMade(p.Entry, id[:]) {
			if bytes.Equal(t.GetTopicId(), id[:]) {
				s.name = t.GetName()
			}
		}
		return s.tracker.Entry(p.Entry, func(*controllerpb.PartitionEvent) error { s.events++; return nil })
	})
	return s, err
}

// refuse tells of a partition that nothing is known of.
func (s *survey) refuse(im *image.Image, id image.TopicID, partition int32) error {
	t, exists := im.TopicByID(id)
	switch {
	case exists && int(partition) >= t.Len():
		return unknownPartition("topic %s has %d partitions, 0 to %d; asked for %d", t.Name(), t.Len(), t.Len()-1, partition)
	case !exists && s.events == 0:
		return unknownPartition("no topic with id %v has or had a partition %d, as far back as log and history reach (metadata offset %d)",
			id, partition, s.completeFrom)
	}
	return nil
}

// seeded is a tracker for what follows the last gap.
func (s *survey) seeded(im *image.Image, id image.TopicID) *history.Tracker {
	p, ok := im.Partition(image.PartitionID{Topic: id, Partition: s.partition})
	if s.tracker.Created() {
		return history.NewTrackerBehind(id, s.partition)
	}
	if !ok {
		t := history.NewTracker(id, s.partition)
		t.Gap()
		return t
	}
	return s.tracker.Seed(p)
}

// findTopic finds the topic that is asked for.
func (n *Node) findTopic(ctx context.Context, im *image.Image, r *controllerpb.ReadHistoryRequest) (image.TopicID, string, error) {
	if (r.GetTopic() == "") == (len(r.GetTopicId()) == 0) {
		return image.TopicID{}, "", invalidRequest("a topic is named by its name or by its id, one of both")
	}
	if r.GetPartition() < 0 {
		return image.TopicID{}, "", invalidRequest("partition %d is below 0", r.GetPartition())
	}
	if len(r.GetTopicId()) > 0 {
		id, err := image.UUIDFrom(r.GetTopicId())
		if err != nil {
			return image.TopicID{}, "", invalidRequest("topic id: %v", err)
		}
		if t, ok := im.TopicByID(id); ok {
			return id, t.Name(), nil
		}
		pending, _ := im.PendingDeletion(id)
		return id, pending.Name, nil
	}
	if t, ok := im.TopicByName(r.GetTopic()); ok {
		return t.ID(), t.Name(), nil
	}
	former, err := n.formerTopics(ctx, im, r.GetTopic(), image.TopicID{})
	if err != nil {
		return image.TopicID{}, "", err
	}
	if len(former) == 0 {
		return image.TopicID{}, "", unknownPartition("topic %s does not exist at metadata offset %d, and no deleted one of this name is known; quorate topic list shows all",
			r.GetTopic(), im.Offset())
	}
	var ids []string
	for _, f := range former {
		id, _ := image.UUIDFrom(f.GetTopicId())
		ids = append(ids, fmt.Sprintf("%v (created at offset %d)", id, f.GetCreatedOffset()))
	}
	return image.TopicID{}, "", unknownPartition("topic %s does not exist at metadata offset %d; deleted ones had this name: %s; ask for one by --topic-id",
		r.GetTopic(), im.Offset(), strings.Join(ids, ", "))
}

// formerTopics are the other topics that had a name, oldest first.
func (n *Node) formerTopics(ctx context.Context, im *image.Image, name string, except image.TopicID) ([]*controllerpb.FormerTopic, error) {
	var out []*controllerpb.FormerTopic
	err := n.readPast(ctx, 0, im.Offset(), &history.Topic{Name: name}, func(p history.Piece) error {
		if p.Entry == nil {
			return nil
		}
		for t, offset := range topicsMade(p.Entry, []byte(name)) {
			if t.GetName() != name || bytes.Equal(t.GetTopicId(), except[:]) || int64(offset) > int64(im.Offset()) {
				continue
			}
			if len(out) == formerTopicsMax {
				out = append(out[:0], out[1:]...)
			}
			out = append(out, &controllerpb.FormerTopic{TopicId: t.GetTopicId(), CreatedOffset: int64(offset)})
		}
		return nil
	})
	return out, err
}

// topicsMade yields the Topic records of an entry that holds the bytes, each with its offset.
func topicsMade(e *fsm.Entry, holds []byte) func(func(*metadatapb.Topic, image.MetadataOffset) bool) {
	return func(yield func(*metadatapb.Topic, image.MetadataOffset) bool) {
		if !bytes.Contains(e.Bytes, holds) {
			return
		}
		raw, err := record.ScanEntry(e.Bytes)
		if err != nil {
			return // it was read before
		}
		for i, b := range raw.Records() {
			r, err := record.Decode(b)
			if err != nil {
				return
			}
			if t := r.GetTopic(); t != nil && !yield(t, e.BaseOffset+image.MetadataOffset(i)) {
				return
			}
		}
	}
}

func unknownPartition(format string, args ...any) error {
	return client.RefusalStatus(codes.NotFound, &controllerpb.RefusalDetail{
		Error: controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION, format, args...),
	}).Err()
}

func invalidRequest(format string, args ...any) error {
	return client.RefusalStatus(codes.InvalidArgument, &controllerpb.RefusalDetail{
		Error: controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST, format, args...),
	}).Err()
}
