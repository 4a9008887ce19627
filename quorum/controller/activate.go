package controller

import (
	"strconv"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// Activate is what a claim begins with.
//
//   - The log is empty: the records that a new cluster starts from, atomic. Whether it is empty is read from the image
//     that the claim was answered with, never remembered, so that they are written exactly once (KAFKA-20839).
//   - The log is not empty: what an interrupted decision left undone. A broker may have been unfenced without the elections
//     that follow. A change of configs may be there without what it means for ELRs: one that is too large would let a
//     replica lead that fell behind since (KAFKA-16540). What else was interrupted is decided again by the broker's next
//     heartbeat, registration or missing heartbeat, since its own record came last.
func Activate(v View) (Decision[Done], error) {
	var d Decision[Done]
	if v.Image.Offset() == image.NoOffset {
		d.Atomic = true
		d.Records = bootstrap(v.Defaults)
		d.because("cluster", "the log is empty: metadata.version %d, %s %d, min.insync.replicas %d",
			image.MetadataVersion, image.FeatureEligibleLeaderReplicas, v.Defaults.EligibleLeaderReplicas, v.Defaults.MinInsyncReplicas)
		return d, nil
	}
	e := newElectorate(v)
	elected := e.electLeaders(v.Image.Leaderless(), metadatapb.ChangeReason_CHANGE_REASON_ELECTION)
	if len(elected) > 0 {
		d.because("cluster", "%d partitions had no leader though a replica can lead", len(elected))
	}
	trimmed := e.trimELRs(metadatapb.ChangeReason_CHANGE_REASON_CONFIG)
	if len(trimmed) > 0 {
		d.because("cluster", "%d partitions had an ELR though their ISR is large enough", len(trimmed))
	}
	d.Records = append(elected, trimmed...)
	mine := strconv.Itoa(v.Defaults.MinInsyncReplicas)
	if value, ok := v.Image.Config(metadatapb.ResourceType_RESOURCE_TYPE_BROKER, "", configMinInsyncReplicas); ok && value != mine {
		d.because("cluster", "min.insync.replicas is %s in the metadata log and %s in this node's file: the log counts", value, mine)
	}
	return d, nil
}

// trimELRs looks again at the partitions that have both a leader and an ELR.
func (e *electorate) trimELRs(reason metadatapb.ChangeReason) []*metadatapb.Record {
	var records []*metadatapb.Record
	for id, p := range e.im.WithELR() {
		if len(p.ELR) == 0 || p.Leader == image.NoBroker {
			continue
		}
		c := e.changePartition(id, p, reason)
		if record, _ := c.build(); record != nil {
			records = append(records, record)
		}
	}
	return records
}

func bootstrap(defaults Defaults) []*metadatapb.Record {
	records := []*metadatapb.Record{featureLevel(image.FeatureMetadataVersion, image.MetadataVersion)}
	if defaults.EligibleLeaderReplicas > 0 {
		records = append(records, featureLevel(image.FeatureEligibleLeaderReplicas, defaults.EligibleLeaderReplicas))
	}
	value := strconv.Itoa(defaults.MinInsyncReplicas)
	return append(records, &metadatapb.Record{Kind: &metadatapb.Record_Config{Config: &metadatapb.Config{
		ResourceType: metadatapb.ResourceType_RESOURCE_TYPE_BROKER, Key: configMinInsyncReplicas, Value: &value,
	}}})
}

func featureLevel(name string, level int32) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_FeatureLevel{FeatureLevel: &metadatapb.FeatureLevel{Name: name, Level: level}}}
}
