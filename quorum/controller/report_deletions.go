package controller

import (
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

const (
	// deletedTopicsMax bounds the topic ids of one ReplicasDeleted record.
	deletedTopicsMax = 1000
	// failureTextMax bounds the reason that a broker gives for a failed deletion, in bytes.
	failureTextMax = 500
)

// ReportDeletions takes note that a broker holds nothing more of deleted topics, or why it could not remove its data.
//
//	STALE_BROKER_EPOCH  the sender is not registered, or under another epoch
//
// Only what is pending for the broker is written; anything else was reported before, or is a stray of the broker's own.
// The same failure again is not written. A topic that is both deleted and failed counts as deleted.
func ReportDeletions(v View, req *controllerpb.ReportDeletionsRequest) (Decision[*controllerpb.ReportDeletionsResponse], error) {
	var d Decision[*controllerpb.ReportDeletionsResponse]
	b, err := checkBrokerEpoch(v.Image, req.GetBrokerId(), req.GetBrokerEpoch())
	if err != nil {
		return d, err
	}
	done := make(map[image.TopicID]bool)
	var deleted [][]byte
	for _, raw := range req.GetDeleted() {
		if id, _, ok := pendingFor(v.Image, b.ID, raw); ok && !done[id] {
			done[id] = true
			deleted = append(deleted, id.Bytes())
		}
	}
	for len(deleted) > 0 {
		n := min(len(deleted), deletedTopicsMax)
		d.Records = append(d.Records, &metadatapb.Record{Kind: &metadatapb.Record_ReplicasDeleted{ReplicasDeleted: &metadatapb.ReplicasDeleted{
			BrokerId: int32(b.ID), TopicIds: deleted[:n],
		}}})
		deleted = deleted[n:]
	}
	for _, f := range req.GetFailed() {
		id, replica, ok := pendingFor(v.Image, b.ID, f.GetTopicId())
		text := failureText(f.GetFailure())
		if !ok || done[id] || replica.Failure == text {
			continue
		}
		done[id] = true
		d.Records = append(d.Records, &metadatapb.Record{Kind: &metadatapb.Record_ReplicaDeletionFailed{ReplicaDeletionFailed: &metadatapb.ReplicaDeletionFailed{
			BrokerId: int32(b.ID), TopicId: id.Bytes(), Failure: text, FailureSinceMs: v.nowMs(),
		}}})
	}
	d.Response = &controllerpb.ReportDeletionsResponse{MetadataOffset: int64(v.lastOffset()) + int64(len(d.Records))}
	return d, nil
}

func pendingFor(im *image.Image, b image.BrokerID, raw []byte) (image.TopicID, image.PendingReplica, bool) {
	id, err := image.UUIDFrom(raw)
	if err != nil {
		return id, image.PendingReplica{}, false
	}
	pending, ok := im.PendingDeletion(id)
	if !ok {
		return id, image.PendingReplica{}, false
	}
	replica, ok := pending.WaitsFor(b)
	return id, replica, ok
}

// failureText is never empty, for an empty one means that nothing failed.
func failureText(text string) string {
	if text == "" {
		return "no reason given"
	}
	if len(text) <= failureTextMax {
		return text
	}
	end := failureTextMax
	for end > 0 && text[end]&0xc0 == 0x80 { // not within a character
		end--
	}
	return text[:end]
}
