package main

import (
	"fmt"
	"slices"
	"time"

	brokerpb "github.com/quorate/quorate/proto/broker/v1"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// stuckAfter is how long the log of a replica that is being added may stand still before the replica counts as stuck.
const stuckAfter = 30 * time.Second

// moveProgress is how far the new replicas of one partition are.
type moveProgress struct {
	move   *controllerpb.Reassignment
	adding []addingProgress
}

// addingProgress is how far one new replica is. Numbers are -1 where they are not known.
type addingProgress struct {
	broker       int32
	bytes, toGo  int64
	inSync       bool
	stuckSinceMs int64 // time of day; -1 while it is not stuck
	idleMs       int64
	why          string // why it is not known
}

// moveFacts are what progress is judged by.
type moveFacts struct {
	// find returns what a broker holds of the partition, or why that is not known.
	find func(broker int32) (held *brokerpb.HeldReplica, why string)
	// fencedSince is the time of day since when a broker is fenced.
	fencedSince func(broker int32) (ms int64, ok bool)
}

// progressOf judges each new replica by its own log and its leader's: there is as much to go as the leader's log is larger.
// In the ISR nothing is. One that is not and has not grown for stuckAfter is stuck since it grew last; one that does not say
// and whose broker is fenced, since that was.
func progressOf(m *controllerpb.Reassignment, facts moveFacts) moveProgress {
	s := m.GetState()
	p := moveProgress{move: m}
	var leader *brokerpb.HeldReplica
	if s.Leader != nil {
		leader, _ = facts.find(s.GetLeader())
	}
	for _, id := range s.GetAddingReplicas() {
		held, why := facts.find(id)
		a := addingProgress{broker: id, bytes: -1, toGo: -1, inSync: slices.Contains(s.GetIsr(), id), stuckSinceMs: -1, idleMs: -1, why: why}
		if held != nil {
			a.bytes, a.idleMs = held.GetSizeBytes(), held.GetIdleMs()
			if leader != nil {
				a.toGo = max(0, leader.GetSizeBytes()-a.bytes)
			}
			if !a.inSync && a.idleMs >= stuckAfter.Milliseconds() {
				a.stuckSinceMs = held.GetLastGrownMs()
			}
		}
		if since, fenced := facts.fencedSince(id); held == nil && !a.inSync && fenced {
			a.stuckSinceMs, a.why = since, "is fenced and "+why
		}
		if a.inSync {
			a.toGo = 0
		}
		p.adding = append(p.adding, a)
	}
	return p
}

// totals are the bytes of all new replicas that are known.
func (p moveProgress) totals() (bytes, toGo int64) {
	for _, a := range p.adding {
		bytes += max(0, a.bytes)
		toGo += max(0, a.toGo)
	}
	return bytes, toGo
}

func (a addingProgress) line() string {
	line := fmt.Sprintf("  broker %d", a.broker)
	switch {
	case a.inSync:
		line += " in sync"
	case a.why != "":
		line += " " + a.why
	}
	if a.bytes >= 0 {
		line += fmt.Sprintf(" bytes=%d", a.bytes)
	}
	switch {
	case a.inSync:
	case a.toGo >= 0:
		line += fmt.Sprintf(" to-go=%d", a.toGo)
	case a.why == "":
		line += " to-go=unknown (its leader does not answer)"
	}
	if a.stuckSinceMs >= 0 {
		line += " stuck since " + time.UnixMilli(a.stuckSinceMs).UTC().Format(time.RFC3339)
	}
	if a.stuckSinceMs >= 0 && a.idleMs >= 0 {
		line += fmt.Sprintf(" (%v)", (time.Duration(a.idleMs) * time.Millisecond).Round(time.Second))
	}
	return line
}

func (p moveProgress) json() object {
	m, s := p.move, p.move.GetState()
	bytes, toGo := p.totals()
	progress := list{}
	for _, a := range p.adding {
		progress = append(progress, object{
			{"broker", a.broker}, {"inSync", a.inSync}, {"bytes", a.bytes}, {"bytesToGo", a.toGo},
			{"stuckSinceMs", a.stuckSinceMs}, {"idleMs", a.idleMs}, {"reason", a.why},
		})
	}
	return object{
		{"topic", m.GetTopic()}, {"partition", s.GetPartition()}, {"replicas", numbers(s.GetReplicas())}, {"isr", numbers(s.GetIsr())},
		{"addingReplicas", numbers(s.GetAddingReplicas())}, {"removingReplicas", numbers(s.GetRemovingReplicas())},
		{"target", numbers(m.GetTarget())}, {"original", numbers(s.GetOriginalReplicas())}, {"waitingFor", numbers(waitingFor(m))},
		{"bytes", bytes}, {"bytesToGo", toGo}, {"progress", progress},
	}
}
