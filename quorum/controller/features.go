package controller

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// checkFeatures refuses a node that does not support a finalized level with UNSUPPORTED_VERSION. A feature that the node
// does not declare counts as 0-0. One that is not finalized counts as level 0 and is accepted if declared from there;
// so is one that this controller does not know.
func checkFeatures(im *image.Image, declared []*metadatapb.FeatureRange) error {
	if len(declared) > featuresMax {
		return controllerpb.Refuse(codeInvalidRegistration, "%d features are declared, at most %d are taken", len(declared), featuresMax)
	}
	for i, f := range declared {
		if declares(declared[:i], f.GetName()) {
			return controllerpb.Refuse(codeInvalidRegistration, "feature %q is declared twice", f.GetName())
		}
		if n := len(f.GetName()); n > featureNameMax {
			return controllerpb.Refuse(codeInvalidRegistration, "the name of a feature has %d bytes, at most %d are taken", n, featureNameMax)
		}
		if f.GetName() == "" || f.GetMin() < 0 || f.GetMax() < f.GetMin() {
			return controllerpb.Refuse(codeInvalidRegistration, "feature %q has the range %d-%d", f.GetName(), f.GetMin(), f.GetMax())
		}
		level := im.Feature(f.GetName())
		if level == 0 && f.GetName() == image.FeatureMetadataVersion {
			continue // the log is empty: the first claim has not been applied
		}
		if level < f.GetMin() || level > f.GetMax() {
			return controllerpb.Refuse(codeUnsupportedVersion,
				"feature %s is finalized at level %d, the node supports %d-%d: run a release that supports it", f.GetName(), level, f.GetMin(), f.GetMax())
		}
	}
	for name, level := range im.Features() {
		if level > 0 && !declares(declared, name) {
			return controllerpb.Refuse(codeUnsupportedVersion,
				"feature %s is finalized at level %d and the node does not declare it: run a release that supports it", name, level)
		}
	}
	return nil
}

func declares(declared []*metadatapb.FeatureRange, name string) bool {
	return slices.ContainsFunc(declared, func(f *metadatapb.FeatureRange) bool { return f.GetName() == name })
}

// supportedBy are nodes that support the same levels of a feature.
type supportedBy struct {
	what   string // a controller or a broker
	levels image.FeatureRange
	ids    []image.BrokerID
}

// knownFeatures lists, by name, the features that this controller or a registered node has, and those that are finalized.
func knownFeatures(im *image.Image) []string {
	var names []string
	add := func(list []image.FeatureRange) {
		for _, f := range list {
			names = append(names, f.Name)
		}
	}
	add(image.SupportedFeatures())
	for c := range im.Controllers() {
		add(c.Features)
	}
	for b := range im.Brokers() {
		add(b.Features)
	}
	for name := range im.Features() {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// checkSupport tells which nodes support which levels if not every node supports the one that is asked for, and nothing
// if every node does. Nodes are this controller, whatever is registered, fenced or not, and the members of the quorum: one
// that has not registered yet may support anything.
func checkSupport(v View, name string, level int32) error {
	own := image.RangeOf(image.SupportedFeatures(), name)
	groups := []supportedBy{{what: "this controller", levels: own}}
	add := func(what string, id image.BrokerID, declared []image.FeatureRange) {
		levels := image.RangeOf(declared, name)
		for i := range groups {
			if g := &groups[i]; g.what == what && g.levels == levels {
				g.ids = append(g.ids, id)
				return
			}
		}
		groups = append(groups, supportedBy{what: what, levels: levels, ids: []image.BrokerID{id}})
	}
	for c := range v.Image.Controllers() {
		add("controller", c.ID, c.Features)
	}
	for b := range v.Image.Brokers() {
		add("broker", b.ID, b.Features)
	}
	if !slices.ContainsFunc(groups, func(g supportedBy) bool { return !g.levels.Holds(level) }) {
		for _, id := range v.Members {
			if _, ok := v.Image.Controller(id); !ok {
				return fmt.Errorf("controller %v is a member of the quorum and has not registered, so it is not known what it supports: start it, or remove it", id)
			}
		}
		return nil
	}
	by := "not supported by every node"
	if !slices.ContainsFunc(groups, func(g supportedBy) bool { return g.levels.Holds(level) }) {
		by = "supported by no node"
	}
	return fmt.Errorf("level %d is %s: %s: ask for a level that all support, or run releases that support it", level, by, supportText(groups))
}

// supportNamedMax bounds the nodes of one kind and range that an error names.
const supportNamedMax = 10

func supportText(groups []supportedBy) string {
	var parts []string
	for _, g := range groups {
		who, supports := g.what, "supports"
		if len(g.ids) > 1 {
			who, supports = who+"s", "support"
		}
		var ids []string
		for _, id := range g.ids[:min(len(g.ids), supportNamedMax)] {
			ids = append(ids, id.String())
		}
		if who = strings.TrimSpace(who + " " + strings.Join(ids, ", ")); len(g.ids) > supportNamedMax {
			who += fmt.Sprintf(" and %d more", len(g.ids)-supportNamedMax)
		}
		parts = append(parts, fmt.Sprintf("%s %s %d-%d", who, supports, g.levels.Min, g.levels.Max))
	}
	return strings.Join(parts, "; ")
}

// CheckLevels refuses records that the finalized levels do not allow, with UNSUPPORTED_VERSION: a node of the release that
// a level stands for could not read them. Every kind of record came with level 1 of metadata.version; ELR and last known
// ELR with level 1 of eligible.leader.replicas.version. A FeatureLevel record acts on those after it.
func CheckLevels(im *image.Image, records []*metadatapb.Record) error {
	const first = 1
	version, elr := im.Feature(image.FeatureMetadataVersion), im.Feature(image.FeatureEligibleLeaderReplicas)
	for _, r := range records {
		f := r.GetFeatureLevel()
		switch {
		case f.GetName() == image.FeatureMetadataVersion:
			version = f.GetLevel()
		case f.GetName() == image.FeatureEligibleLeaderReplicas:
			elr = f.GetLevel()
		case version < first:
			return levelNeeded(image.FeatureMetadataVersion, first, version)
		case elr < first && namesELR(r):
			return levelNeeded(image.FeatureEligibleLeaderReplicas, first, elr)
		}
	}
	return nil
}

func levelNeeded(name string, needed, finalized int32) error {
	return controllerpb.Refuse(codeUnsupportedVersion,
		"the change needs level %d of feature %s, which is finalized at level %d: upgrade the feature first", needed, name, finalized)
}

func namesELR(r *metadatapb.Record) bool {
	p, c := r.GetPartition(), r.GetPartitionChange()
	return len(p.GetElr())+len(p.GetLastKnownElr())+len(c.GetElr().GetIds())+len(c.GetLastKnownElr().GetIds()) > 0
}
