package controller

import (
	"time"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// HasStale tells whether FenceStaleBrokers would fence anybody.
func HasStale(v View) bool { return len(StaleBrokers(v)) > 0 }

// StaleBrokers returns the brokers that FenceStaleBrokers fences.
func StaleBrokers(v View) []image.BrokerID {
	return v.Liveness.Stale(v.Image, v.Now, v.Limits.SessionTimeout)
}

// FenceStaleBrokers fences every broker whose session is over, the longest silent first. One decision does it for all,
// so that none of them is made leader while another can be; each broker's part is complete before the next begins.
//
//   - Only unfenced brokers have sessions. A broker in controlled shutdown has one too.
//   - Of each broker: the partitions it leads, its other ISR memberships, then the record that fences it.
//   - A partition whose last in-sync replica is fenced has no leader. Without ELR the ISR keeps that replica, with ELR
//     the replica becomes eligible (KIP-966).
//   - Nobody stale: no records.
func FenceStaleBrokers(v View) (Decision[Done], error) {
	var d Decision[Done]
	stale := StaleBrokers(v)
	if len(stale) == 0 {
		return d, nil
	}
	e := newElectorate(v)
	e.doom(stale)
	var before *changedPartitions
	if len(stale) > 1 {
		before = newChangedPartitions()
	}
	liveness := v.Liveness
	for _, id := range stale {
		b, _ := v.Image.Broker(id)
		beat, _ := liveness.Beat(id)
		e.bar(id)
		departure := departure{
			electorate: e, broker: id, leavesISR: true, before: before,
			reason: metadatapb.ChangeReason_CHANGE_REASON_SESSION,
		}
		d.Records = append(d.Records, departure.fencing(b, v.nowMs())...)
		liveness = liveness.Settled(id, v.NextOffset+image.MetadataOffset(len(d.Records)-1))
		d.because("broker "+id.String(), "fenced: silent for %v, broker.session.timeout.ms is %d",
			v.Now.Sub(beat.LastContact).Round(time.Millisecond), v.Limits.SessionTimeout.Milliseconds())
	}
	d.Liveness = &liveness
	return d, nil
}
