package controller_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// create: one topic a line: NAME [partitions=N] [rf=N] [id=ID] [key=VALUE]… [unset=KEY] [assign=P:1,2;P:2,3]
// The name "-" stands for the empty one, NAME*N for a name of N times NAME.
func (s *script) create() string {
	req := &controllerpb.CreateTopicsRequest{ValidateOnly: s.has("validate-only")}
	for _, f := range s.lines() {
		t := &controllerpb.CreatableTopic{Name: topicName(f[0])}
		for _, w := range f[1:] {
			key, value, _ := strings.Cut(w, "=")
			s.creatable(t, key, value)
		}
		req.Topics = append(req.Topics, t)
	}
	d, err := controller.CreateTopics(s.h.view(), req)
	out := carryOut(s.h, d, err)
	if err != nil {
		return out
	}
	for _, r := range d.Response.Records {
		out += "would write " + recordLine(s.h.image, r) + "\n"
	}
	for _, r := range d.Response.Topics {
		if r.Error != nil {
			out += fmt.Sprintf("%s → %s\n", r.Name, errorText(r.Error))
			continue
		}
		out += fmt.Sprintf("%s → NONE id=%s partitions=%d rf=%d", r.Name, idName(nil, r.TopicId), r.Partitions, r.ReplicationFactor)
		for _, c := range r.Configs {
			out += fmt.Sprintf(" %s=%s", c.Name, c.GetValue())
		}
		out += "\n"
	}
	return out + fmt.Sprintf("at offset %d, unfenced %s\n", d.Response.MetadataOffset, int32s(d.Response.UnfencedBrokers))
}

func topicName(word string) string {
	if word == "-" {
		return ""
	}
	if name, times, ok := strings.Cut(word, "*"); ok {
		n, _ := strconv.Atoi(times)
		return strings.Repeat(name, n)
	}
	return word
}

func (s *script) creatable(t *controllerpb.CreatableTopic, key, value string) {
	number := func() *int32 {
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			s.h.t.Fatal(err)
		}
		v := int32(n)
		return &v
	}
	switch key {
	case "partitions":
		t.Partitions = number()
	case "rf":
		t.ReplicationFactor = number()
	case "id":
		id := uuid(value)
		t.TopicId = id[:]
	case "raw-id":
		t.TopicId = []byte(value)
	case "unset":
		t.Configs = append(t.Configs, &controllerpb.ConfigEntry{Name: value})
	case "assign":
		for _, a := range strings.Split(value, ";") {
			p, list, _ := strings.Cut(a, ":")
			n, _ := strconv.Atoi(p)
			t.Assignments = append(t.Assignments, &controllerpb.ReplicaAssignment{Partition: int32(n), BrokerIds: parseInts(s.h.t, strings.Split(list, ","))})
		}
	default:
		t.Configs = append(t.Configs, &controllerpb.ConfigEntry{Name: key, Value: &value})
	}
}

// delete: one topic a line: [name=NAME] [id=ID]
func (s *script) delete() string {
	req := &controllerpb.DeleteTopicsRequest{ValidateOnly: s.has("validate-only")}
	for _, f := range s.lines() {
		t := &controllerpb.DeletableTopic{}
		for _, w := range f {
			key, value, _ := strings.Cut(w, "=")
			switch key {
			case "name":
				t.Name = &value
			case "id":
				id := uuid(value)
				t.TopicId = id[:]
			}
		}
		req.Topics = append(req.Topics, t)
	}
	d, err := controller.DeleteTopics(s.h.view(), req)
	out := carryOut(s.h, d, err)
	if err != nil {
		return out
	}
	for _, r := range d.Response.Records {
		out += "would write " + recordLine(s.h.image, r) + "\n"
	}
	for _, r := range d.Response.Topics {
		out += fmt.Sprintf("%s %s → %s\n", r.GetName(), idName(nil, r.TopicId), errorText(r.Error))
	}
	return out
}

