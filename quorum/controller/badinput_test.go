package controller_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// many is the length of a list that nobody sends in good faith.
const many = 100_000

// badCluster has brokers 1 to 3 and topic t with one partition.
func badCluster(t *testing.T) *harness {
	h := newHarness(t)
	h.claim()
	for id := range int32(3) {
		h.startBroker(id+1, "")
	}
	id := uuid("t")
	d, err := controller.CreateTopics(h.view(), &controllerpb.CreateTopicsRequest{Topics: []*controllerpb.CreatableTopic{{
		Name: "t", TopicId: id[:], Assignments: []*controllerpb.ReplicaAssignment{{BrokerIds: []int32{1, 2, 3}}},
	}}})
	carryOut(h, d, err)
	return h
}

// refused wants the whole request refused with a text that begins so, and the decision empty and never begun: no topic id
// was drawn and no replica placed.
func refused[R any](t *testing.T, h *harness, d controller.Decision[R], err error, want string) {
	t.Helper()
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if len(d.Records) > 0 || d.Liveness != nil || h.ids != 0 {
		t.Errorf("refused, and yet %d records, %d ids drawn", len(d.Records), h.ids)
	}
}

func repeat[T any](n int, f func(i int) T) []T {
	list := make([]T, n)
	for i := range list {
		list[i] = f(i)
	}
	return list
}

func numbered(i int) string { return fmt.Sprintf("n%d", i) }

// A list of 100,000 is refused before it is looked into, with its size and the limit.
func TestLongListsAreRefused(t *testing.T) {
	h := badCluster(t)
	const tooMany = "POLICY_VIOLATION: the request needs 100000 records, metadata.max.records.per.batch is 10000: split it"
	topics, err := controller.CreateTopics(h.view(), &controllerpb.CreateTopicsRequest{Topics: repeat(many/2, func(i int) *controllerpb.CreatableTopic {
		return &controllerpb.CreatableTopic{Name: numbered(i)}
	})})
	refused(t, h, topics, err, tooMany)
	deleted, err := controller.DeleteTopics(h.view(), &controllerpb.DeleteTopicsRequest{Topics: repeat(many, func(i int) *controllerpb.DeletableTopic {
		name := numbered(i)
		return &controllerpb.DeletableTopic{Name: &name}
	})})
	refused(t, h, deleted, err, tooMany)
	grown, err := controller.CreatePartitions(h.view(), &controllerpb.CreatePartitionsRequest{Topics: repeat(many, func(i int) *controllerpb.CreatePartitionsTopic {
		return &controllerpb.CreatePartitionsTopic{Name: numbered(i), Count: 2}
	})})
	refused(t, h, grown, err, tooMany)
	set := "1"
	configs, err := controller.AlterConfigs(h.view(), &controllerpb.AlterConfigsRequest{Resources: []*controllerpb.AlterableResource{{
		Type: metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, Name: "t", Changes: repeat(many, func(i int) *controllerpb.ConfigChange {
			return &controllerpb.ConfigChange{Name: numbered(i), Operation: controllerpb.ConfigOperation_CONFIG_OPERATION_SET, Value: &set}
		}),
	}}})
	refused(t, h, configs, err, tooMany)
	configs, err = controller.AlterConfigs(h.view(), &controllerpb.AlterConfigsRequest{Resources: repeat(many, func(int) *controllerpb.AlterableResource {
		return &controllerpb.AlterableResource{Type: metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, Name: "t"}
	})})
	refused(t, h, configs, err, tooMany)
	elected, err := controller.ElectLeaders(h.view(), &controllerpb.ElectLeadersRequest{
		Type:       controllerpb.ElectionType_ELECTION_TYPE_PREFERRED,
		Partitions: repeat(many, func(int) *controllerpb.ElectablePartition { return &controllerpb.ElectablePartition{Topic: "t"} }),
	})
	refused(t, h, elected, err, tooMany)
	moved, err := controller.AlterPartitionReassignments(h.view(), &controllerpb.AlterPartitionReassignmentsRequest{
		Partitions: repeat(many, func(int) *controllerpb.ReassignablePartition { return &controllerpb.ReassignablePartition{Topic: "t"} }),
	})
	refused(t, h, moved, err, tooMany)
	features, err := controller.UpdateFeatures(h.view(), &controllerpb.UpdateFeaturesRequest{
		Updates: repeat(many, func(i int) *controllerpb.FeatureUpdate { return &controllerpb.FeatureUpdate{Name: numbered(i)} }),
	})
	refused(t, h, features, err, "INVALID_REQUEST: 100000 features are named, at most 64 are taken")
	id := uuid("t")
	altered, err := controller.AlterPartition(h.view(), &controllerpb.AlterPartitionRequest{
		BrokerId: 1, BrokerEpoch: int64(h.broker(1).Epoch), Topics: []*controllerpb.AlterPartitionTopic{{
			TopicId: id[:], Partitions: repeat(many, func(i int) *controllerpb.AlterPartitionItem {
				return &controllerpb.AlterPartitionItem{Partition: int32(i)}
			}),
		}},
	})
	refused(t, h, altered, err, "POLICY_VIOLATION: the request names 100000 partitions, at most 10000 are taken: split it")
}

