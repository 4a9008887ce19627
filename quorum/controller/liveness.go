package controller

import (
	"math"
	"slices"
	"time"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// BrokerHeartbeatState is what the active controller knows of one broker beside its registration.
type BrokerHeartbeatState struct {
	Broker image.BrokerID
	// LastContact is when the broker was heard last, or when its session began anew.
	LastContact time.Time
	// MetadataOffset is what the broker has applied and acted on, as its last heartbeat told; [image.NoOffset] if none
	// came since the claim or since its registration.
	MetadataOffset image.MetadataOffset
	// Chain belongs to MetadataOffset.
	Chain image.Chain
	// SettledOffset is an offset from which on no record put the broker into an ISR: it is fenced since then.
	// A new incarnation must have judged its logs by an image at least as new.
	SettledOffset image.MetadataOffset
	// UnfencedSince is when this controller unfenced the broker, or when its claim began if it found it unfenced.
	UnfencedSince time.Time
}

// Liveness is the soft state of one claim: when each broker was heard and what it has applied. It is a value: updates
// return another one and leave the receiver as it was. It dies with the claim.
//
// Whether a broker is fenced is not in here: the pending image says so.
type Liveness struct {
	states []BrokerHeartbeatState // ascending broker id
	// lastTick is when the controller ran last.
	lastTick time.Time
}

// NewLiveness gives every registered broker a full new session. A claim begins with it, so that a broker that died
// together with the last active controller is fenced one session after the claim, heard from or not.
func NewLiveness(im *image.Image, now time.Time) Liveness {
	lv := Liveness{lastTick: now}
	for b := range im.Brokers() {
		lv.states = append(lv.states, BrokerHeartbeatState{
			Broker: b.ID, LastContact: now, MetadataOffset: image.NoOffset, SettledOffset: im.Offset(), UnfencedSince: now,
		})
	}
	return lv
}

// Tick notes that the controller runs. After a gap longer than one heartbeat interval it could not hear the brokers,
// which says nothing about them: every session begins anew, and renewed is true. It is called at each turn of the
// controller's loop, before anything is decided.
func (lv Liveness) Tick(now time.Time, heartbeatInterval time.Duration) (next Liveness, renewed bool) {
	if now.Sub(lv.lastTick) > heartbeatInterval {
		return lv.Renewed(now), true
	}
	lv.lastTick = now
	return lv, false
}

// Renewed gives every broker a full new session.
func (lv Liveness) Renewed(now time.Time) Liveness {
	next := Liveness{states: slices.Clone(lv.states), lastTick: now}
	for i := range next.states {
		next.states[i].LastContact = now
	}
	return next
}

// HeartbeatState returns what is known of a broker.
func (lv Liveness) HeartbeatState(id image.BrokerID) (BrokerHeartbeatState, bool) {
	if i, ok := lv.find(id); ok {
		return lv.states[i], true
	}
	return BrokerHeartbeatState{}, false
}

func (lv Liveness) find(id image.BrokerID) (int, bool) {
	return slices.BinarySearchFunc(lv.states, id, func(b BrokerHeartbeatState, id image.BrokerID) int { return int(b.Broker) - int(id) })
}

// with returns a copy in which the broker's state went through change; a broker not known yet gets one.
func (lv Liveness) with(id image.BrokerID, change func(*BrokerHeartbeatState)) Liveness {
	i, ok := lv.find(id)
	next := Liveness{lastTick: lv.lastTick}
	if ok {
		next.states = slices.Clone(lv.states)
	} else {
		fresh := BrokerHeartbeatState{Broker: id, MetadataOffset: image.NoOffset, SettledOffset: image.NoOffset}
		next.states = slices.Insert(slices.Clone(lv.states), i, fresh)
	}
	change(&next.states[i])
	return next
}

// Heard notes a heartbeat.
func (lv Liveness) Heard(id image.BrokerID, now time.Time, offset image.MetadataOffset, chain image.Chain) Liveness {
	return lv.with(id, func(b *BrokerHeartbeatState) { b.LastContact, b.MetadataOffset, b.Chain = now, offset, chain })
}

// Contact is a heartbeat that has arrived and may not have been decided yet.
type Contact struct {
	Heartbeat *controllerpb.BrokerHeartbeatRequest
	// At is when it arrived.
	At time.Time
}

// Contacts returns the liveness with the sessions renewed of the brokers that have spoken. What they have applied and what
// they wish is for [BrokerHeartbeat]; a heartbeat that it refuses does not count here either.
func Contacts(v View, heard map[image.BrokerID]Contact) Liveness {
	next := Liveness{states: slices.Clone(v.Liveness.states), lastTick: v.Liveness.lastTick}
	for id, c := range heard {
		i, ok := next.find(id)
		if !ok || !c.At.After(next.states[i].LastContact) {
			continue
		}
		if _, err := checkHeartbeat(v, c.Heartbeat); err == nil {
			next.states[i].LastContact = c.At
		}
	}
	return next
}

// Registered notes a registration: nothing is known yet of what the broker has applied.
func (lv Liveness) Registered(id image.BrokerID, now time.Time, settled image.MetadataOffset) Liveness {
	return lv.with(id, func(b *BrokerHeartbeatState) {
		*b = BrokerHeartbeatState{Broker: id, LastContact: now, MetadataOffset: image.NoOffset, SettledOffset: settled}
	})
}

// Unfenced notes that the broker was unfenced.
func (lv Liveness) Unfenced(id image.BrokerID, now time.Time) Liveness {
	return lv.with(id, func(b *BrokerHeartbeatState) { b.UnfencedSince = now })
}

// Settled notes the offset of the record that fenced a broker.
func (lv Liveness) Settled(id image.BrokerID, offset image.MetadataOffset) Liveness {
	return lv.with(id, func(b *BrokerHeartbeatState) { b.SettledOffset = offset })
}

// Joined is lv, which was decided on while the controller went on, with what was noted meanwhile: brokers that were heard
// later, and the controller's own last turn.
func (lv Liveness) Joined(meanwhile Liveness) Liveness {
	next := Liveness{states: slices.Clone(lv.states), lastTick: meanwhile.lastTick}
	for _, state := range meanwhile.states {
		if i, ok := next.find(state.Broker); ok && state.LastContact.After(next.states[i].LastContact) {
			next.states[i].LastContact = state.LastContact
			if next.states[i].MetadataOffset != image.NoOffset { // else it may be that of a life that the decision has ended
				next.states[i].MetadataOffset, next.states[i].Chain = state.MetadataOffset, state.Chain
			}
		}
	}
	return next
}

// Forgotten drops a broker that is no longer registered.
func (lv Liveness) Forgotten(id image.BrokerID) Liveness {
	i, ok := lv.find(id)
	if !ok {
		return lv
	}
	return Liveness{states: slices.Delete(slices.Clone(lv.states), i, i+1), lastTick: lv.lastTick}
}

// HasSession tells whether the broker is unfenced and was heard within the timeout, both ends included.
// A fenced broker never has a session.
func (lv Liveness) HasSession(b image.Broker, now time.Time, timeout time.Duration) bool {
	state, ok := lv.HeartbeatState(b.ID)
	return ok && !b.Fenced && now.Sub(state.LastContact) <= timeout
}

// Stale returns the unfenced brokers whose session is over, the longest silent first, then by id.
func (lv Liveness) Stale(im *image.Image, now time.Time, timeout time.Duration) []image.BrokerID {
	var stale []BrokerHeartbeatState
	for _, state := range lv.states {
		if b, ok := im.Broker(state.Broker); ok && !b.Fenced && now.Sub(state.LastContact) > timeout {
			stale = append(stale, state)
		}
	}
	slices.SortStableFunc(stale, func(a, b BrokerHeartbeatState) int { return a.LastContact.Compare(b.LastContact) })
	ids := make([]image.BrokerID, len(stale))
	for i, state := range stale {
		ids[i] = state.Broker
	}
	return ids
}

// LowestActiveOffset returns the lowest metadata offset that the active brokers other than except have told;
// [image.NoOffset] as long as one of them told none, and the largest offset if there is no such broker.
func (lv Liveness) LowestActiveOffset(im *image.Image, except image.BrokerID) image.MetadataOffset {
	lowest := image.MetadataOffset(math.MaxInt64)
	for b := range im.Brokers() {
		if b.ID == except || !b.IsActive() {
			continue
		}
		state, ok := lv.HeartbeatState(b.ID)
		if !ok {
			return image.NoOffset
		}
		lowest = min(lowest, state.MetadataOffset)
	}
	return lowest
}
