package model

import (
	"strconv"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// preferred is the background election of preferred leaders.
func (w *World) preferred() *World {
	if !w.m.cfg.Preferred {
		return nil
	}
	return w.decide(request{kind: doPreferred}, func(n *node) decided {
		return plain(controller.BalanceLeaders(n.view(n.live, begin), 0))
	})
}

// elect asks for an unclean election of a partition without a leader.
func (w *World) elect(part int) *World {
	if !w.m.cfg.ByRequest {
		return nil
	}
	return w.decide(request{kind: doElect, a: int8(part)}, func(n *node) decided {
		return plain(controller.ElectLeaders(n.view(n.live, begin), &controllerpb.ElectLeadersRequest{
			Type:       controllerpb.ElectionType_ELECTION_TYPE_UNCLEAN,
			Partitions: []*controllerpb.ElectablePartition{{Topic: "t", Partition: int32(part)}},
		}))
	})
}

// move starts the next reassignment, or cancels the present one.
func (w *World) move() *World {
	if int(w.moves) == len(w.m.cfg.Moves) {
		return nil
	}
	start := w.fork()
	start.moves++
	return start.decide(request{kind: doMove, a: w.moves}, func(n *node) decided {
		p := &controllerpb.ReassignablePartition{Topic: "t"}
		if target := w.m.cfg.Moves[w.moves]; target != nil {
			p.Replicas = &metadatapb.BrokerIds{Ids: target}
		}
		return plain(controller.AlterPartitionReassignments(n.view(n.live, begin), &controllerpb.AlterPartitionReassignmentsRequest{
			Partitions: []*controllerpb.ReassignablePartition{p},
		}))
	})
}

// configure gives min.insync.replicas its next value. What that means for the partitions is decided right after.
func (w *World) configure() *World {
	if int(w.configured) == len(w.m.cfg.MinISRs) {
		return nil
	}
	start := w.fork()
	start.configured++
	return start.decide(request{kind: doConfigure, a: w.configured}, func(n *node) decided {
		value := strconv.Itoa(w.m.cfg.MinISRs[w.configured])
		d, err := controller.AlterConfigs(n.view(n.live, begin), &controllerpb.AlterConfigsRequest{
			Resources: []*controllerpb.AlterableResource{{
				Type: metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, Name: "t",
				Changes: []*controllerpb.ConfigChange{{Name: "min.insync.replicas", Operation: controllerpb.ConfigOperation_CONFIG_OPERATION_SET, Value: &value}},
			}},
		})
		out := plain(d, err)
		out.then = func(n *node) decided {
			return plain(controller.ApplyConfigs(n.view(n.live, begin), controller.ConcernOf(d.Records)))
		}
		return out
	})
}