// What a registration carries into the log is bounded.
func TestLongRegistrationsAreRefused(t *testing.T) {
	h := badCluster(t)
	long := strings.Repeat("x", many)
	for want, change := range map[string]func(*controllerpb.RegisterBrokerRequest){
		"INVALID_REGISTRATION: 100000 listeners are named, 1 to 16 are taken": func(r *controllerpb.RegisterBrokerRequest) {
			r.Listeners = repeat(many, func(i int) *metadatapb.Listener { return &metadatapb.Listener{Name: numbered(i), Host: "h", Port: 1} })
		},
		"INVALID_REGISTRATION: 100000 features are declared, at most 64 are taken": func(r *controllerpb.RegisterBrokerRequest) {
			r.Features = repeat(many, func(i int) *metadatapb.FeatureRange { return &metadatapb.FeatureRange{Name: numbered(i)} })
		},
		"INVALID_REGISTRATION: the name of a feature has 100000 bytes": func(r *controllerpb.RegisterBrokerRequest) { r.Features[0].Name = long },
		"INVALID_REGISTRATION: broker.rack has 100000 bytes":           func(r *controllerpb.RegisterBrokerRequest) { r.Rack = &long },
		"INVALID_REGISTRATION: name or host of listener 1 has 100000":  func(r *controllerpb.RegisterBrokerRequest) { r.Listeners[0].Host = long },
		"INVALID_REGISTRATION: node.id is -2147483648":                 func(r *controllerpb.RegisterBrokerRequest) { r.BrokerId = math.MinInt32 },
		"INVALID_REGISTRATION: lost replicas": func(r *controllerpb.RegisterBrokerRequest) {
			r.LostReplicas = []*controllerpb.LostReplica{{TopicId: []byte("short")}}
		},
	} {
		req := registerRequest(4, "inc-4", "dir-4")
		change(req)
		d, err := controller.RegisterBroker(h.view(), req)
		refused(t, h, d, err, want)
	}
	req := &controllerpb.RegisterControllerRequest{ClusterId: testCluster, ControllerId: 9, Listeners: registerRequest(4, "", "").Listeners}
	i, d := uuid("i"), uuid("d")
	req.IncarnationId, req.DirectoryId = i[:], d[:]
	req.Features = repeat(many, func(i int) *metadatapb.FeatureRange { return &metadatapb.FeatureRange{Name: numbered(i)} })
	decision, err := controller.RegisterController(h.view(), req)
	refused(t, h, decision, err, "INVALID_REGISTRATION: 100000 features are declared, at most 64 are taken")
}

// A list in one item that names far more brokers, or partitions, than there are ends with the first that is wrong.
func TestLongItemsAreRefused(t *testing.T) {
	h := badCluster(t)
	brokers := repeat(many, func(i int) int32 { return int32(i%3) + 1 })
	unknown := repeat(many, func(i int) int32 { return math.MaxInt32 - int32(i) })
	item := itemRefused(t)
	for what, ids := range map[string][]int32{"known brokers": brokers, "unknown brokers": unknown} {
		created, err := controller.CreateTopics(h.view(), &controllerpb.CreateTopicsRequest{Topics: []*controllerpb.CreatableTopic{{
			Name: "u", Assignments: []*controllerpb.ReplicaAssignment{{BrokerIds: ids}},
		}}})
		if carryOut(h, created, err); err != nil || len(created.Records) > 0 {
			t.Errorf("%s: %d records, %v", what, len(created.Records), err)
		}
		item("create of "+what, created.Response.GetTopics()[0].GetError(), controllerpb.ErrorCode_ERROR_CODE_INVALID_REPLICA_ASSIGNMENT)
		moved, err := controller.AlterPartitionReassignments(h.view(), &controllerpb.AlterPartitionReassignmentsRequest{
			Partitions: []*controllerpb.ReassignablePartition{{Topic: "t", Replicas: &metadatapb.BrokerIds{Ids: ids}}},
		})
		if carryOut(h, moved, err); err != nil || len(moved.Records) > 0 {
			t.Errorf("%s: %d records, %v", what, len(moved.Records), err)
		}
		item("move to "+what, moved.Response.GetResults()[0].GetError(), controllerpb.ErrorCode_ERROR_CODE_INVALID_REPLICA_ASSIGNMENT)
		id := uuid("t")
		altered, err := controller.AlterPartition(h.view(), &controllerpb.AlterPartitionRequest{
			BrokerId: 1, BrokerEpoch: int64(h.broker(1).Epoch), Topics: []*controllerpb.AlterPartitionTopic{{TopicId: id[:], Partitions: []*controllerpb.AlterPartitionItem{{
				Isr:                 repeat(many, func(i int) *controllerpb.IsrMember { return &controllerpb.IsrMember{BrokerId: ids[i]} }),
				LeaderRecoveryState: metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED,
			}}}},
		})
		if carryOut(h, altered, err); err != nil || len(altered.Records) > 0 {
			t.Errorf("%s: %d records, %v", what, len(altered.Records), err)
		}
		item("ISR of "+what, altered.Response.GetTopics()[0].GetPartitions()[0].GetError(), controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST)
	}
}

