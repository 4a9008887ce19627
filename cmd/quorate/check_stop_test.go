package main

import (
	"context"
	"testing"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client/clienttest"
)

func TestCheckStop(t *testing.T) {
	w := newWorld(t)
	w.handle(func(h *clienttest.Handlers) {
		h.CheckStop = func(_ context.Context, r *controllerpb.CheckStopRequest) (*controllerpb.CheckStopResponse, error) {
			resp := &controllerpb.CheckStopResponse{MetadataOffset: 20, Registered: r.GetBrokerId() <= 3}
			if r.GetBrokerId() == 2 || r.GetMargin() > 0 && resp.Registered {
				resp.HarmedPartitions = 3
				resp.Harms = []*controllerpb.StopHarm{
					{Topic: "audit", Leaderless: true, Wanted: 1 + r.GetMargin()},
					{Topic: "orders", Partition: 1, InSync: 1, Wanted: 2 + r.GetMargin()},
				}
			}
			return resp, nil
		}
	})
	w.golden(t, "check_stop.txt", func(t *testing.T, what string) {
		if what == "removed" {
			w.standby.Set(&controllerpb.NodeStatusResponse{NodeId: 1002, DirectoryId: id16(2), State: "removed"})
			w.active.Set(&controllerpb.NodeStatusResponse{
				NodeId: 1001, DirectoryId: id16(1), State: "leader", ActiveController: &controllerpb.ActiveController{NodeId: 1001, Address: w.active.Address, ControllerEpoch: 4},
				Members: []*controllerpb.QuorumMember{{NodeId: 1001, DirectoryId: id16(1), Voter: true}, {NodeId: 1004, DirectoryId: id16(4)}},
				Removed: []*metadatapb.RemovedController{{ControllerId: 1002, DirectoryId: id16(2)}},
			})
			return
		}
		for _, c := range []*clienttest.Controller{w.active, w.standby} {
			c.Set(&controllerpb.NodeStatusResponse{NodeId: 1001, State: "candidate"})
		}
	})
}
