package controller_test

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// operator runs the commands of an operator.
func (s *script) operator() string {
	switch s.d.Cmd {
	case "unregister":
		req := &controllerpb.UnregisterBrokerRequest{BrokerId: int32(s.int("id", 0)), ValidateOnly: s.has("validate-only")}
		d, err := controller.UnregisterBroker(s.h.view(), req)
		return carryOut(s.h, d, err) + s.wouldWrite(d.Response.GetRecords()) + reasonLines(d.Reasons)
	case "begin-lineage": // as an offline recovery does
		l := image.Lineage{Number: s.h.image.Lineage().Number + 1, Controller: 1001, TimeMs: s.h.now.UnixMilli()}
		next, err := replay(s.h.image, l.Record())
		if err != nil {
			return err.Error() + "\n"
		}
		s.h.image = next
		return fmt.Sprintf("lineage %d from offset %d\n", l.Number, next.Offset())
	case "confirm":
		req := &controllerpb.ConfirmLineageRequest{ValidateOnly: s.has("validate-only")}
		if s.has("number") {
			n := int32(s.int("number", 0))
			req.Number = &n
		}
		d, err := controller.ConfirmLineage(s.h.view(), req)
		return carryOut(s.h, d, err) + s.wouldWrite(d.Response.GetRecords()) + reasonLines(d.Reasons)
	case "quorum", "add-controller", "remove-controller", "transfer":
		return s.quorum()
	case "elect":
		return s.elect()
	case "grow":
		return s.grow()
	case "reassign":
		return s.reassign()
	case "alter-configs":
		return s.alterConfigs()
	case "apply-configs":
		concern := controller.Concern{Everything: !s.has("topic")}
		if s.has("topic") {
			concern.Topics = []string{s.text("topic", "")}
		}
		d, err := controller.ApplyConfigs(s.h.view(), concern)
		return carryOut(s.h, d, err)
	case "update-features":
		return s.updateFeatures()
	case "balance":
		d, err := controller.BalanceLeaders(s.h.view(), time.Duration(s.int("settle", 0))*time.Second)
		return carryOut(s.h, d, err) + fmt.Sprintf("elected %d, more %v\n", d.Response.Elected, d.Response.More)
	case "elect-unclean":
		d, err := controller.ElectUnclean(s.h.view())
		return carryOut(s.h, d, err) + fmt.Sprintf("elected %d, more %v\n", d.Response.Elected, d.Response.More)
	}
	s.h.t.Fatalf("%s: unknown command %s", s.d.Pos, s.d.Cmd)
	return ""
}

func (s *script) topicPartition(word string) (string, int32) {
	dash := strings.LastIndex(word, "-")
	n, err := strconv.ParseInt(word[dash+1:], 10, 32)
	if err != nil {
		s.h.t.Fatal(err)
	}
	return word[:dash], int32(n)
}

func (s *script) wouldWrite(records []*metadatapb.Record) string {
	out := ""
	for _, r := range records {
		out += "would write " + recordLine(s.h.image, r) + "\n"
	}
	return out
}

type partitionResult interface {
	GetTopic() string
	GetPartition() int32
	GetError() *controllerpb.Error
}

func partitionResults[R partitionResult](results []R) string {
	out := ""
	for _, r := range results {
		out += fmt.Sprintf("%s-%d → %s", r.GetTopic(), r.GetPartition(), errorText(r.GetError()))
		if e, ok := any(r).(*controllerpb.ElectLeadersResult); ok && e.GetRecordsMayBeLost() {
			out += fmt.Sprintf(" leader=%d, records may be lost", e.GetLeader())
		}
		out += "\n"
	}
	return out
}

// elect: preferred or unclean, [all]; TOPIC-N [candidate=N], one a line.
func (s *script) elect() string {
	req := &controllerpb.ElectLeadersRequest{ValidateOnly: s.has("validate-only"), AllPartitions: s.has("all")}
	switch {
	case s.has("unclean"):
		req.Type = controllerpb.ElectionType_ELECTION_TYPE_UNCLEAN
	case !s.has("untyped"):
		req.Type = controllerpb.ElectionType_ELECTION_TYPE_PREFERRED
	}
	for _, f := range s.lines() {
		t := &controllerpb.ElectablePartition{}
		t.Topic, t.Partition = s.topicPartition(f[0])
		for _, w := range f[1:] {
			n, _ := strconv.ParseInt(strings.TrimPrefix(w, "candidate="), 10, 32)
			candidate := int32(n)
			t.Candidate = &candidate
		}
		req.Partitions = append(req.Partitions, t)
	}
	d, err := controller.ElectLeaders(s.h.view(), req)
	return carryOut(s.h, d, err) + s.wouldWrite(d.Response.GetRecords()) + partitionResults(d.Response.GetResults())
}

// grow: TOPIC COUNT [LIST;LIST], one a line.
func (s *script) grow() string {
	req := &controllerpb.CreatePartitionsRequest{ValidateOnly: s.has("validate-only")}
	for _, f := range s.lines() {
		n, _ := strconv.ParseInt(f[1], 10, 32)
		t := &controllerpb.CreatePartitionsTopic{Name: f[0], Count: int32(n)}
		if len(f) > 2 {
			for _, list := range strings.Split(f[2], ";") {
				t.Assignments = append(t.Assignments, &metadatapb.BrokerIds{Ids: parseInts(s.h.t, strings.Split(list, ","))})
			}
		}
		req.Topics = append(req.Topics, t)
	}
	d, err := controller.CreatePartitions(s.h.view(), req)
	out := carryOut(s.h, d, err)
	if err != nil {
		return out
	}
	out += s.wouldWrite(d.Response.GetRecords())
	for _, r := range d.Response.GetTopics() {
		out += fmt.Sprintf("%s → %s\n", r.GetName(), errorText(r.GetError()))
	}
	return out
}

