package controller

import (
	"slices"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// RegisterController tells where a controller is reached and what it supports (KIP-919). It replaces what the
// controller told before; told again, nothing is written. Whether the node is a voter is Raft's business.
//
//	INCONSISTENT_CLUSTER_ID  the node was formatted for another cluster
//	INVALID_REGISTRATION     id, incarnation, directory, listeners or names of features are malformed
//	INVALID_VOTER_KEY        the node was removed from the quorum with this directory
//	UNSUPPORTED_VERSION      a finalized feature level is outside the declared range
func RegisterController(v View, req *controllerpb.RegisterControllerRequest) (Decision[*controllerpb.RegisterControllerResponse], error) {
	d := Decision[*controllerpb.RegisterControllerResponse]{Response: &controllerpb.RegisterControllerResponse{}}
	if err := checkController(v, req); err != nil {
		return Decision[*controllerpb.RegisterControllerResponse]{}, err
	}
	features := plainFeatures(req.GetFeatures())
	slices.SortFunc(features, compareFeatures)
	if old, ok := v.Image.Controller(image.BrokerID(req.GetControllerId())); ok &&
		slices.Equal(old.IncarnationID[:], req.GetIncarnationId()) && slices.Equal(old.DirectoryID[:], req.GetDirectoryId()) &&
		sameListeners(old.Listeners, req.GetListeners()) && sameFeatures(old.Features, features) {
		return d, nil
	}
	d.Records = []*metadatapb.Record{{Kind: &metadatapb.Record_RegisterController{RegisterController: &metadatapb.RegisterController{
		ControllerId: req.GetControllerId(), IncarnationId: req.GetIncarnationId(), DirectoryId: req.GetDirectoryId(),
		Listeners: plainListeners(req.GetListeners()), Features: features,
	}}}}
	return d, nil
}

// removedForGood is the refusal of a controller under an identity that the quorum has given up.
func removedForGood(id image.BrokerID, directory image.UUID) error {
	return controllerpb.Refuse(codeInvalidVoterKey, "controller %v with directory %v was removed from the quorum and stays out: "+
		"format another directory with `quorate format --no-initial-controllers`, start the node and add it with `quorate quorum add %v`", id, directory, id)
}

func checkController(v View, req *controllerpb.RegisterControllerRequest) error {
	if err := checkClusterID(v, req.GetClusterId()); err != nil {
		return err
	}
	if req.GetControllerId() < 0 {
		return controllerpb.Refuse(codeInvalidRegistration, "node.id is %d, must be 0 or more", req.GetControllerId())
	}
	_, directory, err := readNodeIDs(req.GetIncarnationId(), req.GetDirectoryId())
	if err != nil {
		return err
	}
	if err := checkListeners(req.GetListeners()); err != nil {
		return err
	}
	if id := image.BrokerID(req.GetControllerId()); v.Image.IsRemovedController(id, directory) {
		return removedForGood(id, directory)
	}
	return checkFeatures(v.Image, req.GetFeatures())
}
