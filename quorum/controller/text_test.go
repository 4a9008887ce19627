package controller_test

import (
	"fmt"
	"strings"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// recordLine writes a record on one line, with names instead of ids.
func recordLine(im *image.Image, r *metadatapb.Record) string {
	switch k := r.GetKind().(type) {
	case *metadatapb.Record_RegisterBroker:
		b := k.RegisterBroker
		return fmt.Sprintf("RegisterBroker %d incarnation=%s directory=%s epoch=%d%s%s stop=%s lost=%d%s", b.BrokerId,
			idName(im, b.IncarnationId), idName(im, b.DirectoryId), b.BrokerEpoch, flag(" fenced", b.Fenced),
			flag(" shutting-down", b.InControlledShutdown), stopName(b.StopKind), b.LostReplicas, rackOf(b.Rack))
	case *metadatapb.Record_BrokerRegistrationChange:
		c := k.BrokerRegistrationChange
		what := " shutting-down"
		if c.Fenced != nil {
			what = flag(" fenced", *c.Fenced) + flag(" unfenced", !*c.Fenced)
		}
		return fmt.Sprintf("BrokerRegistrationChange %d epoch=%d%s (%s)", c.BrokerId, c.BrokerEpoch, what, reasonName(c.Reason))
	case *metadatapb.Record_UnregisterBroker:
		return fmt.Sprintf("UnregisterBroker %d epoch=%d", k.UnregisterBroker.BrokerId, k.UnregisterBroker.BrokerEpoch)
	case *metadatapb.Record_RegisterController:
		c := k.RegisterController
		return fmt.Sprintf("RegisterController %d incarnation=%s directory=%s", c.ControllerId, idName(im, c.IncarnationId), idName(im, c.DirectoryId))
	case *metadatapb.Record_RemovedController:
		return fmt.Sprintf("RemovedController %d directory=%s", k.RemovedController.ControllerId, idName(im, k.RemovedController.DirectoryId))
	case *metadatapb.Record_Topic:
		return fmt.Sprintf("Topic %s id=%s", k.Topic.Name, idName(im, k.Topic.TopicId))
	case *metadatapb.Record_Partition:
		p := k.Partition
		return fmt.Sprintf("Partition %s-%d replicas=%s isr=%s leader=%s", idTopic(im, p.TopicId), p.Partition,
			int32s(p.Replicas), int32s(p.Isr), leaderName(p.Leader))
	case *metadatapb.Record_PartitionChange:
		return changeLine(im, k.PartitionChange)
	case *metadatapb.Record_RemoveTopic:
		return "RemoveTopic " + idTopic(im, k.RemoveTopic.TopicId)
	case *metadatapb.Record_ReplicasDeleted:
		var names []string
		for _, id := range k.ReplicasDeleted.TopicIds {
			names = append(names, idName(im, id))
		}
		return fmt.Sprintf("ReplicasDeleted %d [%s]", k.ReplicasDeleted.BrokerId, strings.Join(names, " "))
	case *metadatapb.Record_ReplicaDeletionFailed:
		f := k.ReplicaDeletionFailed
		return fmt.Sprintf("ReplicaDeletionFailed %d %s %q", f.BrokerId, idName(im, f.TopicId), f.Failure)
	case *metadatapb.Record_Config:
		c := k.Config
		value := "unset"
		if c.Value != nil {
			value = fmt.Sprintf("%q", *c.Value)
		}
		return fmt.Sprintf("Config %s %q %s=%s", strings.ToLower(strings.TrimPrefix(c.ResourceType.String(), "RESOURCE_TYPE_")), c.ResourceName, c.Key, value)
	case *metadatapb.Record_FeatureLevel:
		return fmt.Sprintf("FeatureLevel %s %d", k.FeatureLevel.Name, k.FeatureLevel.Level)
	case *metadatapb.Record_ProducerIds:
		return fmt.Sprintf("ProducerIds broker=%d next=%d", k.ProducerIds.BrokerId, k.ProducerIds.NextProducerId)
	}
	return fmt.Sprintf("%v", r)
}

func changeLine(im *image.Image, c *metadatapb.PartitionChange) string {
	var b strings.Builder
	fmt.Fprintf(&b, "PartitionChange %s-%d", idTopic(im, c.TopicId), c.Partition)
	if c.Leader != nil {
		fmt.Fprintf(&b, " leader=%s", leaderName(c.Leader.Leader))
	}
	for _, l := range []struct {
		name string
		ids  *metadatapb.BrokerIds
	}{
		{"isr", c.Isr}, {"elr", c.Elr}, {"last-known", c.LastKnownElr}, {"replicas", c.Replicas},
		{"adding", c.AddingReplicas}, {"removing", c.RemovingReplicas}, {"original", c.OriginalReplicas},
	} {
		if l.ids != nil {
			fmt.Fprintf(&b, " %s=%s", l.name, int32s(l.ids.Ids))
		}
	}
	if c.LeaderRecoveryState != nil {
		b.WriteString(" " + strings.ToLower(recoveryName(*c.LeaderRecoveryState)))
	}
	fmt.Fprintf(&b, " (%s)", reasonName(c.Reason))
	return b.String()
}

func recoveryName(s metadatapb.LeaderRecoveryState) string {
	return strings.TrimPrefix(s.String(), "LEADER_RECOVERY_STATE_")
}

func reasonName(r metadatapb.ChangeReason) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(r.String(), "CHANGE_REASON_"), "_", "-"))
}

