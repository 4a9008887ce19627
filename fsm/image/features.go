package image

import (
	"fmt"
	"slices"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// Names of features.
const (
	// FeatureMetadataVersion gates record types (KIP-778).
	FeatureMetadataVersion = "metadata.version"
	// FeatureEligibleLeaderReplicas turns eligible leader replicas on (KIP-966).
	FeatureEligibleLeaderReplicas = "eligible.leader.replicas.version"
)

// MetadataVersion is the level of metadata.version that a new cluster begins with.
const MetadataVersion = 1

// SupportedFeatures returns the levels that this release supports, by name. Every node declares them when it registers.
// A feature that is not listed is supported at level 0 only, which is to say: not there.
func SupportedFeatures() []FeatureRange {
	return []FeatureRange{
		{Name: FeatureEligibleLeaderReplicas, Min: 0, Max: 1},
		{Name: FeatureMetadataVersion, Min: MetadataVersion, Max: MetadataVersion},
	}
}

// DeclaredFeatures returns the levels that this release supports as a registration carries them.
func DeclaredFeatures() []*metadatapb.FeatureRange { return featureRecords(SupportedFeatures()) }

// RangeOf returns the range of a feature in a list; a feature that is not listed has the range 0-0.
func RangeOf(list []FeatureRange, name string) FeatureRange {
	i := slices.IndexFunc(list, func(f FeatureRange) bool { return f.Name == name })
	if i < 0 {
		return FeatureRange{Name: name}
	}
	return list[i]
}

// Holds tells whether a level is in the range.
func (f FeatureRange) Holds(level int32) bool { return f.Min <= level && level <= f.Max }

// checkFeature refuses a finalized level that this release does not support: what the log says from here on may mean
// what this code cannot know.
func checkFeature(r *metadatapb.FeatureLevel) error {
	if r.Name == "" || r.Level < 0 {
		return fmt.Errorf("FeatureLevel %q: level %d without a name or below zero", r.Name, r.Level)
	}
	if supported := RangeOf(SupportedFeatures(), r.Name); !supported.Holds(r.Level) {
		return fmt.Errorf("FeatureLevel %q: level %d is finalized and this release supports %d-%d: run one that supports it",
			r.Name, r.Level, supported.Min, supported.Max)
	}
	return nil
}
