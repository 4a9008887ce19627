package controller

import (
	"math"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// electionMode says how far an election may go.
type electionMode int

const (
	// electOnline: the leader if it is still valid, else the first valid replica.
	electOnline electionMode = iota
	// electPreferred: the first replica before the leader.
	electPreferred
	// electUnclean: as electOnline, then any live replica, in the ISR or not.
	electUnclean
)

// fitness grades a broker as a leader within one decision.
type fitness int8

const (
	unfit fitness = iota
	// doomed brokers are fenced later in the same decision, or by one that follows. They lead only if nobody else can, so that
	// a decision that is cut leaves no partition without a leader that could have one.
	doomed
	fit
)

// electorate answers, for one decision, who may lead and by which rules of which topic.
type electorate struct {
	im       *image.Image
	defaults Defaults
	// elr tells whether eligible leader replicas are on (KIP-966).
	elr bool
	// known holds what was asked before, and what the decision itself changes about a broker.
	known map[image.BrokerID]fitness
	// grades are the ones to try, best first.
	grades []fitness

	// rules are those of the topic asked about last.
	rules topicRules
}

// topicRules are the configs of a topic that decisions look at.
type topicRules struct {
	id                image.TopicID
	idBytes           []byte
	name              string
	minInsyncReplicas int
	unclean           bool
}

func newElectorate(v View) *electorate {
	return &electorate{
		im: v.Image, defaults: v.Defaults, elr: v.Image.Feature(image.FeatureEligibleLeaderReplicas) > 0,
		known: make(map[image.BrokerID]fitness), grades: []fitness{fit},
	}
}

// fitness judges by the replayed registration, not by heartbeats.
func (e *electorate) fitness(id image.BrokerID) fitness {
	if f, ok := e.known[id]; ok {
		return f
	}
	f := unfit
	if b, ok := e.im.Broker(id); ok && b.IsActive() {
		f = fit
	}
	e.known[id] = f
	return f
}

// bar says that the decision takes a broker out of service.
func (e *electorate) bar(id image.BrokerID) { e.known[id] = unfit }

// welcome says that the decision brings a broker back into service.
func (e *electorate) welcome(id image.BrokerID) { e.known[id] = fit }

// doom says that the brokers are taken out of service one after the other, by the decision or by one that follows.
func (e *electorate) doom(ids []image.BrokerID) {
	for _, id := range ids {
		if e.fitness(id) == fit {
			e.known[id] = doomed
			e.grades = []fitness{fit, doomed}
		}
	}
}

// rulesOf looks a topic's configs up; asked again for the same topic it does not.
func (e *electorate) rulesOf(id image.TopicID) topicRules {
	if e.rules.idBytes != nil && e.rules.id == id {
		return e.rules
	}
	r := topicRules{id: id, idBytes: id.Bytes(), minInsyncReplicas: 1, unclean: e.defaults.UncleanLeaderElection}
	if t, ok := e.im.TopicByID(id); ok {
		r.name = t.Name()
		r.minInsyncReplicas = e.im.MinInsyncReplicas(r.name, math.MaxInt32)
		if value, source := e.im.EffectiveConfig(r.name, configUncleanLeaderElection, nil); source != image.ConfigSourceNone {
			r.unclean = value == "true"
		}
	}
	e.rules = r
	return r
}

// mode is how an election that nobody asked for goes.
func (e *electorate) mode(id image.TopicID) electionMode {
	if e.rulesOf(id).unclean {
		return electUnclean
	}
	return electOnline
}

// elect picks the leader of a partition with the target replicas, ISR and ELR of c. The order of the ISR never matters.
//
//  1. Clean: a member of the ISR or, if that is empty, of the ELR. In the order of the mode: the preferred replica, the
//     present leader, then the replica list.
//  2. The last known leader, if ISR and ELR are empty and it can lead (KIP-966, KAFKA-19522). It counts as unclean. Only a crash
//     of its machine leads there: it left ISR and ELR for the unsynced tail it may lack, and nobody is known to have more. One
//     that has lost its log is not known any more, so that only the operator's request, or the topic's setting, ends that.
//  3. With electUnclean: the first replica that can lead.
//
// A broker that the decision fences later leads only if nobody else can lead cleanly, and never uncleanly.
func (c *partitionChange) elect() (leader image.BrokerID, unclean bool) {
	for _, grade := range c.electorate.grades {
		if x := c.electClean(grade); x != image.NoBroker {
			return x, false
		}
	}
	if x := c.lastKnownLeader(); x != image.NoBroker && c.electorate.fitness(x) == fit {
		return x, true
	}
	if c.mode == electUnclean {
		for _, x := range c.replicas {
			if c.electorate.fitness(x) == fit && x != c.lost && (c.candidate == image.NoBroker || c.candidate == x) {
				return x, true
			}
		}
	}
	return image.NoBroker, false
}

func (c *partitionChange) electClean(grade fitness) image.BrokerID {
	valid := func(x image.BrokerID) bool {
		in := image.Contains(c.isr, x) || len(c.isr) == 0 && image.Contains(c.elr, x)
		return in && c.electorate.fitness(x) >= grade
	}
	if c.mode == electPreferred && valid(c.replicas[0]) {
		return c.replicas[0]
	}
	if c.old.Leader != image.NoBroker && valid(c.old.Leader) && image.Contains(c.replicas, c.old.Leader) {
		return c.old.Leader
	}
	for _, x := range c.replicas {
		if valid(x) {
			return x
		}
	}
	return image.NoBroker
}

func (c *partitionChange) lastKnownLeader() image.BrokerID {
	known := c.old.LastKnownELR
	if !c.electorate.elr || len(c.isr) != 0 || len(c.elr) != 0 || len(known) != 1 ||
		known[0] == c.lost || !image.Contains(c.replicas, known[0]) {
		return image.NoBroker
	}
	return known[0]
}

// leaderOf makes the record's form of a leader.
func leaderOf(id image.BrokerID) *metadatapb.LeaderChange {
	if id == image.NoBroker {
		return &metadatapb.LeaderChange{}
	}
	leader := int32(id)
	return &metadatapb.LeaderChange{Leader: &leader}
}