// report: deleted=ID or failed=ID REASON…, one a line.
func (s *script) report() string {
	id := int32(s.int("id", 0))
	epoch := s.int("epoch", int(s.h.broker(id).Epoch))
	req := &controllerpb.ReportDeletionsRequest{BrokerId: id, BrokerEpoch: int64(epoch)}
	for _, f := range s.lines() {
		key, value, _ := strings.Cut(f[0], "=")
		topic := uuid(value)
		if key == "deleted" {
			req.Deleted = append(req.Deleted, topic[:])
		} else {
			req.Failed = append(req.Failed, &controllerpb.FailedDeletion{TopicId: topic[:], Failure: topicName(strings.Join(f[1:], " "))})
		}
	}
	d, err := controller.ReportDeletions(s.h.view(), req)
	return carryOut(s.h, d, err)
}

// alter-partition: from=ID [epoch=N]; one partition a line: TOPIC-N le=N pe=N isr=1,2@EPOCH [recovering] [reason=WORD] [id=ID]
func (s *script) alterPartition() string {
	from := int32(s.int("from", 0))
	epoch := int64(-1)
	if b, ok := s.h.image.Broker(image.BrokerID(from)); ok {
		epoch = int64(b.Epoch)
	}
	req := &controllerpb.AlterPartitionRequest{BrokerId: from, BrokerEpoch: int64(s.int("epoch", int(epoch)))}
	for _, f := range s.lines() {
		dash := strings.LastIndex(f[0], "-")
		topic := uuid(f[0][:dash])
		if t, ok := s.h.image.TopicByName(f[0][:dash]); ok {
			topic = t.ID()
		}
		n, _ := strconv.Atoi(f[0][dash+1:])
		item := &controllerpb.AlterPartitionItem{Partition: int32(n), LeaderRecoveryState: metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED}
		if p, ok := s.h.image.Partition(image.PartitionID{Topic: topic, Partition: int32(n)}); ok {
			item.LeaderEpoch, item.PartitionEpoch = int32(p.LeaderEpoch), int32(p.PartitionEpoch)
		}
		for _, w := range f[1:] {
			s.alterItem(item, w)
		}
		req.Topics = append(req.Topics, &controllerpb.AlterPartitionTopic{TopicId: topic[:], Partitions: []*controllerpb.AlterPartitionItem{item}})
	}
	d, err := controller.AlterPartition(s.h.view(), req)
	out := carryOut(s.h, d, err)
	if err != nil {
		return out
	}
	for i, t := range d.Response.Topics {
		for _, r := range t.Partitions {
			name := s.lines()[i][0]
			if r.Error != nil {
				out += fmt.Sprintf("%s → %s\n", name, errorText(r.Error))
				continue
			}
			out += fmt.Sprintf("%s → NONE leader=%s isr=%s le=%d pe=%d %s", name, leaderName(r.Leader), int32s(r.Isr),
				r.LeaderEpoch, r.PartitionEpoch, strings.ToLower(recoveryName(r.LeaderRecoveryState)))
			if s.has("min-isr") {
				out += fmt.Sprintf(" min-isr=%d offset=%d", r.MinInsyncReplicas, d.Response.MetadataOffset)
			}
			out += "\n"
		}
	}
	return out
}

func (s *script) alterItem(item *controllerpb.AlterPartitionItem, word string) {
	key, value, _ := strings.Cut(word, "=")
	n, _ := strconv.Atoi(value)
	switch key {
	case "le":
		item.LeaderEpoch = int32(n)
	case "pe":
		item.PartitionEpoch = int32(n)
	case "recovering":
		item.LeaderRecoveryState = metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERING
	case "unspecified":
		item.LeaderRecoveryState = metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_UNSPECIFIED
	case "reason":
		item.Reason = metadatapb.ChangeReason(metadatapb.ChangeReason_value["CHANGE_REASON_"+strings.ToUpper(value)])
	case "isr":
		for _, m := range strings.Split(value, ",") {
			if m == "" {
				continue
			}
			id, epoch, found := strings.Cut(m, "@")
			b, _ := strconv.Atoi(id)
			member := &controllerpb.IsrMember{BrokerId: int32(b)}
			if found {
				e, _ := strconv.ParseInt(epoch, 10, 64)
				member.BrokerEpoch = &e
			}
			item.Isr = append(item.Isr, member)
		}
	}
}
