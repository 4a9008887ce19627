package controller_test

import (
	"strings"
	"testing"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// A refusal repeats a caller's text only as far as a legal name may be long, wherever in a request the text stands, and
// still says what to do.
func TestRefusalsCutLongText(t *testing.T) {
	h := badCluster(t)
	long := strings.Repeat("<&\"", many)
	topic, broker := metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, metadatapb.ResourceType_RESOURCE_TYPE_BROKER
	set := controllerpb.ConfigOperation_CONFIG_OPERATION_SET
	check := func(where string, err *controllerpb.Error) {
		t.Helper()
		if n := len(err.GetMessage()); n == 0 || n > 1200 {
			t.Errorf("%s: refused with %d bytes", where, n)
		}
	}
	created, err := controller.CreateTopics(h.view(), &controllerpb.CreateTopicsRequest{Topics: []*controllerpb.CreatableTopic{
		{Name: long}, {Name: long[:200]},
		{Name: "k", Configs: []*controllerpb.ConfigEntry{{Name: long, Value: &long}}},
		{Name: "n", Configs: []*controllerpb.ConfigEntry{{Name: long}}},
		{Name: "v", Configs: []*controllerpb.ConfigEntry{{Name: "retention.ms", Value: &long}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range created.Response.GetTopics() {
		check("created "+r.GetName()[:1], r.GetError())
	}
	deleted, _ := controller.DeleteTopics(h.view(), &controllerpb.DeleteTopicsRequest{Topics: []*controllerpb.DeletableTopic{{Name: &long}}})
	check("deleted", deleted.Response.GetTopics()[0].GetError())
	grown, _ := controller.CreatePartitions(h.view(), &controllerpb.CreatePartitionsRequest{Topics: []*controllerpb.CreatePartitionsTopic{{Name: long, Count: 2}}})
	check("grown", grown.Response.GetTopics()[0].GetError())
	elected, _ := controller.ElectLeaders(h.view(), &controllerpb.ElectLeadersRequest{
		Type: controllerpb.ElectionType_ELECTION_TYPE_UNCLEAN, Partitions: []*controllerpb.ElectablePartition{{Topic: long}},
	})
	check("elected", elected.Response.GetResults()[0].GetError())
	moved, _ := controller.AlterPartitionReassignments(h.view(), &controllerpb.AlterPartitionReassignmentsRequest{Partitions: []*controllerpb.ReassignablePartition{{Topic: long}}})
	check("moved", moved.Response.GetResults()[0].GetError())
	configs, _ := controller.AlterConfigs(h.view(), &controllerpb.AlterConfigsRequest{Resources: []*controllerpb.AlterableResource{
		{Type: topic, Name: long}, {Type: broker, Name: long},
		{Type: topic, Name: "t", Changes: []*controllerpb.ConfigChange{{Name: long, Operation: set, Value: &long}}},
		{Type: broker, Changes: []*controllerpb.ConfigChange{{Name: "segment.bytes", Operation: set, Value: &long}}},
	}})
	for _, r := range configs.Response.GetResources() {
		check("configs of "+r.GetType().String(), r.GetError())
	}
	id := uuid("x")
	_, err = controller.RegisterBroker(h.view(), &controllerpb.RegisterBrokerRequest{
		ClusterId: long, BrokerId: 9, IncarnationId: id[:], DirectoryId: id[:],
	})
	if n := len(err.Error()); n > 1200 {
		t.Errorf("registration: refused with %d bytes", n)
	}
}
