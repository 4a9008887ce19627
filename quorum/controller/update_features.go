package controller

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// UpdateFeatures finalizes levels of features, all that the request names or none (KIP-584, KIP-778).
//
// Refusals of the whole request:
//
//	INVALID_REQUEST         no feature is named, or too many; a name that is empty or too long; a feature named twice
//	INVALID_UPDATE_VERSION  the first feature, in the order of the request, that fails one of these, in this order:
//	                        the kind of update is unknown; the level is below zero; neither this controller nor a
//	                        registered node knows the feature; this controller, a registered
//	                        controller, a member of the quorum or a registered broker, fenced or not, does not support
//	                        the level; an upgrade to a lower level, or a downgrade to a higher one; a safe downgrade
//	                        that would lose who may lead a partition
//
// A level that is finalized already is not written again (Kafka writes it). Level 0 takes the feature out of use.
//
// Taking eligible.leader.replicas.version to 0 empties the ELR of every partition, in the same decision. Where the ISR is
// empty, one eligible replica, the last leader if it is one, goes back into it as the frozen last member: what a cluster
// without ELR would have kept. The others are no candidates any more, nor is the last leader of a partition without
// any; that is the metadata that a safe downgrade refuses to lose. Nobody is elected uncleanly for it. The levels come
// last, so the decision may be cut anywhere before, and decided again it finds what is left.
func UpdateFeatures(v View, req *controllerpb.UpdateFeaturesRequest) (Decision[*controllerpb.UpdateFeaturesResponse], error) {
	var d Decision[*controllerpb.UpdateFeaturesResponse]
	if err := checkUpdateNames(req.GetUpdates()); err != nil {
		return d, err
	}
	var levels []*metadatapb.Record
	for _, u := range req.GetUpdates() {
		if err := checkUpdate(v, u); err != nil {
			return Decision[*controllerpb.UpdateFeaturesResponse]{}, err
		}
		old := v.Image.Feature(u.GetName())
		if u.GetLevel() == old {
			continue
		}
		levels = append(levels, featureLevel(u.GetName(), u.GetLevel()))
		d.because("feature "+u.GetName(), "level %d, it was %d", u.GetLevel(), old)
		if u.GetName() == image.FeatureEligibleLeaderReplicas && u.GetLevel() == 0 {
			d.Records = newElectorate(v).withoutELR()
			d.because("feature "+u.GetName(), "eligible and last known leaders are forgotten, partitions changed: %d", len(d.Records))
		}
	}
	records := append(d.Records, levels...)
	d.Records, d.Response = records, &controllerpb.UpdateFeaturesResponse{}
	if req.GetValidateOnly() {
		d.Records, d.Response.Records = nil, records
	}
	return d, nil
}

func checkUpdateNames(updates []*controllerpb.FeatureUpdate) error {
	if len(updates) == 0 {
		return controllerpb.Refuse(codeInvalidRequest, "no feature is named: name one and its level")
	}
	if len(updates) > featuresMax {
		return controllerpb.Refuse(codeInvalidRequest, "%d features are named, at most %d are taken", len(updates), featuresMax)
	}
	for i, u := range updates {
		if n := len(u.GetName()); n == 0 || n > featureNameMax {
			return controllerpb.Refuse(codeInvalidRequest, "the name of feature %d of the request has %d characters, must have 1 to %d", i+1, n, featureNameMax)
		}
		if slices.ContainsFunc(updates[:i], func(o *controllerpb.FeatureUpdate) bool { return o.GetName() == u.GetName() }) {
			return controllerpb.Refuse(codeInvalidRequest, "feature %s stands in the request twice: name it once", u.GetName())
		}
	}
	return nil
}

const (
	updateUpgrade         = controllerpb.FeatureUpdateType_FEATURE_UPDATE_TYPE_UPGRADE
	updateSafeDowngrade   = controllerpb.FeatureUpdateType_FEATURE_UPDATE_TYPE_SAFE_DOWNGRADE
	updateUnsafeDowngrade = controllerpb.FeatureUpdateType_FEATURE_UPDATE_TYPE_UNSAFE_DOWNGRADE
)

func checkUpdate(v View, u *controllerpb.FeatureUpdate) error {
	name, level, old := u.GetName(), u.GetLevel(), v.Image.Feature(u.GetName())
	refuse := func(format string, args ...any) error {
		return controllerpb.Refuse(codeInvalidUpdateVersion, "feature %s: "+format, append([]any{name}, args...)...)
	}
	if t := u.GetType(); t != updateUpgrade && t != updateSafeDowngrade && t != updateUnsafeDowngrade {
		return refuse("update type %d is unknown: 1 upgrades, 2 downgrades, 3 downgrades even where metadata is lost", t)
	}
	if level < 0 {
		return refuse("level %d is below 0", level)
	}
	if known := knownFeatures(v.Image); !slices.Contains(known, name) {
		return refuse("no node knows it: the features are %s", strings.Join(known, ", "))
	}
	if err := checkSupport(v, name, level); err != nil {
		return refuse("%v", err)
	}
	switch upgrade := u.GetType() == updateUpgrade; {
	case upgrade && level < old:
		return refuse("level %d is below the finalized level %d: ask for a downgrade", level, old)
	case !upgrade && level > old:
		return refuse("level %d is above the finalized level %d: ask for an upgrade", level, old)
	}
	if name == image.FeatureEligibleLeaderReplicas && level == 0 && old > 0 && u.GetType() == updateSafeDowngrade {
		if n, first := losingCandidates(v.Image); n > 0 {
			return refuse("it would be forgotten who may lead %d partitions that have no leader, such as %s: start their brokers, or downgrade unsafely", n, first)
		}
	}
	return nil
}

// losingCandidates counts the partitions whose next leader only the ELR, or the last known leader, tells.
func losingCandidates(im *image.Image) (n int, first string) {
	for id, p := range im.Leaderless() {
		if len(p.ISR) > 0 || len(p.ELR) == 1 || len(p.ELR)+len(p.LastKnownELR) == 0 {
			continue
		}
		n++
		if t, ok := im.TopicByID(id.Topic); ok && first == "" {
			first = fmt.Sprintf("%s-%d", t.Name(), id.Partition)
		}
	}
	return n, first
}

// withoutELR returns what turning eligible leader replicas off writes: every partition with an ELR or a last known leader
// loses them.
func (e *electorate) withoutELR() []*metadatapb.Record {
	e.elr = false
	var records []*metadatapb.Record
	clear := func(id image.PartitionID, p image.Partition) {
		c := e.changePartition(id, p, metadatapb.ChangeReason_CHANGE_REASON_FEATURE)
		c.mode = electOnline
		if len(p.ISR) == 0 {
			c.isr = lastMember(p)
		}
		if record, _ := c.build(); record != nil {
			records = append(records, record)
		}
	}
	for id, p := range e.im.Leaderless() {
		if len(p.ELR)+len(p.LastKnownELR) > 0 {
			clear(id, p)
		}
	}
	for id, p := range e.im.WithELR() {
		if p.Leader != image.NoBroker {
			clear(id, p)
		}
	}
	return records
}

// lastMember is who a cluster without ELR would have kept in the ISR: the last leader, else the first eligible replica.
func lastMember(p image.Partition) []image.BrokerID {
	eligible := image.Intersect(p.Replicas, p.ELR)
	if known := image.Intersect(p.LastKnownELR, eligible); len(known) > 0 {
		return known
	}
	return eligible[:min(len(eligible), 1)]
}
