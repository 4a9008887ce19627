package quorum

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/raftnode"
)

// stateSuperseded is the state of a controller that an offline recovery has left behind.
const stateSuperseded = "superseded"

// controllerService is how the methods begin that a superseded controller does not answer.
const controllerService = "/quorate.controller.v1."

// supersededState is a superseded controller's state and why, empty for any other.
func (n *Node) supersededState() (state, why string) {
	_, removed, why := n.membership()
	switch s := n.raft.Superseded(); {
	case !removed:
		return "", ""
	case s != nil && !s.Removed:
		return stateSuperseded, why
	}
	return stateRemoved, why
}

// newestLineage is the newest lineage that this node tells others of.
func (n *Node) newestLineage() int32 {
	return n.raft.NewestLineage(int32(n.fsm.Image().Lineage().Number))
}

// hearBroker takes a registered broker's word that there is a newer lineage. It is neither kept nor told to others: the
// broker may err, and a restart asks the controllers.
func (n *Node) hearBroker(clusterID string, id, lineage int32) {
	own := int32(n.fsm.Image().Lineage().Number)
	if lineage <= own || clusterID != n.cfg.ClusterID || n.raft.Superseded() != nil {
		return
	}
	if _, known := n.fsm.Image().Broker(image.BrokerID(id)); !known {
		return
	}
	n.raft.Supersede(raftnode.Superseded{Lineage: lineage, Own: own, By: "broker " + image.BrokerID(id).String()})
}

// isAnsweredAlways tells whether a method is answered by a superseded controller too: what it says of itself, and what the broker of
// the same process serves.
func (n *Node) isAnsweredAlways(method string) bool {
	return !strings.HasPrefix(method, controllerService) || method == controllerpb.ReaderApi_NodeStatus_FullMethodName ||
		method == controllerpb.ReaderApi_WaitMetadata_FullMethodName && n.attached != nil
}

// refuseOlder refuses what a superseded controller is asked, and what is asked by somebody who has seen a newer lineage than this
// node's log.
func (n *Node) refuseOlder(ctx context.Context) error {
	if s := n.raft.Superseded(); s != nil {
		return n.supersededRefusal(s, false)
	}
	if seen, own := client.SeenLineage(ctx), int32(n.fsm.Image().Lineage().Number); seen > own {
		return n.notController(false, "the caller has seen lineage %d of the log, this controller holds lineage %d: ask the controllers of the newer one", seen, own)
	}
	return nil
}

func (n *Node) supersededRefusal(s *raftnode.Superseded, unknown bool) error {
	return n.notController(unknown, "%s", controllerpb.Sentence(s.Reason(n.raft.ID())))
}

func (n *Node) notController(unknown bool, format string, args ...any) error {
	return client.RefusalStatus(codes.FailedPrecondition, &controllerpb.RefusalDetail{
		Error:          controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER, format, args...),
		OutcomeUnknown: unknown, NewestLineage: n.newestLineage(),
	}).Err()
}

// guardUnary keeps a superseded controller from answering. An answer that was made before and not given yet is held back too: what
// it acknowledges may be lost.
func (n *Node) guardUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if n.isAnsweredAlways(info.FullMethod) {
		return next(ctx, request)
	}
	if err := n.refuseOlder(ctx); err != nil {
		return nil, err
	}
	response, err := next(ctx, request)
	if s := n.raft.Superseded(); s != nil {
		return nil, n.supersededRefusal(s, MethodRoles[info.FullMethod] != RoleReader)
	}
	return response, err
}

// guardStream does the same for streams, and ends those that are open.
func (n *Node) guardStream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if n.isAnsweredAlways(info.FullMethod) {
		return next(server, stream)
	}
	if err := n.refuseOlder(stream.Context()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	go func() { // ends with the call
		select {
		case <-n.raft.OutOfQuorum():
			cancel()
		case <-ctx.Done():
		}
	}()
	err := next(server, guardedStream{stream, n, ctx})
	if s := n.raft.Superseded(); s != nil {
		return n.supersededRefusal(s, false)
	}
	return err
}

// guardedStream sends nothing once its node is superseded.
type guardedStream struct {
	grpc.ServerStream
	n   *Node
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s guardedStream) Context() context.Context { return s.ctx }

// SendMsg implements grpc.ServerStream.
func (s guardedStream) SendMsg(m any) error {
	if out := s.n.raft.Superseded(); out != nil {
		return s.n.supersededRefusal(out, false)
	}
	return s.ServerStream.SendMsg(m)
}
