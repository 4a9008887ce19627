package main

import (
	"testing"

	"google.golang.org/protobuf/proto"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

func TestQuorumStatus(t *testing.T) {
	w := newWorld(t)
	w.golden(t, "quorum_status.txt", func(t *testing.T, what string) {
		w.say()
		s := &controllerpb.NodeStatusResponse{
			ClusterId: "kEvmTNkLQ0uWqJ3bE5p2xA", NodeId: 1002, DirectoryId: id16(2), State: "candidate", AppliedIndex: 31,
			MetadataOffset: 20, Chain: 0xbad, LastContactMs: 900,
		}
		switch what {
		case "chains differ":
			s.State = "follower"
			w.standby.Set(s)
		case "no active controller":
			w.standby.Set(s)
			s.Chain = 0xabc
			other := proto.Clone(s).(*controllerpb.NodeStatusResponse)
			other.NodeId, other.DirectoryId = 1001, id16(1)
			w.active.Set(other)
		case "one was removed":
			s.State, s.Removed = "removed", []*metadatapb.RemovedController{{ControllerId: 1002, DirectoryId: id16(2), RemovedAtMs: 1700000000000}}
			s.Chain = 0xabc
			w.standby.Set(s)
			active, _ := w.active.NodeStatus(t.Context(), nil)
			active = proto.Clone(active).(*controllerpb.NodeStatusResponse)
			active.Members, active.Removed = append(active.Members[:1:1], active.Members[2]), s.Removed
			w.active.Set(active)
		case "only a removed one answers":
			s.State, s.Chain, s.LastContactMs = "removed", 0xabc, -1
			s.Removed = []*metadatapb.RemovedController{{ControllerId: 1002, DirectoryId: id16(2), RemovedAtMs: 1700000000000}}
			active, _ := w.active.NodeStatus(t.Context(), nil)
			s.Members = append(active.Members[:1:1], active.Members[2])
			w.standby.Set(s)
			w.active.Set(s)
		case "a newcomer waits":
			active, _ := w.active.NodeStatus(t.Context(), nil)
			active = proto.Clone(active).(*controllerpb.NodeStatusResponse)
			active.Members[2].Voter = false
			active.Changes = []*controllerpb.QuorumChange{{What: "quorum add 1003, which was left unfinished: it waits", ForMs: 1500}}
			w.active.Set(active)
			s.State, s.Chain = "follower", 0xabc
			w.standby.Set(s)
		case "formatted anew":
			s.DirectoryId, s.State = id16(9), "follower"
			s.AppliedIndex, s.MetadataOffset, s.Chain, s.LastContactMs = 0, -1, 0, -1
			w.standby.Set(s)
		default:
			t.Fatal(what)
		}
	})
}