func stopName(s metadatapb.StopKind) string {
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

func leaderName(leader *int32) string {
	if leader == nil {
		return "none"
	}
	return fmt.Sprint(*leader)
}

func int32s(ids []int32) string { return image.FormatReplicas(image.BrokerIDs(ids)) }

// idName shows an id made by uuid as the text it was made of.
func idName(_ *image.Image, raw []byte) string {
	text := strings.TrimRight(string(raw), "\x00")
	for _, c := range text {
		if c < ' ' || c > '~' {
			return fmt.Sprintf("%x", raw)
		}
	}
	return text
}

func idTopic(im *image.Image, raw []byte) string {
	if id, err := image.UUIDFrom(raw); err == nil {
		if t, ok := im.TopicByID(id); ok {
			return t.Name()
		}
	}
	return idName(im, raw)
}

func errorText(e *controllerpb.Error) string {
	if e == nil {
		return "NONE"
	}
	return e.Code.KafkaName() + ": " + e.Message
}

func brokerLine(b image.Broker) string {
	state := "unfenced"
	if b.Fenced {
		state = "fenced"
	}
	if b.InControlledShutdown {
		state += fmt.Sprintf(" shutting-down@%d", b.ControlledShutdownOffset)
	}
	return fmt.Sprintf("broker %v %s epoch=%d registered@%d incarnation=%s", b.ID, state, b.Epoch, b.RegistrationOffset, idName(nil, b.IncarnationID[:]))
}

// stateText writes brokers and partitions, or only the partitions of the topics named.
func stateText(im *image.Image, names []string) string {
	var b strings.Builder
	if len(names) == 0 {
		for x := range im.Brokers() {
			b.WriteString(brokerLine(x) + "\n")
		}
	}
	for t := range im.Topics() {
		if len(names) > 0 && !strings.Contains(" "+strings.Join(names, " ")+" ", " "+t.Name()+" ") {
			continue
		}
		for i, p := range t.Partitions() {
			fmt.Fprintf(&b, "%s-%d %v\n", t.Name(), i, p)
		}
	}
	if len(names) == 0 {
		for d := range im.PendingDeletions() {
			fmt.Fprintf(&b, "pending deletion %s id=%s:", d.Name, idName(im, d.TopicID[:]))
			for _, r := range d.Replicas {
				fmt.Fprintf(&b, " %v", r.Broker)
				if r.Deleted {
					b.WriteString("(deleted)")
				}
				if r.Failure != "" {
					fmt.Fprintf(&b, "(%s)", r.Failure)
				}
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}
