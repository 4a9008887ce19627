package controller_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// operator runs the commands of an operator.
func (s *script) operator() string {
	switch s.d.Cmd {
	case "unregister":
		d, err := controller.UnregisterBroker(s.h.view(), image.BrokerID(s.int("id", 0)))
		return carryOut(s.h, d, err) + reasonLines(d.Reasons)
	case "elect":
		return s.elect()
	case "grow":
		return s.grow()
	case "reassign":
		return s.reassign()
	case "alter-configs":
		return s.alterConfigs()
	case "apply-configs":
		d, err := controller.ApplyConfigs(s.h.view())
		return carryOut(s.h, d, err)
	case "balance":
		d, err := controller.BalanceLeaders(s.h.view())
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

func partitionResults(results []controller.PartitionResult) string {
	out := ""
	for _, r := range results {
		out += fmt.Sprintf("%s-%d → %s\n", r.Topic, r.Partition, errorText(r.Err))
	}
	return out
}

// elect: preferred or unclean, [all]; TOPIC-N [candidate=N], one a line.
func (s *script) elect() string {
	req := &controller.ElectLeadersRequest{ValidateOnly: s.has("validate-only")}
	if s.has("unclean") {
		req.Type = controller.UncleanElection
	}
	if !s.has("all") {
		req.Partitions = []controller.ElectableTopicPartition{}
	}
	for _, f := range s.lines() {
		t := controller.ElectableTopicPartition{Candidate: image.NoBroker}
		t.Topic, t.Partition = s.topicPartition(f[0])
		for _, w := range f[1:] {
			n, _ := strconv.Atoi(strings.TrimPrefix(w, "candidate="))
			t.Candidate = image.BrokerID(n)
		}
		req.Partitions = append(req.Partitions, t)
	}
	d, err := controller.ElectLeaders(s.h.view(), req)
	return carryOut(s.h, d, err) + s.wouldWrite(d.Response.Records) + partitionResults(d.Response.Results)
}

// grow: TOPIC COUNT [LIST;LIST], one a line.
func (s *script) grow() string {
	req := &controller.CreatePartitionsRequest{ValidateOnly: s.has("validate-only")}
	for _, f := range s.lines() {
		n, _ := strconv.ParseInt(f[1], 10, 32)
		t := controller.CreatePartitionsTopic{Name: f[0], Count: int32(n)}
		if len(f) > 2 {
			for _, list := range strings.Split(f[2], ";") {
				t.Assignments = append(t.Assignments, parseInts(s.h.t, strings.Split(list, ",")))
			}
		}
		req.Topics = append(req.Topics, t)
	}
	d, err := controller.CreatePartitions(s.h.view(), req)
	out := carryOut(s.h, d, err)
	if err != nil {
		return out
	}
	out += s.wouldWrite(d.Response.Records)
	for _, r := range d.Response.Topics {
		out += fmt.Sprintf("%s → %s\n", r.Name, errorText(r.Err))
	}
	return out
}

// reassign: TOPIC-N to=1,2 or cancel, one a line.
func (s *script) reassign() string {
	req := &controller.AlterPartitionReassignmentsRequest{ValidateOnly: s.has("validate-only")}
	for _, f := range s.lines() {
		t := controller.ReassignableTopicPartition{}
		t.Topic, t.Partition = s.topicPartition(f[0])
		if list, ok := strings.CutPrefix(f[1], "to="); ok {
			t.Replicas = append([]int32{}, parseInts(s.h.t, strings.Split(list, ","))...)
		}
		req.Partitions = append(req.Partitions, t)
	}
	d, err := controller.AlterPartitionReassignments(s.h.view(), req)
	out := carryOut(s.h, d, err)
	if err != nil {
		return out
	}
	return out + s.wouldWrite(d.Response.Records) + partitionResults(d.Response.Results)
}

// alter-configs: topic=NAME | broker=ID | cluster, then KEY=VALUE, -KEY, KEY+=VALUE or KEY-=VALUE, one resource a line.
func (s *script) alterConfigs() string {
	req := &controller.AlterConfigsRequest{ValidateOnly: s.has("validate-only")}
	for _, f := range s.lines() {
		r := controller.AlterableResource{Type: metadatapb.ResourceType_RESOURCE_TYPE_BROKER}
		switch kind, name, _ := strings.Cut(f[0], "="); kind {
		case "topic":
			r.Type, r.Name = metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, name
		case "broker":
			r.Name = name
		case "other":
			r.Type = metadatapb.ResourceType_RESOURCE_TYPE_UNSPECIFIED
		}
		for _, w := range f[1:] {
			r.Ops = append(r.Ops, configOp(w))
		}
		req.Resources = append(req.Resources, r)
	}
	d, err := controller.AlterConfigs(s.h.view(), req)
	out := carryOut(s.h, d, err)
	if err != nil {
		return out
	}
	out += s.wouldWrite(d.Response.Records)
	for _, r := range d.Response.Resources {
		out += fmt.Sprintf("%q → %s\n", r.Name, errorText(r.Err))
	}
	return out
}

func configOp(word string) controller.AlterableConfig {
	if key, ok := strings.CutPrefix(word, "-"); ok {
		return controller.AlterableConfig{Key: key, Op: controller.ConfigDelete}
	}
	key, value, _ := strings.Cut(word, "=")
	switch {
	case strings.HasSuffix(key, "+"):
		return controller.AlterableConfig{Key: key[:len(key)-1], Op: controller.ConfigAppend, Value: value}
	case strings.HasSuffix(key, "-"):
		return controller.AlterableConfig{Key: key[:len(key)-1], Op: controller.ConfigSubtract, Value: value}
	case strings.HasSuffix(key, "?"):
		return controller.AlterableConfig{Key: key[:len(key)-1], Op: 9, Value: value}
	}
	return controller.AlterableConfig{Key: key, Value: value}
}