// itemRefused checks the refusal of one item of a request.
func itemRefused(t *testing.T) func(what string, e *controllerpb.Error, code controllerpb.ErrorCode) {
	return func(what string, e *controllerpb.Error, code controllerpb.ErrorCode) {
		t.Helper()
		if e.GetCode() != code || e.GetMessage() == "" {
			t.Errorf("%s: %v, want %v", what, e, code)
		}
	}
}

// Counts and numbers of partitions that cannot be are refused, one by one, and leave no record.
func TestNumbersOutOfRangeAreRefused(t *testing.T) {
	h, item := badCluster(t), itemRefused(t)
	for _, n := range []int32{math.MinInt32, -2, 0} {
		created, err := controller.CreateTopics(h.view(), &controllerpb.CreateTopicsRequest{Topics: []*controllerpb.CreatableTopic{
			{Name: "u", Partitions: &n}, {Name: "v", ReplicationFactor: &n},
		}})
		if err != nil || len(created.Records) > 0 {
			t.Fatalf("%d: %d records, %v", n, len(created.Records), err)
		}
		item("partitions", created.Response.GetTopics()[0].GetError(), controllerpb.ErrorCode_ERROR_CODE_INVALID_PARTITIONS)
		item("replication factor", created.Response.GetTopics()[1].GetError(), controllerpb.ErrorCode_ERROR_CODE_INVALID_REPLICATION_FACTOR)
		grown, err := controller.CreatePartitions(h.view(), &controllerpb.CreatePartitionsRequest{Topics: []*controllerpb.CreatePartitionsTopic{{Name: "t", Count: n}}})
		if err != nil || len(grown.Records) > 0 {
			t.Fatalf("%d: %d records, %v", n, len(grown.Records), err)
		}
		item("growth", grown.Response.GetTopics()[0].GetError(), controllerpb.ErrorCode_ERROR_CODE_INVALID_PARTITIONS)
	}
	for _, n := range []int32{math.MinInt32, -1, 1, math.MaxInt32} {
		elected, err := controller.ElectLeaders(h.view(), &controllerpb.ElectLeadersRequest{
			Type: controllerpb.ElectionType_ELECTION_TYPE_PREFERRED, Partitions: []*controllerpb.ElectablePartition{{Topic: "t", Partition: n}},
		})
		if err != nil || len(elected.Records) > 0 {
			t.Fatalf("%d: %d records, %v", n, len(elected.Records), err)
		}
		item("election", elected.Response.GetResults()[0].GetError(), controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION)
		moved, err := controller.AlterPartitionReassignments(h.view(), &controllerpb.AlterPartitionReassignmentsRequest{
			Partitions: []*controllerpb.ReassignablePartition{{Topic: "t", Partition: n, Replicas: &metadatapb.BrokerIds{Ids: []int32{1}}}},
		})
		if err != nil || len(moved.Records) > 0 {
			t.Fatalf("%d: %d records, %v", n, len(moved.Records), err)
		}
		item("move", moved.Response.GetResults()[0].GetError(), controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION)
		id := uuid("t")
		altered, err := controller.AlterPartition(h.view(), &controllerpb.AlterPartitionRequest{
			BrokerId: 1, BrokerEpoch: int64(h.broker(1).Epoch), Topics: []*controllerpb.AlterPartitionTopic{{TopicId: id[:], Partitions: []*controllerpb.AlterPartitionItem{{Partition: n}}}},
		})
		if err != nil || len(altered.Records) > 0 {
			t.Fatalf("%d: %d records, %v", n, len(altered.Records), err)
		}
		item("ISR", altered.Response.GetTopics()[0].GetPartitions()[0].GetError(), controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION)
	}
	huge := int32(math.MaxInt32)
	created, err := controller.CreateTopics(h.view(), &controllerpb.CreateTopicsRequest{Topics: []*controllerpb.CreatableTopic{{Name: "u", Partitions: &huge}, {Name: "v", Partitions: &huge}}})
	if err == nil || !strings.HasPrefix(err.Error(), "POLICY_VIOLATION: the request needs 4294967296 records") {
		t.Errorf("two topics of 2147483647 partitions: %v, %v", created, err)
	}
}