// reassign [keep-factor]: TOPIC-N to=1,2 or cancel, one a line.
func (s *script) reassign() string {
	req := &controllerpb.AlterPartitionReassignmentsRequest{ValidateOnly: s.has("validate-only"), KeepReplicationFactor: s.has("keep-factor")}
	for _, f := range s.lines() {
		t := &controllerpb.ReassignablePartition{}
		t.Topic, t.Partition = s.topicPartition(f[0])
		if list, ok := strings.CutPrefix(f[1], "to="); ok {
			t.Replicas = &metadatapb.BrokerIds{Ids: parseInts(s.h.t, strings.Split(list, ","))}
		}
		req.Partitions = append(req.Partitions, t)
	}
	d, err := controller.AlterPartitionReassignments(s.h.view(), req)
	out := carryOut(s.h, d, err)
	if err != nil {
		return out
	}
	return out + s.wouldWrite(d.Response.GetRecords()) + partitionResults(d.Response.GetResults())
}

// alter-configs [replace]: topic=NAME | broker=ID | cluster, then KEY=VALUE, -KEY, KEY+=VALUE or KEY-=VALUE, one
// resource a line. KEY! is a key without a value.
func (s *script) alterConfigs() string {
	req := &controllerpb.AlterConfigsRequest{ValidateOnly: s.has("validate-only")}
	for _, f := range s.lines() {
		r := &controllerpb.AlterableResource{Type: metadatapb.ResourceType_RESOURCE_TYPE_BROKER, Replace: s.has("replace")}
		switch kind, name, _ := strings.Cut(f[0], "="); kind {
		case "topic":
			r.Type, r.Name = metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, name
		case "broker":
			r.Name = name
		case "other":
			r.Type = metadatapb.ResourceType_RESOURCE_TYPE_UNSPECIFIED
		}
		for _, w := range f[1:] {
			r.Changes = append(r.Changes, configChange(w))
		}
		req.Resources = append(req.Resources, r)
	}
	d, err := controller.AlterConfigs(s.h.view(), req)
	out := carryOut(s.h, d, err)
	if err != nil {
		return out
	}
	out += s.wouldWrite(d.Response.GetRecords())
	for _, r := range d.Response.GetResources() {
		out += fmt.Sprintf("%q → %s\n", r.GetName(), errorText(r.GetError()))
	}
	return out
}

func configChange(word string) *controllerpb.ConfigChange {
	if key, ok := strings.CutPrefix(word, "-"); ok {
		return &controllerpb.ConfigChange{Name: key, Operation: controllerpb.ConfigOperation_CONFIG_OPERATION_DELETE}
	}
	if key, ok := strings.CutSuffix(word, "!"); ok {
		return &controllerpb.ConfigChange{Name: key, Operation: controllerpb.ConfigOperation_CONFIG_OPERATION_SET}
	}
	key, value, _ := strings.Cut(word, "=")
	c := &controllerpb.ConfigChange{Name: key, Operation: controllerpb.ConfigOperation_CONFIG_OPERATION_SET, Value: &value}
	for suffix, op := range map[string]controllerpb.ConfigOperation{
		"+": controllerpb.ConfigOperation_CONFIG_OPERATION_APPEND, "-": controllerpb.ConfigOperation_CONFIG_OPERATION_SUBTRACT, "?": 9,
	} {
		if bare, ok := strings.CutSuffix(key, suffix); ok {
			c.Name, c.Operation = bare, op
		}
	}
	return c
}

// update-features [validate-only] [members=(ID,…)]: NAME=LEVEL upgrade, downgrade, unsafe-downgrade or a number, one a line.
// "-" is the empty name, NAME*N a name of N times NAME.
func (s *script) updateFeatures() string {
	req := &controllerpb.UpdateFeaturesRequest{ValidateOnly: s.has("validate-only")}
	for _, f := range s.lines() {
		name, level, _ := strings.Cut(f[0], "=")
		n, err := strconv.ParseInt(level, 10, 32)
		if err != nil {
			s.h.t.Fatal(err)
		}
		u := &controllerpb.FeatureUpdate{Name: topicName(name), Level: int32(n)}
		switch f[1] {
		case "upgrade":
			u.Type = controllerpb.FeatureUpdateType_FEATURE_UPDATE_TYPE_UPGRADE
		case "downgrade":
			u.Type = controllerpb.FeatureUpdateType_FEATURE_UPDATE_TYPE_SAFE_DOWNGRADE
		case "unsafe-downgrade":
			u.Type = controllerpb.FeatureUpdateType_FEATURE_UPDATE_TYPE_UNSAFE_DOWNGRADE
		default:
			u.Type = controllerpb.FeatureUpdateType(parseInts(s.h.t, f[1:2])[0])
		}
		req.Updates = append(req.Updates, u)
	}
	v := s.h.view()
	v.Members = image.BrokerIDs(s.ints("members"))
	d, err := controller.UpdateFeatures(v, req)
	return carryOut(s.h, d, err) + s.wouldWrite(d.Response.GetRecords()) + reasonLines(d.Reasons)
}
