package controller

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// RegisterBroker opens a new life of a broker, or amends the registration of the one it has.
//
// Refusals, in this order:
//
//	INCONSISTENT_CLUSTER_ID         the node was formatted for another cluster
//	NOT_CONTROLLER                  the broker has followed a newer lineage of the log
//	INVALID_REGISTRATION            id, incarnation, directory, listeners, rack, names of features or lost replicas are malformed
//	DUPLICATE_BROKER_REGISTRATION   another incarnation has a session and is not shutting down (KAFKA-16952, KAFKA-19047)
//	INVALID_REGISTRATION            the directory belongs to another broker, or changed within one incarnation; or an
//	                                incarnation that is not fenced names lost replicas
//	UNSUPPORTED_VERSION             a finalized feature level is outside the declared range
//	OFFSET_NOT_AVAILABLE            retriable: the logs were judged by an image older than the broker's own last change, or
//	                                of an older lineage
//
// The same incarnation again: the epoch, whether it is fenced, and what it told about its last stop stay; the rest is
// replaced, and the registration offset moves. If nothing differs nothing is written. A broker finds out that a log has
// lost acknowledged records only by loading it, which it does registered and fenced: then it registers again and names
// those replicas as lost, before it asks to be unfenced. While it is fenced they leave ISR, ELR and last-known ELR as
// below, in the same decision and before its own record. From then on naming lost replicas is refused.
//
// Another incarnation begins fenced, with a new epoch: the metadata offset of its own record. If the old life was not
// fenced yet (its session is over, or it was shutting down) it is taken out of service first (KAFKA-18106). Then, in the
// same decision, for each replica of the broker:
//
//	its log is gone      it leaves ISR, ELR and last-known ELR; so does every replica when the directory is another one, or
//	                     when the id was unregistered, for nothing is known of the life before.
//	                     As the last ISR member it leaves the ISR empty, with no leader and none to elect cleanly.
//	the machine crashed  or nothing is known: it leaves ISR and ELR, for an unsynced tail may be gone, but stays last
//	                     known. As the last member it leaves the ISR empty, with no leader until it is unfenced: then it
//	                     leads as the last known one, and recovers. Without ELR, where nobody is last known, it stays in
//	                     the ISR as the last member instead, and leads when it is unfenced.
//	otherwise            its log is whole: what fencing did stays. A clean stop counts only if its marker names the epoch
//	                     of the life before (KAFKA-18635), the crash of a process only if its directory names no other.
//
// The partitions that the broker leads come first, then other ISR memberships, then ELR, and its own record last.
func RegisterBroker(v View, req *controllerpb.RegisterBrokerRequest) (Decision[*controllerpb.RegisterBrokerResponse], error) {
	var d Decision[*controllerpb.RegisterBrokerResponse]
	r, err := checkRegistration(v, req)
	if err != nil {
		return d, err
	}
	if r.known && r.old.IncarnationID == r.incarnation {
		return amendRegistration(v, req, r), nil
	}
	subject := "broker " + r.id.String()
	if r.known && !r.old.Fenced {
		d.because(subject, "the life with epoch %d was not fenced yet: it is taken out of service first", r.old.Epoch)
	}
	e := newElectorate(v)
	e.bar(r.id)
	departure := departure{
		electorate: e, broker: r.id, leavesISR: r.known && !r.old.Fenced, fate: r.fate,
		reason: metadatapb.ChangeReason_CHANGE_REASON_NEW_INCARNATION,
	}
	d.Records = departure.records()
	offset := v.NextOffset + image.MetadataOffset(len(d.Records))
	record := newRegistration(req)
	record.BrokerEpoch, record.RegistrationOffset = int64(offset), int64(offset)
	record.Fenced, record.StateSinceMs, record.StopKind = true, v.nowMs(), r.stop
	record.LostReplicas = int32(min(len(r.lost), 1<<31-1))
	d.Records = append(d.Records, &metadatapb.Record{Kind: &metadatapb.Record_RegisterBroker{RegisterBroker: record}})
	liveness := v.Liveness.Registered(r.id, v.Now, offset)
	d.Liveness = &liveness
	d.Response = &controllerpb.RegisterBrokerResponse{BrokerEpoch: int64(offset), RegistrationOffset: int64(offset)}
	d.because(subject, "incarnation %v begins: %s, %d replicas named as lost", r.incarnation, r.before(), len(r.lost))
	return d, nil
}

