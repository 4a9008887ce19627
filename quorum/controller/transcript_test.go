package controller_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// TestTranscripts runs testdata: each file begins with an empty log and tells what each request writes and is answered.
// Every invariant is checked after every record.
func TestTranscripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			h := newHarness(t)
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				h.t = t
				s := &script{h: h, d: d}
				out := s.run()
				if out == "" {
					out = "ok\n"
				}
				return out
			})
		})
	}
}

// script is one command of a transcript.
type script struct {
	h *harness
	d *datadriven.TestData
}

func (s *script) run() string {
	if s.has("cut") {
		s.h.cut = s.int("cut", -1)
	}
	switch s.d.Cmd {
	case "cluster":
		return s.cluster()
	case "brokers":
		return s.brokers()
	case "partition":
		return s.partition()
	case "config":
		return s.config()
	case "advance":
		return s.advance()
	case "claim":
		return s.h.claim()
	case "show":
		return s.show()
	case "follow-states":
		return s.followStates()
	case "remove-from-quorum":
		return s.removeFromQuorum()
	case "register":
		return s.register()
	case "heartbeat":
		return s.heartbeat()
	case "alter-partition":
		return s.alterPartition()
	case "create":
		return s.create()
	case "delete":
		return s.delete()
	case "report":
		return s.report()
	case "producer-ids":
		return s.producerIDs()
	case "controller":
		return s.controller()
	}
	return s.operator()
}

func (s *script) has(key string) bool { return s.d.HasArg(key) }

func (s *script) text(key, otherwise string) string {
	if !s.d.HasArg(key) {
		return otherwise
	}
	var v string
	s.d.ScanArgs(s.h.t.(*testing.T), key, &v)
	return v
}

func (s *script) int(key string, otherwise int) int {
	v := s.text(key, strconv.Itoa(otherwise))
	n, err := strconv.Atoi(v)
	if err != nil {
		s.h.t.Fatalf("%s: %s=%s: %v", s.d.Pos, key, v, err)
	}
	return n
}

func (s *script) ints(key string) []int32 {
	for _, a := range s.d.CmdArgs {
		if a.Key == key {
			return parseInts(s.h.t, a.Vals)
		}
	}
	return nil
}

func parseInts(t fataler, vals []string) []int32 {
	var out []int32
	for _, v := range vals {
		if v == "" {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, int32(n))
	}
	return out
}

func (s *script) lines() [][]string {
	var out [][]string
	for _, l := range strings.Split(s.d.Input, "\n") {
		if f := strings.Fields(l); len(f) > 0 {
			out = append(out, f)
		}
	}
	return out
}

// cluster opens a new cluster.
func (s *script) cluster() string {
	*s.h = *newHarness(s.h.t)
	s.h.defaults.MinInsyncReplicas = s.int("min-isr", 1)
	s.h.defaults.UncleanLeaderElection = s.has("unclean")
	s.h.defaults.Partitions = int32(s.int("partitions", 1))
	s.h.defaults.ReplicationFactor = int32(s.int("rf", 1))
	s.h.limits.RecordsMax = s.int("records-max", s.h.limits.RecordsMax)
	s.h.limits.BytesMax = s.int("bytes-max", s.h.limits.BytesMax)
	s.h.lenient = s.has("lenient")
	if s.text("elr", "on") == "off" {
		s.h.defaults.EligibleLeaderReplicas = 0
	}
	if s.has("empty") {
		return ""
	}
	return s.h.claim()
}

// brokers registers and unfences brokers; racks go with them in order.
func (s *script) brokers() string {
	var racks []string
	for _, a := range s.d.CmdArgs {
		if a.Key == "racks" {
			racks = a.Vals
		}
	}
	var b strings.Builder
	for i, id := range s.ints("ids") {
		rack := ""
		if i < len(racks) {
			rack = strings.TrimSpace(racks[i])
		}
		s.h.startBroker(id, rack)
		b.WriteString(brokerLine(s.h.broker(id)) + "\n")
	}
	return b.String()
}

