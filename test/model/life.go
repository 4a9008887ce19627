package model

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// heartbeat is that of a broker which wants to serve, or to stop. Only one that changes something is of interest.
func (w *World) heartbeat(id image.BrokerID) *World {
	b := w.broker(id)
	if b.stopping {
		return w.heartbeatToStop(b)
	}
	known, ok := w.newest.im.Broker(id)
	if !b.begun || !ok || known.Epoch != b.epoch || !known.Fenced {
		return nil
	}
	at := w.at[id-1].im.Offset()
	return w.decide(request{kind: doHeartbeat, a: int8(id), at: at}, func(n *node) decided {
		d, err := controller.BrokerHeartbeat(n.view(n.live, begin), &controllerpb.BrokerHeartbeatRequest{
			BrokerId: int32(id), BrokerEpoch: int64(b.epoch), MetadataOffset: int64(at),
		})
		return plain(d, err)
	})
}

// heartbeatToStop asks for a controlled shutdown. Every other broker has told just before how far it is.
func (w *World) heartbeatToStop(b *broker) *World {
	r := request{kind: doHeartbeat, a: int8(b.id), b: 1, at: w.at[b.id-1].im.Offset()}
	for i, other := range w.brokers {
		r.heard[i] = image.NoOffset
		if known, ok := w.newest.im.Broker(other.id); ok && known.Epoch == other.epoch && other.begun {
			r.heard[i] = w.at[i].im.Offset()
		}
	}
	return w.decide(r, func(n *node) decided {
		live := n.live
		for i, offset := range r.heard {
			if offset != image.NoOffset {
				live = live.Heard(brokerIDs[i], begin, offset, w.at[i].im.Chain())
			}
		}
		d, err := controller.BrokerHeartbeat(n.view(live, begin), &controllerpb.BrokerHeartbeatRequest{
			BrokerId: int32(b.id), BrokerEpoch: int64(b.epoch), MetadataOffset: int64(r.at), WantShutDown: true,
		})
		out := plain(d, err)
		if err == nil && d.Response.ShouldShutDown {
			out.answer = &answer{broker: int(b.id), life: b.life, exits: true}
		}
		return out
	})
}

// stop tells a broker to stop. It hands over first, and may exit at any time: its patience is bounded.
func (w *World) stop(id image.BrokerID) *World {
	next := w.fork()
	if b := w.broker(id); !b.begun || b.stopping || !next.spend(Stop) {
		return nil
	}
	next.edit(id).stopping = true
	return next
}

// exit ends a process that stops, with its logs synced.
func (w *World) exit(id image.BrokerID) *World {
	if !w.broker(id).stopping {
		return nil
	}
	next := w.fork()
	next.edit(id).end(metadatapb.StopKind_STOP_KIND_CLEAN)
	return next
}

// register opens the life that a crashed broker is in. The session of the life before is over by then.
func (w *World) register(id image.BrokerID, answerLost bool) *World {
	b := w.broker(id)
	if b.epoch != image.NoBrokerEpoch || w.isAnswering(id) {
		return nil
	}
	start := w.fork()
	r := request{kind: doRegister, a: int8(id), b: b.life, stop: b.stop, previous: b.previous, wiped: b.wiped, directory: b.directory}
	if answerLost {
		if !start.spend(Lost) {
			return nil
		}
		r.kind = doRegisterLost
	}
	at := w.at[id-1].im
	r.at = at.Offset()
	return start.decide(r, func(n *node) decided {
		live, now := n.expired(func(other image.BrokerID) bool { return other == id })
		d, err := controller.RegisterBroker(n.view(live, now), registration(b, at))
		out := plain(d, err)
		if err == nil && !answerLost {
			out.answer = &answer{
				broker: int(id), life: b.life, epoch: image.BrokerEpoch(d.Response.BrokerEpoch),
				offset: image.MetadataOffset(d.Response.RegistrationOffset),
			}
		}
		return out
	})
}