func amendRegistration(v View, req *controllerpb.RegisterBrokerRequest, r *registration) Decision[*controllerpb.RegisterBrokerResponse] {
	var d Decision[*controllerpb.RegisterBrokerResponse]
	old := r.old
	departure := departure{
		electorate: newElectorate(v), broker: r.id, fate: r.amendedFate,
		reason: metadatapb.ChangeReason_CHANGE_REASON_LOST_LOG,
	}
	departure.electorate.bar(r.id)
	if len(r.lost) > 0 {
		d.Records = departure.records()
	}
	left := len(d.Records)
	d.Response = &controllerpb.RegisterBrokerResponse{BrokerEpoch: int64(old.Epoch), RegistrationOffset: int64(old.RegistrationOffset)}
	if left == 0 && sameRegistration(old, req) {
		return d
	}
	record := newRegistration(req)
	offset := v.NextOffset + image.MetadataOffset(left)
	record.BrokerEpoch, record.RegistrationOffset = int64(old.Epoch), int64(offset)
	record.Fenced, record.InControlledShutdown = old.Fenced, old.InControlledShutdown
	record.StopKind, record.PreviousBrokerEpoch = old.StopKind, nil
	record.LostReplicas = int32(min(int64(old.LostReplicas)+int64(left), 1<<31-1))
	if old.PreviousEpoch != image.NoBrokerEpoch {
		previous := int64(old.PreviousEpoch)
		record.PreviousBrokerEpoch = &previous
	}
	record.StateSinceMs = old.StateSinceMs
	if old.ControlledShutdownOffset != image.NoOffset {
		shutdown := int64(old.ControlledShutdownOffset)
		record.ControlledShutdownOffset = &shutdown
	}
	d.Records = append(d.Records, &metadatapb.Record{Kind: &metadatapb.Record_RegisterBroker{RegisterBroker: record}})
	d.Response.RegistrationOffset = int64(offset)
	state, _ := v.Liveness.HeartbeatState(r.id)
	liveness := v.Liveness.Registered(r.id, v.Now, state.SettledOffset).Unfenced(r.id, state.UnfencedSince) // it serves as before
	d.Liveness = &liveness
	what := "registration amended"
	if left > 0 {
		what = fmt.Sprintf("registration amended: loading its logs showed %d replicas as lost", left)
	}
	d.because("broker "+r.id.String(), "%s", what)
	return d
}

func newRegistration(req *controllerpb.RegisterBrokerRequest) *metadatapb.RegisterBroker {
	features := plainFeatures(req.GetFeatures())
	slices.SortFunc(features, compareFeatures)
	return &metadatapb.RegisterBroker{
		BrokerId: req.GetBrokerId(), IncarnationId: req.GetIncarnationId(), DirectoryId: req.GetDirectoryId(),
		Listeners: plainListeners(req.GetListeners()), Rack: req.Rack, Features: features,
		StopKind: req.GetStopKind(), PreviousBrokerEpoch: req.PreviousBrokerEpoch,
	}
}

func sameRegistration(old image.Broker, req *controllerpb.RegisterBrokerRequest) bool {
	if (old.Rack == nil) != (req.Rack == nil) || old.Rack != nil && *old.Rack != req.GetRack() {
		return false
	}
	features := slices.Clone(req.GetFeatures())
	slices.SortFunc(features, compareFeatures)
	return sameListeners(old.Listeners, req.GetListeners()) && sameFeatures(old.Features, features)
}