// partition writes a partition as it is given, as the next one of its topic.
func (s *script) partition() string {
	name := s.d.CmdArgs[0].Key
	id := uuid(name)
	var records []*metadatapb.Record
	number := int32(0)
	if t, ok := s.h.image.TopicByName(name); ok {
		number = int32(t.Len())
	} else {
		records = append(records, &metadatapb.Record{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: name, TopicId: id[:]}}})
	}
	p := &metadatapb.Partition{
		TopicId: id[:], Partition: number, Replicas: s.ints("replicas"), Isr: s.ints("isr"), Elr: s.ints("elr"), LastKnownElr: s.ints("last-known"),
		AddingReplicas: s.ints("adding"), RemovingReplicas: s.ints("removing"), OriginalReplicas: s.ints("original"),
		LeaderEpoch: int32(s.int("le", 0)), PartitionEpoch: int32(s.int("pe", 0)),
		LeaderRecoveryState: metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED,
	}
	if !s.has("isr") {
		p.Isr = p.Replicas
	}
	if s.has("recovering") {
		p.LeaderRecoveryState = metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERING
	}
	switch leader := s.text("leader", ""); leader {
	case "none":
	case "":
		p.Leader = &p.Isr[0]
	default:
		n := int32(s.int("leader", 0))
		p.Leader = &n
	}
	records = append(records, &metadatapb.Record{Kind: &metadatapb.Record_Partition{Partition: p}})
	for _, r := range records {
		next, err := replay(s.h.image, r)
		if err != nil {
			s.h.t.Fatal(err)
		}
		s.h.image = next
	}
	return stateText(s.h.image, []string{name})
}

// config sets a config: topic=t or cluster, key=value.
func (s *script) config() string {
	c := &metadatapb.Config{ResourceType: metadatapb.ResourceType_RESOURCE_TYPE_BROKER}
	if topic := s.text("topic", ""); topic != "" {
		c.ResourceType, c.ResourceName = metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, topic
	}
	c.Key = s.text("key", "")
	if s.has("value") {
		v := s.text("value", "")
		c.Value = &v
	}
	next, err := replay(s.h.image, &metadatapb.Record{Kind: &metadatapb.Record_Config{Config: c}})
	if err != nil {
		s.h.t.Fatal(err)
	}
	s.h.image = next
	return ""
}

func (s *script) advance() string {
	by, err := time.ParseDuration(s.text("by", ""))
	if err != nil {
		s.h.t.Fatal(err)
	}
	if s.has("nobody-fences") {
		for end := s.h.now.Add(by); s.h.now.Before(end); {
			s.h.now = s.h.now.Add(100 * time.Millisecond)
			s.h.liveness, _ = s.h.liveness.Tick(s.h.now, s.h.limits.HeartbeatInterval)
			for _, id := range s.ints("heard") {
				s.h.beat(id)
			}
		}
		return ""
	}
	if s.has("asleep") {
		s.h.now = s.h.now.Add(by)
		var renewed bool
		s.h.liveness, renewed = s.h.liveness.Tick(s.h.now, s.h.limits.HeartbeatInterval)
		return fmt.Sprintf("sessions renewed: %v\n", renewed)
	}
	return s.h.advance(by, s.ints("heard"))
}

func (s *script) show() string {
	var names []string
	for _, a := range s.d.CmdArgs {
		names = append(names, a.Key)
	}
	return stateText(s.h.image, names)
}

func (s *script) register() string {
	id := int32(s.int("id", 0))
	req := registerRequest(id, s.text("incarnation", fmt.Sprintf("inc-%d", id)), s.text("directory", fmt.Sprintf("dir-%d", id)))
	req.ClusterId = s.text("cluster", testCluster)
	req.JudgedOffset = int64(s.int("judged", int(s.h.image.Offset())))
	req.Lineage = int32(s.int("lineage", int(s.h.image.Lineage().Number)))
	if stop := s.text("stop", ""); stop != "" {
		req.StopKind = metadatapb.StopKind(metadatapb.StopKind_value["STOP_KIND_"+strings.ToUpper(strings.ReplaceAll(stop, "-", "_"))])
	}
	if s.has("previous") {
		previous := int64(s.int("previous", 0))
		req.PreviousBrokerEpoch = &previous
	}
	if s.has("rack") {
		rack := topicName(s.text("rack", ""))
		req.Rack = &rack
	}
	if s.has("host") {
		req.Listeners[0].Host = topicName(s.text("host", ""))
	}
	if s.has("port") {
		req.Listeners[0].Port = uint32(s.int("port", 0))
	}
	s.features(&req.Features)
	if topic := s.text("lost", ""); topic != "" {
		id := uuid(topic)
		req.LostReplicas = []*controllerpb.LostReplica{{TopicId: id[:], Partitions: append([]int32{0}, s.ints("lost-partitions")...)}}
	}
	d, err := controller.RegisterBroker(s.h.view(), req)
	out := carryOut(s.h, d, err)
	if err == nil {
		out += fmt.Sprintf("registered epoch=%d offset=%d\n", d.Response.BrokerEpoch, d.Response.RegistrationOffset) + reasonLines(d.Reasons)
	}
	return out
}

