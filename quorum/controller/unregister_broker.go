package controller

import (
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// UnregisterBroker removes a registration. The broker may be alive or hold replicas: replica lists stay as they are, and
// a live process gets STALE_BROKER_EPOCH from then on.
//
//	BROKER_ID_NOT_REGISTERED  the id is not registered
//
// The broker leaves every ISR and ELR, for nobody can tell what a later registration of the id will hold. It may stay last
// known, and without ELR the frozen last member: when the id is registered again it leaves those, too. Its own record comes
// last, so the decision may be cut anywhere before.
func UnregisterBroker(v View, req *controllerpb.UnregisterBrokerRequest) (Decision[*controllerpb.UnregisterBrokerResponse], error) {
	var d Decision[*controllerpb.UnregisterBrokerResponse]
	id := image.BrokerID(req.GetBrokerId())
	b, ok := v.Image.Broker(id)
	if !ok {
		return d, &controllerpb.RefusedError{Err: notRegistered(id)}
	}
	e := newElectorate(v)
	e.bar(id)
	departure := departure{
		electorate: e, broker: id, leavesISR: true,
		fate:   func(image.PartitionID) fate { return fateCrashed },
		reason: metadatapb.ChangeReason_CHANGE_REASON_UNREGISTER,
	}
	records := append(departure.records(), &metadatapb.Record{Kind: &metadatapb.Record_UnregisterBroker{
		UnregisterBroker: &metadatapb.UnregisterBroker{BrokerId: int32(id), BrokerEpoch: int64(b.Epoch)},
	}})
	d.Response = &controllerpb.UnregisterBrokerResponse{}
	if req.GetValidateOnly() {
		d.Response.Records = records
		return d, nil
	}
	d.Records = records
	d.because("broker "+id.String(), "unregistered with epoch %d, %d replicas stay assigned", b.Epoch, v.Image.ReplicaCount(id))
	liveness := v.Liveness.Forgotten(id)
	d.Liveness = &liveness
	return d, nil
}
