package controller

import (
	"fmt"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// brokerState is the state of a broker as heartbeats move it (Kafka: BrokerControlState). All but shutdownNow can be
// read from the registration, so that a failover changes none.
type brokerState int

const (
	stateFenced brokerState = iota
	stateUnfenced
	stateControlledShutdown
	stateShutdownNow
)

func (s brokerState) String() string {
	return [...]string{"FENCED", "UNFENCED", "CONTROLLED_SHUTDOWN", "SHUTDOWN_NOW"}[s]
}

func stateOf(b image.Broker) brokerState {
	switch {
	case b.Fenced:
		return stateFenced
	case b.InControlledShutdown:
		return stateControlledShutdown
	default:
		return stateUnfenced
	}
}

// BrokerHeartbeat renews a broker's session and moves it through its life.
//
// Refusals of the whole request, in this order:
//
//	NOT_CONTROLLER      the broker has followed a newer lineage of the log
//	STALE_BROKER_EPOCH  the broker is not registered, or under another epoch, older or newer
//	NOT_CONTROLLER      the broker has applied an offset that this controller does not have
//
// An offset of an older lineage counts as none.
//
// Every other heartbeat renews the session, whatever it asks. Then:
//
//	state                wants             and                                    next                 written
//	FENCED               shut down                                                SHUTDOWN_NOW         nothing
//	FENCED               to serve          applied its registration, did not      UNFENCED             unfence, then elections
//	                                       begin to shut down in this life
//	FENCED               otherwise                                                FENCED               nothing
//	UNFENCED             fence, shut down                                         SHUTDOWN_NOW         fence
//	UNFENCED             fence                                                    FENCED               fence
//	UNFENCED             shut down         leads a partition                      CONTROLLED_SHUTDOWN  shutdown
//	UNFENCED             shut down         leads none                             SHUTDOWN_NOW         fence
//	CONTROLLED_SHUTDOWN  anything          leads a partition                      CONTROLLED_SHUTDOWN  nothing
//	CONTROLLED_SHUTDOWN  anything          an active broker has not applied the   CONTROLLED_SHUTDOWN  nothing
//	                                       record that began the shutdown
//	CONTROLLED_SHUTDOWN  anything          otherwise                              SHUTDOWN_NOW         fence
//
// Fence and shutdown take the broker out of every ISR, leadership first, and write its own record last. The offset that
// a shutdown waits for is that of its record and stands in the registration, so that it survives a failover.
// CommittedOffset and ActiveController of the answer are the caller's to fill in, when it answers.
func BrokerHeartbeat(v View, req *controllerpb.BrokerHeartbeatRequest) (Decision[*controllerpb.BrokerHeartbeatResponse], error) {
	var d Decision[*controllerpb.BrokerHeartbeatResponse]
	b, err := checkHeartbeat(v, req)
	if err != nil {
		return d, err
	}
	offset := offsetOf(v.Image, req.GetLineage(), req.GetMetadataOffset())
	liveness := v.Liveness.Heard(b.ID, v.Now, offset, image.Chain(req.GetChain()))
	current, next := stateOf(b), nextState(v, b, req)
	if next != current {
		d.Records = transition(v, b, current, next, req)
		if len(d.Records) > 0 {
			d.because("broker "+b.ID.String(), "%v after %v%s", next, current, wishes(req))
		}
		if next == stateUnfenced {
			liveness = liveness.Unfenced(b.ID, v.Now)
		}
		if current != stateFenced && (next == stateFenced || next == stateShutdownNow) {
			liveness = liveness.Settled(b.ID, v.NextOffset+image.MetadataOffset(len(d.Records)-1))
		}
	}
	d.Liveness = &liveness
	d.Response = &controllerpb.BrokerHeartbeatResponse{
		IsCaughtUp:     offset >= b.RegistrationOffset,
		IsFenced:       next == stateFenced || next == stateShutdownNow,
		ShouldShutDown: next == stateShutdownNow,
	}
	return d, nil
}

// LateHeartbeat renews the session of a heartbeat that waited too long to be decided (KAFKA-15019): contact and offset
// count, wishes do not. The caller answers REQUEST_TIMED_OUT. The refusals are those of BrokerHeartbeat.
func LateHeartbeat(v View, req *controllerpb.BrokerHeartbeatRequest) (Decision[*controllerpb.BrokerHeartbeatResponse], error) {
	var d Decision[*controllerpb.BrokerHeartbeatResponse]
	b, err := checkHeartbeat(v, req)
	if err != nil {
		return d, err
	}
	offset := offsetOf(v.Image, req.GetLineage(), req.GetMetadataOffset())
	liveness := v.Liveness.Heard(b.ID, v.Now, offset, image.Chain(req.GetChain()))
	d.Liveness = &liveness
	return d, nil
}

func checkHeartbeat(v View, req *controllerpb.BrokerHeartbeatRequest) (image.Broker, error) {
	if err := checkLineage(v.Image, image.BrokerID(req.GetBrokerId()), req.GetLineage()); err != nil {
		return image.Broker{}, err
	}
	b, err := checkBrokerEpoch(v.Image, req.GetBrokerId(), req.GetBrokerEpoch())
	if err != nil {
		return b, err
	}
	if offset := offsetOf(v.Image, req.GetLineage(), req.GetMetadataOffset()); offset > v.lastOffset() {
		return b, controllerpb.Refuse(codeNotController,
			"broker %v has applied metadata offset %d, this controller has %d: ask for the active controller", b.ID, offset, v.lastOffset())
	}
	return b, nil
}

// checkBrokerEpoch refuses requests of a broker's earlier life, and of unknown brokers, with STALE_BROKER_EPOCH.
func checkBrokerEpoch(im *image.Image, id int32, epoch int64) (image.Broker, error) {
	b, ok := im.Broker(image.BrokerID(id))
	if !ok {
		return b, controllerpb.Refuse(codeStaleBrokerEpoch, "broker %d is not registered: register it", id)
	}
	if b.Epoch != image.BrokerEpoch(epoch) {
		return b, controllerpb.Refuse(codeStaleBrokerEpoch,
			"broker %d is registered with epoch %d, the request has %d: another process may serve under this id", id, b.Epoch, epoch)
	}
	return b, nil
}

func nextState(v View, b image.Broker, req *controllerpb.BrokerHeartbeatRequest) brokerState {
	current := stateOf(b)
	leads := v.Image.LeaderCount(b.ID) > 0
	switch current {
	case stateFenced:
		switch {
		case req.GetWantShutDown():
			return stateShutdownNow
		case req.GetWantFence(), b.InControlledShutdown, offsetOf(v.Image, req.GetLineage(), req.GetMetadataOffset()) < b.RegistrationOffset:
			return stateFenced
		}
		return stateUnfenced
	case stateUnfenced:
		switch {
		case req.GetWantShutDown() && !req.GetWantFence() && leads:
			return stateControlledShutdown
		case req.GetWantShutDown():
			return stateShutdownNow
		case req.GetWantFence():
			return stateFenced
		}
		return stateUnfenced
	}
	if leads || b.ControlledShutdownOffset > v.Liveness.LowestActiveOffset(v.Image, b.ID) {
		return stateControlledShutdown
	}
	return stateShutdownNow
}

func transition(v View, b image.Broker, current, next brokerState, req *controllerpb.BrokerHeartbeatRequest) []*metadatapb.Record {
	e := newElectorate(v)
	d := departure{electorate: e, broker: b.ID, leavesISR: true, reason: metadatapb.ChangeReason_CHANGE_REASON_WANT_FENCE}
	if req.GetWantShutDown() || current == stateControlledShutdown {
		d.reason = metadatapb.ChangeReason_CHANGE_REASON_CONTROLLED_SHUTDOWN
	}
	switch next {
	case stateUnfenced:
		return unfencing(e, b, v.nowMs())
	case stateControlledShutdown:
		e.bar(b.ID)
		shutdown := true
		return append(d.records(), registrationChange(&metadatapb.BrokerRegistrationChange{
			BrokerId: int32(b.ID), BrokerEpoch: int64(b.Epoch), InControlledShutdown: &shutdown,
			StateSinceMs: v.nowMs(), Reason: d.reason,
		}))
	}
	if current == stateFenced {
		return nil
	}
	e.bar(b.ID)
	return d.fencing(b, v.nowMs())
}

// unfencing returns what unfencing a broker writes: its own record first, then leaders for those of its partitions that
// have none: nobody else can lead now who could not before. It enters no ISR; the leaders bring it back.
func unfencing(e *electorate, b image.Broker, nowMs int64) []*metadatapb.Record {
	fenced := false
	e.welcome(b.ID)
	return append([]*metadatapb.Record{registrationChange(&metadatapb.BrokerRegistrationChange{
		BrokerId: int32(b.ID), BrokerEpoch: int64(b.Epoch), Fenced: &fenced,
		StateSinceMs: nowMs, Reason: metadatapb.ChangeReason_CHANGE_REASON_UNFENCE,
	})}, e.electLeaders(e.im.LeaderlessOn(b.ID), metadatapb.ChangeReason_CHANGE_REASON_UNFENCE)...)
}

func wishes(req *controllerpb.BrokerHeartbeatRequest) string {
	return fmt.Sprintf(" (wants fence=%v shutdown=%v, applied %d)", req.GetWantFence(), req.GetWantShutDown(), req.GetMetadataOffset())
}
