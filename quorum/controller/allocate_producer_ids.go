package controller

import (
	"math"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// producerIDBlock is how many producer ids a broker gets at once.
const producerIDBlock = 1000

// AllocateProducerIds gives a block of producer ids to a broker. Blocks never overlap; what a broker did not use is lost.
//
//	STALE_BROKER_EPOCH  the sender is not registered, or under another epoch
//	POLICY_VIOLATION    the ids are used up
func AllocateProducerIds(v View, req *controllerpb.AllocateProducerIdsRequest) (Decision[*controllerpb.AllocateProducerIdsResponse], error) {
	var d Decision[*controllerpb.AllocateProducerIdsResponse]
	if _, err := checkBrokerEpoch(v.Image, req.GetBrokerId(), req.GetBrokerEpoch()); err != nil {
		return d, err
	}
	first := v.Image.NextProducerID()
	if first > math.MaxInt64-1-producerIDBlock {
		return d, controllerpb.Refuse(codePolicyViolation, "no block of %d producer ids is left above %d", producerIDBlock, first)
	}
	d.Records = []*metadatapb.Record{{Kind: &metadatapb.Record_ProducerIds{ProducerIds: &metadatapb.ProducerIds{
		BrokerId: req.GetBrokerId(), BrokerEpoch: req.GetBrokerEpoch(), NextProducerId: first + producerIDBlock,
	}}}}
	d.Response = &controllerpb.AllocateProducerIdsResponse{FirstProducerId: first, Count: producerIDBlock}
	return d, nil
}