// limitCase is a request of a size, as a decision would write it.
type limitCase struct {
	name  string
	write func(h *harness, n int) (records int, err error)
}

// Every atomic request fits at exactly the limit, and is refused with limit and size at one more and at a multiple.
func TestAtomicRequestsAtTheLimit(t *testing.T) {
	const limit = 50
	value := func(i int) *string { v := fmt.Sprint(i + 1); return &v }
	for _, c := range []limitCase{
		{"CreateTopics", func(h *harness, n int) (int, error) {
			partitions := int32(n - 1)
			d, err := controller.CreateTopics(h.view(), &controllerpb.CreateTopicsRequest{Topics: []*controllerpb.CreatableTopic{{Name: "u", Partitions: &partitions}}})
			return len(d.Records), err
		}},
		{"CreatePartitions", func(h *harness, n int) (int, error) {
			d, err := controller.CreatePartitions(h.view(), &controllerpb.CreatePartitionsRequest{Topics: []*controllerpb.CreatePartitionsTopic{{Name: "t", Count: int32(n + 1)}}})
			return len(d.Records), err
		}},
		{"DeleteTopics", func(h *harness, n int) (int, error) {
			d, err := controller.DeleteTopics(h.view(), &controllerpb.DeleteTopicsRequest{Topics: repeat(n, func(i int) *controllerpb.DeletableTopic {
				name := numbered(i)
				return &controllerpb.DeletableTopic{Name: &name}
			})})
			return len(d.Records), err
		}},
		{"AlterConfigs", func(h *harness, n int) (int, error) {
			d, err := controller.AlterConfigs(h.view(), &controllerpb.AlterConfigsRequest{Resources: repeat(n, func(i int) *controllerpb.AlterableResource {
				return &controllerpb.AlterableResource{Type: metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, Name: numbered(i), Changes: []*controllerpb.ConfigChange{{
					Name: "retention.ms", Operation: controllerpb.ConfigOperation_CONFIG_OPERATION_SET, Value: value(i),
				}}}
			})})
			return len(d.Records), err
		}},
		{"AlterPartitionReassignments", func(h *harness, n int) (int, error) {
			d, err := controller.AlterPartitionReassignments(h.view(), &controllerpb.AlterPartitionReassignmentsRequest{Partitions: repeat(n, func(i int) *controllerpb.ReassignablePartition {
				return &controllerpb.ReassignablePartition{Topic: numbered(i), Replicas: &metadatapb.BrokerIds{Ids: []int32{1, 2}}}
			})})
			return len(d.Records), err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := badCluster(t)
			for i := range 2*limit + 2 {
				id := uuid(numbered(i))
				d, err := controller.CreateTopics(h.view(), &controllerpb.CreateTopicsRequest{Topics: []*controllerpb.CreatableTopic{{
					Name: numbered(i), TopicId: id[:], Assignments: []*controllerpb.ReplicaAssignment{{BrokerIds: []int32{1}}},
				}}})
				if h.lenient = true; err != nil {
					t.Fatal(err)
				}
				h.write(d.Records)
			}
			h.limits.RecordsMax = limit
			if records, err := c.write(h, limit); err != nil || records != limit {
				t.Errorf("exactly the limit: %d records, %v", records, err)
			}
			for _, n := range []int{limit + 1, 2 * limit} {
				want := fmt.Sprintf("POLICY_VIOLATION: the request needs %d records, metadata.max.records.per.batch is %d: split it", n, limit)
				if records, err := c.write(h, n); err == nil || err.Error() != want || records != 0 {
					t.Errorf("%d: %d records, %v, want %s", n, records, err, want)
				}
			}
		})
	}
}

// Names collide also within one request, whatever stands between them: the first is created, the later ones are refused.
func TestCollisionsWithinOneRequest(t *testing.T) {
	h := badCluster(t)
	names := []string{"a.b.c", "x", "a_b.c", "a.b_c", "A.b.c", "a-b-c", "x"}
	d, err := controller.CreateTopics(h.view(), &controllerpb.CreateTopicsRequest{Topics: repeat(len(names), func(i int) *controllerpb.CreatableTopic {
		return &controllerpb.CreatableTopic{Name: names[i]}
	})})
	carryOut(h, d, err)
	var created []string
	for topic := range h.image.Topics() {
		created = append(created, topic.Name())
	}
	if want := []string{"A.b.c", "a-b-c", "a.b.c", "t"}; !slices.Equal(created, want) {
		t.Errorf("created %v, want %v", created, want)
	}
}