// isAnswering tells whether an answer to the broker waits for its commit.
func (w *World) isAnswering(id image.BrokerID) bool {
	for d := w.newest; d != w.tip; d = d.parent {
		if d.answer != nil && d.answer.broker == int(id) && d.answer.life == w.broker(id).life {
			return true
		}
	}
	return false
}

func incarnation(id image.BrokerID, life int8) image.UUID {
	return uuid(fmt.Sprintf("inc-%d.%d", id, life))
}

// registration is what a starting broker tells of itself, judged by the metadata that it has.
func registration(b *broker, at *image.Image) *controllerpb.RegisterBrokerRequest {
	i, d := incarnation(b.id, b.life), uuid(fmt.Sprintf("dir-%v.%d", b.id, b.directory))
	r := &controllerpb.RegisterBrokerRequest{
		ClusterId: clusterID, BrokerId: int32(b.id), IncarnationId: i[:], DirectoryId: d[:], StopKind: b.stop, JudgedOffset: int64(at.Offset()),
		Listeners: []*metadatapb.Listener{{Name: "KAFKA", Host: "localhost", Port: uint32(9000 + b.id)}},
		Features:  image.DeclaredFeatures(),
	}
	if b.previous != image.NoBrokerEpoch {
		previous := int64(b.previous)
		r.PreviousBrokerEpoch = &previous
	}
	if !b.wiped {
		return r
	}
	lost := map[image.PartitionID]bool{}
	for id := range at.PartitionsWithISR(b.id) {
		lost[id] = true
	}
	for id := range at.PartitionsWithELR(b.id) {
		lost[id] = true
	}
	for id := range lost {
		r.LostReplicas = append(r.LostReplicas, &controllerpb.LostReplica{TopicId: id.Topic.Bytes(), Partitions: []int32{id.Partition}})
	}
	return r
}

// crashKind is what a crash takes away.
type crashKind int8

const (
	// crashProcess leaves the logs as they are, crashMachine takes their unsynced tails, crashDisk all of them, and
	// crashDirectory the directory with what it said of itself.
	crashProcess crashKind = iota
	crashMachine
	crashDisk
	crashDirectory
	crashKinds
)

// crash ends a broker's process. It is down until it registers.
func (w *World) crash(id image.BrokerID, how crashKind) *World {
	next := w.fork()
	if w.broker(id).epoch == image.NoBrokerEpoch || !next.spend(Crash) {
		return nil
	}
	if how != crashProcess && !slices.ContainsFunc(w.broker(id).parts, func(r replica) bool { return r.log.end() > r.log.synced }) {
		return nil // it takes nothing away
	}
	w.m.trace("broker %d is down", id)
	b := next.edit(id)
	b.crash(how)
	return next
}

// end begins the time between two processes.
func (b *broker) end(how metadatapb.StopKind) {
	b.stop, b.previous = how, image.NoBrokerEpoch
	if how == metadatapb.StopKind_STOP_KIND_CLEAN {
		b.previous = b.epoch
	}
	b.life++
	b.epoch, b.registered, b.begun, b.stopping = image.NoBrokerEpoch, 0, false, false
	for i := range b.parts {
		r := newReplica()
		r.log = b.parts[i].log
		if how == metadatapb.StopKind_STOP_KIND_CLEAN {
			r.log.synced = r.log.end()
		}
		r.log.reload(r.log.end())
		b.parts[i] = r
	}
}

func (b *broker) crash(how crashKind) {
	switch how {
	case crashMachine:
		b.end(metadatapb.StopKind_STOP_KIND_MACHINE_CRASH)
	case crashDirectory:
		b.end(metadatapb.StopKind_STOP_KIND_NEVER_RAN)
		b.directory++
	default:
		b.end(metadatapb.StopKind_STOP_KIND_PROCESS_CRASH)
	}
	for i := range b.parts {
		l := &b.parts[i].log
		end := l.end()
		switch how {
		case crashMachine:
			l.reload(l.synced)
			l.high = 0
		case crashDisk, crashDirectory:
			*l, b.wiped = plog{}, true
		}
		b.short = b.short || l.end() < end
	}
}
