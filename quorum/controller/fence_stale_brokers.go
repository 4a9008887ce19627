package controller

import (
	"time"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// fencedMembershipsMax bounds the ISR memberships of the brokers that one decision fences, unless one of them has more: about a
// second of work, and some ten megabytes of entries on their way to the log.
const fencedMembershipsMax = 200_000

// HasStale tells whether FenceStaleBrokers would fence anybody.
func HasStale(v View) bool { return len(staleBrokers(v)) > 0 }

func staleBrokers(v View) []image.BrokerID {
	return v.Liveness.Stale(v.Image, v.Now, v.Limits.SessionTimeout)
}

// nextToFence returns the stale brokers that the next decision fences, which are as many as have at most max memberships
// together but at least one, and all of them.
func nextToFence(v View, max int) (next, all []image.BrokerID) {
	all = staleBrokers(v)
	memberships := 0
	for i, id := range all {
		memberships += v.Image.ISRCount(id)
		if i > 0 && memberships > max {
			return all[:i], all
		}
	}
	return all, all
}

// FenceStaleBrokers fences the brokers whose session is over, the longest silent first: all of them, or as many as have
// 200,000 ISR memberships together, and at least one; the caller decides again until nobody is stale.
//
//   - Only unfenced brokers have sessions. A broker in controlled shutdown has one too.
//   - Of each broker: the partitions it leads, its other ISR memberships, then the record that fences it. Each broker's part is
//     complete before the next begins, and none is divided between two decisions.
//   - No stale broker is made leader while another can be, also if it is a later decision that fences it.
//   - A partition whose last in-sync replica is fenced has no leader. Without ELR the ISR keeps that replica, with ELR
//     the replica becomes eligible (KIP-966).
//   - Nobody stale: no records.
func FenceStaleBrokers(v View) (Decision[Done], error) {
	return fenceStale(v, fencedMembershipsMax), nil
}

func fenceStale(v View, max int) Decision[Done] {
	var d Decision[Done]
	next, stale := nextToFence(v, max)
	if len(next) == 0 {
		return d
	}
	e := newElectorate(v)
	e.doom(stale)
	var before *changedPartitions
	if len(next) > 1 {
		before = newChangedPartitions()
	}
	liveness := v.Liveness
	for _, id := range next {
		b, _ := v.Image.Broker(id)
		state, _ := liveness.HeartbeatState(id)
		e.bar(id)
		departure := departure{
			electorate: e, broker: id, leavesISR: true, before: before,
			reason: metadatapb.ChangeReason_CHANGE_REASON_SESSION,
		}
		d.Records = append(d.Records, departure.fencing(b, v.nowMs())...)
		liveness = liveness.Settled(id, v.NextOffset+image.MetadataOffset(len(d.Records)-1))
		d.because("broker "+id.String(), "fenced: silent for %v, broker.session.timeout.ms is %d",
			v.Now.Sub(state.LastContact).Round(time.Millisecond), v.Limits.SessionTimeout.Milliseconds())
	}
	d.Liveness = &liveness
	return d
}
