package quorum

import (
	"context"
	"net"
	"strconv"
	"strings"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/reader"
)

// Read returns the image that a read asks for: by default a strongly consistent one from the active controller, which
// waits until an entry of its own claim, proposed after the read came, is applied. Reads that come together share it.
func (n *Node) Read(ctx context.Context, options *controllerpb.ReadOptions) (*image.Image, error) {
	switch {
	case options != nil && options.MinOffset != nil:
		im, err := n.fsm.WaitOffset(ctx, image.MetadataOffset(options.GetMinOffset()))
		return im, refusal(err, nil)
	case options.GetLocal():
		return n.fsm.Image(), nil
	}
	r, err := n.loop.do(ctx, &operation{ctx: ctx, cause: &metadatapb.Cause{Name: "Read", Principal: principalOf(ctx)}})
	return r.image, refusal(err, n.activeController())
}

// Heard returns what this controller heard of a broker while it is active.
func (n *Node) Heard(id image.BrokerID) reader.Heard {
	soft := n.loop.soft.Load()
	if soft == nil {
		return reader.Nothing
	}
	state, ok := soft.HeartbeatState(id)
	if !ok || state.MetadataOffset == image.NoOffset {
		return reader.Nothing
	}
	return reader.Heard{
		MetadataOffset: state.MetadataOffset, Chain: state.Chain,
		AgeMs: max(0, n.cfg.Env.Now().Sub(state.LastContact).Milliseconds()),
	}
}

// Wait returns when this controller has applied the offset. It holds no data of topics, but a broker of its process may.
func (n *Node) Wait(ctx context.Context, r *controllerpb.WaitMetadataRequest) (image.MetadataOffset, error) {
	if n.attached != nil {
		return n.attached.Wait(ctx, r)
	}
	im, err := n.fsm.WaitOffset(ctx, image.MetadataOffset(r.GetMetadataOffset()))
	if err != nil {
		return n.fsm.Image().Offset(), err
	}
	return im.Offset(), nil
}

// Status is what this node knows, with or without a leader.
func (n *Node) Status() *controllerpb.NodeStatusResponse {
	im := n.fsm.Image()
	response := &controllerpb.NodeStatusResponse{
		ClusterId: n.cfg.ClusterID, NodeId: int32(n.cfg.NodeID), DirectoryId: n.cfg.DirectoryID.Bytes(),
		Roles: []string{"controller"}, State: "starting", AppliedIndex: n.fsm.AppliedIndex(),
		MetadataOffset: int64(im.Offset()), Chain: uint64(im.Chain()), LastContactMs: -1,
		Lineage: int32(im.Lineage().Number), LineageUnconfirmed: im.Lineage().IsUnconfirmed(), NewestLineage: n.newestLineage(),
	}
	if n.attached != nil {
		response.Roles = append(response.Roles, "broker")
	}
	for c := range im.RemovedControllers() {
		response.Removed = append(response.Removed, c.Record())
	}
	if !n.open.Load() {
		return response
	}
	response.State = strings.ToLower(n.raft.State().String())
	response.ActiveController = n.activeController()
	response.Changes = n.changesNow()
	if contact, ok := n.raft.LastContact(); ok {
		response.LastContactMs = contact.Milliseconds()
	}
	state, why := n.supersededState()
	if state != "" {
		response.State, response.StateReason, response.ActiveController = state, why, nil
	}
	configuration, err := n.raft.GetConfiguration()
	if err != nil {
		return response
	}
	response.ConfigurationIndex = configuration.Index
	for _, s := range configuration.Servers {
		if state != "" && s.ID == n.raft.ID() {
			continue // the members are those that it knew last; it is none of them
		}
		member := &controllerpb.QuorumMember{NodeId: s.ID.NodeID, RaftAddress: s.Address, Voter: s.Voter}
		if directory, err := image.ParseUUID(s.ID.DirectoryID); err == nil {
			member.DirectoryId = directory.Bytes()
		}
		if known, ok := im.Controller(image.BrokerID(s.ID.NodeID)); ok {
			member.GrpcAddress = grpcAddress(known.Record().GetListeners())
		}
		response.Members = append(response.Members, member)
	}
	return response
}

// compareChains raises the alarm when a broker stands at this controller's offset with another chain: one of the two
// has applied something else. A heartbeat does not wait for it while entries are applied: the next one is compared.
func (n *Node) compareChains(r *controllerpb.BrokerHeartbeatRequest) {
	im, ok := n.fsm.imageAtOnce(image.MetadataOffset(r.GetMetadataOffset()))
	if !ok || uint64(im.Chain()) == r.GetChain() || image.LineageNumber(r.GetLineage()) != im.Lineage().Number {
		return
	}
	n.metrics.ChainMismatches.Add(1)
	n.cfg.Logger.Error("a broker's metadata differs at an equal offset", "broker", r.GetBrokerId(),
		"metadataOffset", r.GetMetadataOffset(), "chain", image.Chain(r.GetChain()).String(), "ours", im.Chain().String())
}

// grpcAddress is the address of the GRPC listener, empty if there is none.
func grpcAddress(listeners []*metadatapb.Listener) string {
	for _, l := range listeners {
		if l.GetName() == "GRPC" {
			return net.JoinHostPort(l.GetHost(), strconv.Itoa(int(l.GetPort())))
		}
	}
	return ""
}
