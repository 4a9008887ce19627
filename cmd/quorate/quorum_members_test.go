package main

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client/clienttest"
)

// newQuorumWorld is a quorum whose two members that answer know the configuration of index 40.
func newQuorumWorld(t *testing.T) *world {
	w := newWorld(t)
	for _, c := range []*clienttest.Controller{w.active, w.standby} {
		s, _ := c.NodeStatus(t.Context(), nil)
		s = proto.Clone(s).(*controllerpb.NodeStatusResponse)
		s.ConfigurationIndex, s.MetadataOffset, s.Chain = 40, 20, 0xabc
		c.Set(s)
	}
	w.handle(func(h *clienttest.Handlers) {
		h.AddController, h.RemoveController, h.TransferLeadership = addController, removeController, transferLeadership
	})
	return w
}

func addController(_ context.Context, r *controllerpb.AddControllerRequest) (*controllerpb.AddControllerResponse, error) {
	resp := &controllerpb.AddControllerResponse{
		DirectoryId: r.GetDirectoryId(), RaftAddress: r.GetRaftAddress(), ConfigurationIndex: 40, MetadataOffset: 20,
	}
	switch r.GetControllerId() {
	case 1002:
		resp.DirectoryId, resp.RaftAddress, resp.WasVoter = id16(2), "c2:9292", true
	case 1004:
		if len(r.GetDirectoryId()) == 0 {
			resp.DirectoryId, resp.RaftAddress = id16(4), "c4:9292"
		}
	case 1005:
		resp.DirectoryId, resp.RaftAddress, resp.ConfigurationIndex = id16(5), "c5:9292", 41
	case 1009:
		return nil, refusal(controllerpb.ErrorCode_ERROR_CODE_INVALID_VOTER_KEY, "at c9:9292 listens 1008, not 1009: nothing was changed")
	}
	return resp, nil
}

func removeController(_ context.Context, r *controllerpb.RemoveControllerRequest) (*controllerpb.RemoveControllerResponse, error) {
	resp := &controllerpb.RemoveControllerResponse{
		DirectoryId: id16(3), ConfigurationIndex: 40, MetadataOffset: 20, UnfencedBrokers: []int32{1, 2, 3}, WasRemoved: len(r.GetDirectoryId()) > 0,
	}
	if r.GetControllerId() == 1002 && !r.GetForce() {
		return nil, refusal(controllerpb.ErrorCode_ERROR_CODE_POLICY_VIOLATION, "of the voters left 2 must have caught up, and 1 have; use --force")
	}
	if r.GetValidateOnly() {
		resp.Records = []*metadatapb.Record{{Kind: &metadatapb.Record_RemovedController{
			RemovedController: &metadatapb.RemovedController{ControllerId: r.GetControllerId(), DirectoryId: id16(3), RemovedAtMs: 1700000000000},
		}}}
	}
	return resp, nil
}

func transferLeadership(_ context.Context, r *controllerpb.TransferLeadershipRequest) (*controllerpb.TransferLeadershipResponse, error) {
	resp := &controllerpb.TransferLeadershipResponse{ControllerId: 1002, FormerControllerId: 1001}
	if r.ControllerId != nil {
		resp.ControllerId = r.GetControllerId()
	}
	switch {
	case resp.GetControllerId() == 1003:
		return nil, refusal(controllerpb.ErrorCode_ERROR_CODE_ELIGIBLE_LEADERS_NOT_AVAILABLE, "controller 1003 does not answer or has not caught up")
	case !r.GetValidateOnly():
		resp.ControllerEpoch = 4
	}
	return resp, nil
}

func TestQuorumAdd(t *testing.T) { newQuorumWorld(t).golden(t, "quorum_add.txt", nil) }

func TestQuorumRemove(t *testing.T) { newQuorumWorld(t).golden(t, "quorum_remove.txt", nil) }

func TestQuorumTransfer(t *testing.T) { newQuorumWorld(t).golden(t, "quorum_transfer.txt", nil) }
