package lines

import (
	"fmt"
	"strings"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// Record is a record on one line, with names instead of ids. The image tells the names of topics.
func Record(im *image.Image, r *metadatapb.Record) string {
	switch k := r.GetKind().(type) {
	case *metadatapb.Record_RegisterBroker:
		b := k.RegisterBroker
		return fmt.Sprintf("RegisterBroker %d incarnation=%s directory=%s epoch=%d%s%s stop=%s lost=%d%s", b.BrokerId,
			ID(b.IncarnationId), ID(b.DirectoryId), b.BrokerEpoch, flag(" fenced", b.Fenced),
			flag(" shutting-down", b.InControlledShutdown), Stop(b.StopKind), b.LostReplicas, rackOf(b.Rack))
	case *metadatapb.Record_BrokerRegistrationChange:
		c := k.BrokerRegistrationChange
		what := " shutting-down"
		if c.Fenced != nil {
			what = flag(" fenced", *c.Fenced) + flag(" unfenced", !*c.Fenced)
		}
		return fmt.Sprintf("BrokerRegistrationChange %d epoch=%d%s (%s)", c.BrokerId, c.BrokerEpoch, what, reason(c.Reason))
	case *metadatapb.Record_UnregisterBroker:
		return fmt.Sprintf("UnregisterBroker %d epoch=%d", k.UnregisterBroker.BrokerId, k.UnregisterBroker.BrokerEpoch)
	case *metadatapb.Record_RegisterController:
		c := k.RegisterController
		return fmt.Sprintf("RegisterController %d incarnation=%s directory=%s", c.ControllerId, ID(c.IncarnationId), ID(c.DirectoryId))
	case *metadatapb.Record_RemovedController:
		return fmt.Sprintf("RemovedController %d directory=%s", k.RemovedController.ControllerId, ID(k.RemovedController.DirectoryId))
	case *metadatapb.Record_Topic:
		return fmt.Sprintf("Topic %s id=%s", k.Topic.Name, ID(k.Topic.TopicId))
	case *metadatapb.Record_Partition:
		p := k.Partition
		return fmt.Sprintf("Partition %s-%d replicas=%s isr=%s leader=%s", topic(im, p.TopicId), p.Partition,
			Replicas(p.Replicas), Replicas(p.Isr), Leader(p.Leader))
	case *metadatapb.Record_PartitionChange:
		return change(im, k.PartitionChange)
	case *metadatapb.Record_RemoveTopic:
		return "RemoveTopic " + topic(im, k.RemoveTopic.TopicId)
	case *metadatapb.Record_ReplicasDeleted:
		var names []string
		for _, id := range k.ReplicasDeleted.TopicIds {
			names = append(names, ID(id))
		}
		return fmt.Sprintf("ReplicasDeleted %d [%s]", k.ReplicasDeleted.BrokerId, strings.Join(names, " "))
	case *metadatapb.Record_ReplicaDeletionFailed:
		f := k.ReplicaDeletionFailed
		return fmt.Sprintf("ReplicaDeletionFailed %d %s %q", f.BrokerId, ID(f.TopicId), f.Failure)
	case *metadatapb.Record_Config:
		c := k.Config
		value := "unset"
		if c.Value != nil {
			value = fmt.Sprintf("%q", *c.Value)
		}
		return fmt.Sprintf("Config %s %q %s=%s", strings.ToLower(strings.TrimPrefix(c.ResourceType.String(), "RESOURCE_TYPE_")), c.ResourceName, c.Key, value)
	case *metadatapb.Record_FeatureLevel:
		return fmt.Sprintf("FeatureLevel %s %d", k.FeatureLevel.Name, k.FeatureLevel.Level)
	case *metadatapb.Record_LineageConfirmed:
		return fmt.Sprintf("LineageConfirmed %d", k.LineageConfirmed.Number)
	case *metadatapb.Record_ProducerIds:
		return fmt.Sprintf("ProducerIds broker=%d next=%d", k.ProducerIds.BrokerId, k.ProducerIds.NextProducerId)
	}
	return fmt.Sprintf("%v", r)
}

func change(im *image.Image, c *metadatapb.PartitionChange) string {
	var b strings.Builder
	fmt.Fprintf(&b, "PartitionChange %s-%d", topic(im, c.TopicId), c.Partition)
	if c.Leader != nil {
		fmt.Fprintf(&b, " leader=%s", Leader(c.Leader.Leader))
	}
	for _, l := range []struct {
		name string
		ids  *metadatapb.BrokerIds
	}{
		{"isr", c.Isr}, {"elr", c.Elr}, {"last-known", c.LastKnownElr}, {"replicas", c.Replicas},
		{"adding", c.AddingReplicas}, {"removing", c.RemovingReplicas}, {"original", c.OriginalReplicas},
	} {
		if l.ids != nil {
			fmt.Fprintf(&b, " %s=%s", l.name, Replicas(l.ids.Ids))
		}
	}
	if c.LeaderRecoveryState != nil {
		b.WriteString(" " + strings.ToLower(Recovery(*c.LeaderRecoveryState)))
	}
	fmt.Fprintf(&b, " (%s)", reason(c.Reason))
	return b.String()
}

// Recovery is a leader recovery state in one word.
func Recovery(s metadatapb.LeaderRecoveryState) string {
	return strings.TrimPrefix(s.String(), "LEADER_RECOVERY_STATE_")
}

func reason(r metadatapb.ChangeReason) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(r.String(), "CHANGE_REASON_"), "_", "-"))
}

// Stop is how a process ended, in one word.
func Stop(s metadatapb.StopKind) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(s.String(), "STOP_KIND_"), "_", "-"))
}

func flag(name string, set bool) string {
	if set {
		return name
	}
	return ""
}

func rackOf(rack *string) string {
	if rack == nil {
		return ""
	}
	return " rack=" + *rack
}

// Leader is a leader's id, or none.
func Leader(leader *int32) string {
	if leader == nil {
		return "none"
	}
	return fmt.Sprint(*leader)
}

// Replicas is a list as [1,2,3].
func Replicas(ids []int32) string { return image.FormatReplicas(image.BrokerIDs(ids)) }

// ID shows an id whose bytes are a text as that text, any other in hexadecimal.
func ID(raw []byte) string {
	text := strings.TrimRight(string(raw), "\x00")
	for _, c := range text {
		if c < ' ' || c > '~' {
			return fmt.Sprintf("%x", raw)
		}
	}
	return text
}

func topic(im *image.Image, raw []byte) string {
	if id, err := image.UUIDFrom(raw); err == nil {
		if t, ok := im.TopicByID(id); ok {
			return t.Name()
		}
	}
	return ID(raw)
}

// Broker is a registration on one line.
func Broker(b image.Broker) string {
	state := "unfenced"
	if b.Fenced {
		state = "fenced"
	}
	if b.InControlledShutdown {
		state += fmt.Sprintf(" shutting-down@%d", b.ControlledShutdownOffset)
	}
	return fmt.Sprintf("broker %v %s epoch=%d registered@%d incarnation=%s", b.ID, state, b.Epoch, b.RegistrationOffset, ID(b.IncarnationID[:]))
}
