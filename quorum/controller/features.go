package controller

import (
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// Names of features.
const (
	// FeatureMetadataVersion gates record types.
	FeatureMetadataVersion = "metadata.version"
	// FeatureEligibleLeaderReplicas turns eligible leader replicas on (KIP-966).
	FeatureEligibleLeaderReplicas = "eligible.leader.replicas.version"
)

// MetadataVersion is the level of metadata.version that a new cluster begins with.
const MetadataVersion = 1

// SupportedFeatures returns the levels that this code supports, by name. Brokers and controllers of the same release
// declare them when they register.
func SupportedFeatures() []image.FeatureRange {
	return []image.FeatureRange{
		{Name: FeatureEligibleLeaderReplicas, Min: 0, Max: 1},
		{Name: FeatureMetadataVersion, Min: MetadataVersion, Max: MetadataVersion},
	}
}

// checkFeatures refuses a node that does not support a finalized level with UNSUPPORTED_VERSION. A feature that the node
// does not declare counts as 0-0. One that is not finalized counts as level 0 and is accepted if declared from there;
// so is one that this controller does not know.
func checkFeatures(im *image.Image, declared []*metadatapb.FeatureRange) error {
	for _, f := range declared {
		if f.GetName() == "" || f.GetMin() < 0 || f.GetMax() < f.GetMin() {
			return controllerpb.Refuse(codeInvalidRegistration, "feature %q has the range %d-%d", f.GetName(), f.GetMin(), f.GetMax())
		}
		level := im.Feature(f.GetName())
		if level == 0 && f.GetName() == FeatureMetadataVersion {
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
	for _, f := range declared {
		if f.GetName() == name {
			return true
		}
	}
	return false
}
