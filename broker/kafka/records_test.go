package kafka_test

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// batch makes an uncompressed batch of count records of a producer, -1 for none.
func batch(producer int64, epoch int16, sequence int32, values ...string) []byte {
	var records []byte
	for i, v := range values {
		r := kbin.AppendVarint([]byte{0}, 0) // attributes, timestamp delta
		r = kbin.AppendVarint(r, int32(i))
		r = kbin.AppendVarint(r, -1) // no key
		r = kbin.AppendVarintBytes(r, []byte(v))
		r = kbin.AppendVarint(r, 0) // no headers
		records = append(kbin.AppendVarint(records, int32(len(r))), r...)
	}
	b := kmsg.RecordBatch{
		Length: int32(49 + len(records)), PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(len(values) - 1),
		FirstTimestamp: 1000, MaxTimestamp: 1000, ProducerID: producer, ProducerEpoch: epoch, FirstSequence: sequence,
		NumRecords: int32(len(values)), Records: records,
	}
	out := b.AppendTo(nil)
	binary.BigEndian.PutUint32(out[17:], crc32.Checksum(out[21:], crc32.MakeTable(crc32.Castagnoli)))
	return out
}

// produceTo makes a Produce for one partition of a topic named by name (up to version 12).
func produceTo(version int16, acks int16, topic string, partition int32, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, acks, 30_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, records
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// fetchFrom makes a Fetch of one partition of a topic named by name (up to version 12).
func fetchFrom(version int16, topic string, partition int32, offset int64, waitMillis int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = version, waitMillis, 1, 1<<20, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 1<<20
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}
