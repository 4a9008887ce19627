package model

import (
	"fmt"
	"strings"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// recordLine writes a record as the controller's transcripts do.
func recordLine(im *image.Image, r *metadatapb.Record) string {
	switch k := r.GetKind().(type) {
	case *metadatapb.Record_RegisterBroker:
		b := k.RegisterBroker
		return fmt.Sprintf("RegisterBroker %d incarnation=%s epoch=%d%s stop=%s lost=%d", b.BrokerId, name(b.IncarnationId), b.BrokerEpoch,
			flag(" fenced", b.Fenced), lower(b.StopKind.String(), "STOP_KIND_"), b.LostReplicas)
	case *metadatapb.Record_BrokerRegistrationChange:
		c := k.BrokerRegistrationChange
		what := " shutting-down"
		if c.Fenced != nil {
			what = flag(" fenced", *c.Fenced) + flag(" unfenced", !*c.Fenced)
		}
		return fmt.Sprintf("BrokerRegistrationChange %d epoch=%d%s (%s)", c.BrokerId, c.BrokerEpoch, what, lower(c.Reason.String(), "CHANGE_REASON_"))
	case *metadatapb.Record_Partition:
		p := k.Partition
		return fmt.Sprintf("Partition t-%d replicas=%s isr=%s leader=%s", p.Partition, list(p.Replicas), list(p.Isr), leader(p.Leader))
	case *metadatapb.Record_PartitionChange:
		return changeLine(k.PartitionChange)
	case *metadatapb.Record_Topic:
		return "Topic " + k.Topic.Name
	case *metadatapb.Record_Config:
		return fmt.Sprintf("Config %q %s=%q", k.Config.ResourceName, k.Config.Key, k.Config.GetValue())
	case *metadatapb.Record_FeatureLevel:
		return fmt.Sprintf("FeatureLevel %s %d", k.FeatureLevel.Name, k.FeatureLevel.Level)
	}
	return fmt.Sprint(r)
}

func changeLine(c *metadatapb.PartitionChange) string {
	var b strings.Builder
	fmt.Fprintf(&b, "PartitionChange t-%d", c.Partition)
	if c.Leader != nil {
		fmt.Fprintf(&b, " leader=%s", leader(c.Leader.Leader))
	}
	for _, l := range []struct {
		name string
		ids  *metadatapb.BrokerIds
	}{
		{"isr", c.Isr}, {"elr", c.Elr}, {"last-known", c.LastKnownElr}, {"replicas", c.Replicas},
		{"adding", c.AddingReplicas}, {"removing", c.RemovingReplicas}, {"original", c.OriginalReplicas},
	} {
		if l.ids != nil {
			fmt.Fprintf(&b, " %s=%s", l.name, list(l.ids.Ids))
		}
	}
	if c.LeaderRecoveryState != nil {
		b.WriteString(" " + lower(c.LeaderRecoveryState.String(), "LEADER_RECOVERY_STATE_"))
	}
	fmt.Fprintf(&b, " (%s)", lower(c.Reason.String(), "CHANGE_REASON_"))
	return b.String()
}

func lower(s, prefix string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(s, prefix), "_", "-"))
}

func name(id []byte) string { return strings.TrimRight(string(id), "\x00") }

func flag(s string, set bool) string {
	if set {
		return s
	}
	return ""
}

func list(ids []int32) string { return image.FormatReplicas(image.BrokerIDs(ids)) }

func leader(id *int32) string {
	if id == nil {
		return "none"
	}
	return fmt.Sprint(*id)
}
