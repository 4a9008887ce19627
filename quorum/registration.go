package quorum

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/raftnode"
)

const (
	// registrationCheck is how often the node looks whether the image still names it as it is.
	registrationCheck = time.Second
	// registrationWait bounds one attempt.
	registrationWait = 5 * time.Second
)

// keepRegistered sees to it that the image tells others where this controller is reached (Kafka's
// ControllerRegistrationManager, KIP-919). The Raft configuration knows RAFT addresses only.
func (n *Node) keepRegistered(ctx context.Context) {
	ticker := time.NewTicker(registrationCheck)
	defer ticker.Stop()
	said := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		isMember, removed, why := n.membership()
		if removed && n.raft.Superseded() == nil { // by what this node itself holds
			n.raft.Supersede(raftnode.Superseded{
				Lineage: n.newestLineage(), Own: n.newestLineage(), Removed: true, By: "the metadata log", Keep: true,
			})
		}
		if s := n.raft.Superseded(); s != nil && s.Removed && !said { // another lineage was told when it was heard of, and is kept elsewhere
			said = true
			n.cfg.Logger.Error("this controller stays out", "nodeId", int(n.cfg.NodeID), "directoryId", n.cfg.DirectoryID.String(), "why", why)
		}
		if removed || isMember && n.isRegistered() { // who is no member any more may not have heard why
			continue
		}
		attempt, cancel := context.WithTimeout(ctx, registrationWait)
		_, err := controllerpb.NewControllerApiClient(n.client).RegisterController(attempt, n.registration())
		cancel()
		if err != nil {
			n.onRegistrationError(err)
		}
	}
}

// onRegistrationError learns from a refusal that this node was removed.
func (n *Node) onRegistrationError(err error) {
	if r, ok := client.AsRefusal(err); ok && r.Code == controllerpb.ErrorCode_ERROR_CODE_INVALID_VOTER_KEY {
		n.refusedAsRemoved.Store(true)
	}
	n.cfg.Logger.Debug("controller registration not taken yet", "error", err)
}

func (n *Node) registration() *controllerpb.RegisterControllerRequest {
	return &controllerpb.RegisterControllerRequest{
		ClusterId: n.cfg.ClusterID, ControllerId: int32(n.cfg.NodeID),
		IncarnationId: n.cfg.IncarnationID.Bytes(), DirectoryId: n.cfg.DirectoryID.Bytes(),
		Listeners: n.cfg.Listeners, Features: image.DeclaredFeatures(),
	}
}

func (n *Node) isRegistered() bool {
	known, ok := n.fsm.Image().Controller(n.cfg.NodeID)
	if !ok || known.IncarnationID != n.cfg.IncarnationID || known.DirectoryID != n.cfg.DirectoryID {
		return false
	}
	return slices.EqualFunc(known.Record().GetListeners(), n.cfg.Listeners, func(a, b *metadatapb.Listener) bool { return proto.Equal(a, b) })
}

// activeController is the active controller as far as this node knows it: itself, or the one whose claim it applied
// last, as long as Raft still has a leader.
func (n *Node) activeController() *controllerpb.ActiveController {
	if n.raft.Superseded() != nil {
		return nil
	}
	if a := n.loop.active.Load(); a != nil {
		return &controllerpb.ActiveController{
			NodeId: int32(n.cfg.NodeID), Address: grpcAddress(n.cfg.Listeners), ControllerEpoch: uint64(a.controllerEpoch),
			Lineage: int32(n.fsm.Image().Lineage().Number),
		}
	}
	leader, _, ok := n.raft.Leader()
	if !ok || leader.NodeID == int32(n.cfg.NodeID) {
		return nil
	}
	active := &controllerpb.ActiveController{
		NodeId: leader.NodeID, ControllerEpoch: n.raft.CurrentTerm(), Lineage: int32(n.fsm.Image().Lineage().Number),
	}
	if claim := n.fsm.claim.Load(); claim != nil && claim.NodeID == image.BrokerID(leader.NodeID) {
		active.Address, active.ControllerEpoch = grpcAddress(claim.Listeners), claim.Term
	} else if known, ok := n.fsm.Image().Controller(image.BrokerID(leader.NodeID)); ok {
		active.Address = grpcAddress(known.Record().GetListeners())
	}
	return active
}
