package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// handler starts a request. It runs on the connection's reader, must not wait for anything but its turn, and sees to
// it that the request is answered exactly once.
type handler func(*Server, *request)

// entry is one API that is served.
type entry struct {
	key  int16
	name string
	// min and max are the versions served.
	min, max int16
	// advertisedMin is what ApiVersions says instead of min.
	advertisedMin int16
	// bulk requests may be as large as RequestBytesMax, others as ControlBytesMax.
	bulk bool
	// serial requests hold up the next request of their connection until they are answered.
	serial bool
	// forwarded requests are decided by the active controller.
	forwarded bool
	handle    handler
}

func (e *entry) newRequest() kmsg.Request { return kmsg.RequestForKey(e.key) }

// keysMax bounds the keys that the table can hold.
const keysMax = 128

// table is the list of served APIs. ApiVersions is generated from it, so that it cannot promise anything else.
type table struct {
	entries []entry
	byKey   [keysMax]*entry
}

// newTable states the surface. Minimums are those of Kafka 4 (KIP-896). Produce is advertised from 0 as Kafka 4 does
// (KAFKA-18659): librdkafka before 2.0.3 compresses only if it sees the old versions.
func newTable() table {
	t := table{entries: []entry{
		{key: int16(kmsg.Produce), min: 3, max: 13, advertisedMin: 0, bulk: true, handle: (*Server).produce},
		{key: int16(kmsg.Fetch), min: 4, max: 18, advertisedMin: 4, serial: true, handle: (*Server).fetch},
		{key: int16(kmsg.ListOffsets), min: 1, max: 10, advertisedMin: 1, handle: (*Server).listOffsets},
		{key: int16(kmsg.Metadata), min: 0, max: 13, advertisedMin: 0, serial: true, handle: (*Server).metadata},
		{key: int16(kmsg.ApiVersions), min: 0, max: 4, advertisedMin: 0, handle: (*Server).apiVersions},
		{key: int16(kmsg.CreateTopics), min: 2, max: 7, advertisedMin: 2, forwarded: true, serial: true, handle: (*Server).createTopics},
		{key: int16(kmsg.DeleteTopics), min: 1, max: 6, advertisedMin: 1, forwarded: true, serial: true, handle: (*Server).deleteTopics},
		{key: int16(kmsg.InitProducerID), min: 0, max: 5, advertisedMin: 0, forwarded: true, handle: (*Server).initProducerID},
		{key: int16(kmsg.OffsetForLeaderEpoch), min: 2, max: 4, advertisedMin: 2, handle: (*Server).offsetForLeaderEpoch},
		{key: int16(kmsg.DescribeConfigs), min: 1, max: 4, advertisedMin: 1, serial: true, handle: (*Server).describeConfigs},
		{key: int16(kmsg.AlterConfigs), min: 0, max: 2, advertisedMin: 0, forwarded: true, serial: true, handle: (*Server).alterConfigs},
		{key: int16(kmsg.CreatePartitions), min: 0, max: 3, advertisedMin: 0, forwarded: true, serial: true, handle: (*Server).createPartitions},
		{key: int16(kmsg.ElectLeaders), min: 0, max: 2, advertisedMin: 0, forwarded: true, serial: true, handle: (*Server).electLeaders},
		{key: int16(kmsg.IncrementalAlterConfigs), min: 0, max: 1, advertisedMin: 0, forwarded: true, serial: true, handle: (*Server).incrementalAlterConfigs},
		{key: int16(kmsg.AlterPartitionAssignments), min: 0, max: 1, advertisedMin: 0, forwarded: true, serial: true, handle: (*Server).alterPartitionReassignments},
		{key: int16(kmsg.ListPartitionReassignments), min: 0, max: 0, advertisedMin: 0, serial: true, handle: (*Server).listPartitionReassignments},
		{key: int16(kmsg.DescribeQuorum), min: 0, max: 2, advertisedMin: 0, forwarded: true, handle: (*Server).describeQuorum},
		{key: int16(kmsg.UpdateFeatures), min: 0, max: 2, advertisedMin: 0, forwarded: true, serial: true, handle: (*Server).updateFeatures},
		{key: int16(kmsg.DescribeCluster), min: 0, max: 2, advertisedMin: 0, handle: (*Server).describeCluster},
		{key: int16(kmsg.UnregisterBroker), min: 0, max: 0, advertisedMin: 0, forwarded: true, serial: true, handle: (*Server).unregisterBroker},
		{key: int16(kmsg.DescribeTopicPartitions), min: 0, max: 0, advertisedMin: 0, serial: true, handle: (*Server).describeTopicPartitions},
	}}
	for i := range t.entries {
		e := &t.entries[i]
		e.name = kmsg.NameForKey(e.key)
		t.byKey[e.key] = e
	}
	return t
}

// find returns the entry of a key, or nil.
func (t *table) find(key int16) *entry {
	if key < 0 || key >= keysMax {
		return nil
	}
	return t.byKey[key]
}