// features=(name:min:max, …) replaces what is declared.
func (s *script) features(to *[]*metadatapb.FeatureRange) {
	for _, a := range s.d.CmdArgs {
		if a.Key != "features" {
			continue
		}
		*to = nil
		for _, v := range a.Vals {
			f := strings.Split(strings.TrimSpace(v), ":")
			if len(f) != 3 {
				continue
			}
			low, _ := strconv.Atoi(f[1])
			high, _ := strconv.Atoi(f[2])
			*to = append(*to, &metadatapb.FeatureRange{Name: f[0], Min: int32(low), Max: int32(high)})
		}
	}
}

func (s *script) heartbeat() string {
	id := int32(s.int("id", 0))
	epoch := int64(0)
	if b, ok := s.h.image.Broker(image.BrokerID(id)); ok {
		epoch = int64(b.Epoch)
	}
	req := &controllerpb.BrokerHeartbeatRequest{
		BrokerId: id, BrokerEpoch: int64(s.int("epoch", int(epoch))), MetadataOffset: int64(s.int("offset", int(s.h.image.Offset()))),
		Lineage:   int32(s.int("lineage", int(s.h.image.Lineage().Number))),
		WantFence: s.has("want-fence"), WantShutDown: s.has("want-shutdown"),
	}
	if s.has("late") {
		d, err := controller.LateHeartbeat(s.h.view(), req)
		out := carryOut(s.h, d, err)
		if state, ok := s.h.liveness.HeartbeatState(image.BrokerID(id)); ok && err == nil {
			out += fmt.Sprintf("contact=%v offset=%d\n", state.LastContact.Sub(time.Unix(1000, 0)), state.MetadataOffset)
		}
		return out
	}
	d, err := controller.BrokerHeartbeat(s.h.view(), req)
	out := carryOut(s.h, d, err)
	if err == nil {
		r := d.Response
		out += fmt.Sprintf("caught-up=%v fenced=%v should-shut-down=%v\n", r.IsCaughtUp, r.IsFenced, r.ShouldShutDown) + reasonLines(d.Reasons)
	}
	return out
}

func (s *script) producerIDs() string {
	id := int32(s.int("id", 0))
	epoch := s.int("epoch", int(s.h.broker(id).Epoch))
	d, err := controller.AllocateProducerIds(s.h.view(), &controllerpb.AllocateProducerIdsRequest{BrokerId: id, BrokerEpoch: int64(epoch)})
	out := carryOut(s.h, d, err)
	if err == nil {
		out += fmt.Sprintf("block from %d, %d ids\n", d.Response.FirstProducerId, d.Response.Count)
	}
	return out
}

func (s *script) controller() string {
	i, dir := uuid(s.text("incarnation", "inc")), uuid(s.text("directory", "dir"))
	id := int32(s.int("id", 0))
	req := &controllerpb.RegisterControllerRequest{
		ClusterId: s.text("cluster", testCluster), ControllerId: id, IncarnationId: i[:], DirectoryId: dir[:],
		Listeners: []*metadatapb.Listener{{Name: s.text("listener", "GRPC"), Host: s.text("host", "localhost"), Port: uint32(s.int("port", 9192))}},
		Features:  registerRequest(1, "a", "b").Features,
	}
	s.features(&req.Features)
	d, err := controller.RegisterController(s.h.view(), req)
	return carryOut(s.h, d, err)
}
