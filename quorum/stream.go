package quorum

import (
	"errors"
	"io"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/raftnode"
)

const (
	// streamIdle is how often an idle stream tells its position.
	streamIdle = 100 * time.Millisecond
	// streamEntriesMax bounds the entries taken from the ring at a time.
	streamEntriesMax = 64
	// snapshotPartBytes is the size of one part of a snapshot.
	snapshotPartBytes = 256 << 10
	// leaderlessStreamMax is how long a standby that knows no leader goes on feeding streams.
	leaderlessStreamMax = 2 * time.Second
)

// streamServer feeds brokers that follow the metadata log. Each stream reads at its own pace: first entries that are at
// hand, then the log, judged anew, then a snapshot. Nothing here holds up Apply.
type streamServer struct {
	controllerpb.UnimplementedMetadataStreamServer
	n       *Node
	stopped <-chan struct{}
}

// follower is one stream.
type follower struct {
	n      *Node
	stream grpc.ServerStreamingServer[controllerpb.FollowFrame]
	broker int32
	// lineage, offset and chain are where the follower stands; offset and chain mean something within their lineage only.
	lineage image.LineageNumber
	offset  image.MetadataOffset
	chain   image.Chain
}

// Follow implements MetadataStream.
func (s *streamServer) Follow(r *controllerpb.FollowRequest, stream grpc.ServerStreamingServer[controllerpb.FollowFrame]) error {
	n := s.n
	if r.GetClusterId() != n.cfg.ClusterID {
		return refusal(controllerpb.Refuse(controllerpb.ErrorCode_ERROR_CODE_INCONSISTENT_CLUSTER_ID,
			"the broker was formatted for cluster %s, this is %s", r.GetClusterId(), n.cfg.ClusterID), nil)
	}
	if ok, reason := n.Ready(); !ok {
		return status.Errorf(codes.Unavailable, "this controller is not caught up: %s", reason)
	}
	n.hearBroker(r.GetClusterId(), r.GetBrokerId(), r.GetLineage())
	lineage, own := image.LineageNumber(r.GetLineage()), n.fsm.Image().Lineage().Number
	if lineage > own {
		return refusal(controllerpb.Refuse(controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER,
			"broker %d has followed lineage %d, this controller is of lineage %d: it is left from before an offline recovery; stop it, format it anew and add it with quorate quorum add",
			r.GetBrokerId(), lineage, own), nil)
	}
	n.metrics.StreamsOpen.Add(1)
	defer n.metrics.StreamsOpen.Add(-1)
	f := &follower{n: n, stream: stream, broker: r.GetBrokerId(), lineage: lineage, offset: image.MetadataOffset(r.GetMetadataOffset()), chain: image.Chain(r.GetChain())}
	if err := f.sendPosition(); err != nil {
		return err
	}
	return f.run(s.stopped)
}

// run feeds the stream until it breaks, the node stops, or the node has no leader for too long.
func (f *follower) run(stopped <-chan struct{}) error {
	idle := time.NewTicker(streamIdle)
	defer idle.Stop()
	leaderless := 0
	for {
		changed := f.n.fsm.Changed()
		if err := f.catchUp(); err != nil {
			return err
		}
		select {
		case <-changed:
			leaderless = 0
			continue
		case <-f.stream.Context().Done():
			return f.stream.Context().Err()
		case <-stopped:
			return status.Error(codes.Unavailable, "the controller is stopping")
		case <-idle.C:
		}
		if _, _, known := f.n.raft.Leader(); known {
			leaderless = 0
		} else if leaderless++; time.Duration(leaderless)*streamIdle > leaderlessStreamMax {
			return status.Error(codes.Unavailable, "this controller knows no leader")
		}
		if err := f.sendPosition(); err != nil {
			return err
		}
	}
}

// catchUp sends what is applied after the follower's position.
func (f *follower) catchUp() error {
	for {
		im := f.n.fsm.Image()
		switch {
		case im.Lineage().Number != f.lineage:
			if err := f.sendSnapshot(); err != nil { // nothing leads from one lineage into another
				return err
			}
			continue
		case im.Offset() < f.offset:
			return nil // the follower knows more than this node does; it will catch up
		case im.Offset() == f.offset:
			return f.checkChain(im.Chain())
		}
		entries, ok := f.n.fsm.After(f.offset, streamEntriesMax)
		if !ok {
			if err := f.sendOlder(); err != nil {
				return err
			}
			continue
		}
		if err := f.sendEntries(entries); err != nil {
			return err
		}
	}
}

func (f *follower) sendEntries(entries []*fsm.Entry) error {
	for _, e := range entries {
		err := f.sendEntry(e)
		if errors.Is(err, errNotContinuous) {
			return f.sendSnapshot()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sendOlder sends what is no longer at hand: from the log if it reaches back far enough, else as a snapshot.
func (f *follower) sendOlder() error {
	from := f.offset
	walker, err := f.n.fsm.Walk(logReader{f.n.raft}, f.offset)
	for err == nil {
		var e *fsm.Entry
		if e, err = walker.Next(); err == nil {
			err = f.sendEntry(e)
		}
	}
	switch {
	case errors.Is(err, io.EOF) && f.offset > from:
		f.n.metrics.StreamsFromLog.Add(1)
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, fsm.ErrCompacted), errors.Is(err, errNotContinuous):
		return f.sendSnapshot()
	}
	return err
}

// errNotContinuous says that the next entry does not begin where the follower stands, as after an offset that this
// history does not have as the end of an entry.
var errNotContinuous = errors.New("quorum: the follower's position is not the end of an entry")

func (f *follower) sendEntry(e *fsm.Entry) error {
	if e.BaseOffset != f.offset+1 {
		return errNotContinuous
	}
	err := f.stream.Send(&controllerpb.FollowFrame{Frame: &controllerpb.FollowFrame_Entry{Entry: frameOf(e)}})
	f.offset, f.chain = e.LastOffset, e.Chain
	return err
}

// sendSnapshot sends the newest image whole.
func (f *follower) sendSnapshot() error {
	f.n.metrics.StreamSnapshots.Add(1)
	parts := &snapshotParts{stream: f.stream, buffer: make([]byte, 0, snapshotPartBytes)}
	position, err := f.n.fsm.WriteSnapshot(parts)
	if err != nil {
		return err
	}
	if err := parts.flush(true); err != nil {
		return err
	}
	f.n.cfg.Logger.Info("sent a metadata snapshot", "broker", f.broker, "from", int64(f.offset), "metadataOffset", int64(position.State.Offset))
	f.lineage, f.offset, f.chain = position.Image.Lineage().Number, position.State.Offset, position.State.Chain
	return nil
}

// snapshotParts cuts a snapshot into messages.
type snapshotParts struct {
	stream grpc.ServerStreamingServer[controllerpb.FollowFrame]
	buffer []byte
}

func (p *snapshotParts) Write(data []byte) (int, error) {
	for rest := data; len(rest) > 0; {
		n := min(len(rest), snapshotPartBytes-len(p.buffer))
		p.buffer, rest = append(p.buffer, rest[:n]...), rest[n:]
		if len(p.buffer) == snapshotPartBytes {
			if err := p.flush(false); err != nil {
				return 0, err
			}
		}
	}
	return len(data), nil
}

func (p *snapshotParts) flush(last bool) error {
	err := p.stream.Send(&controllerpb.FollowFrame{Frame: &controllerpb.FollowFrame_Snapshot{
		Snapshot: &controllerpb.SnapshotPart{Data: p.buffer, Last: last},
	}})
	p.buffer = p.buffer[:0]
	return err
}

// checkChain compares histories at an equal offset. A difference is an alarm: one of the two applied something else.
func (f *follower) checkChain(ours image.Chain) error {
	if f.chain == ours || f.offset == image.NoOffset {
		return nil
	}
	f.n.metrics.ChainMismatches.Add(1)
	f.n.cfg.Logger.Error("a follower's metadata differs at an equal offset", "broker", f.broker,
		"metadataOffset", int64(f.offset), "chain", f.chain.String(), "ours", ours.String())
	return status.Errorf(codes.DataLoss, "at metadata offset %d the follower's chain is %s, this controller's %s: the histories differ",
		f.offset, f.chain, ours)
}

func (f *follower) sendPosition() error {
	im := f.n.fsm.Image()
	state := f.n.fsm.State()
	return f.stream.Send(&controllerpb.FollowFrame{Frame: &controllerpb.FollowFrame_Position{Position: &controllerpb.StreamPosition{
		MetadataOffset: int64(im.Offset()), Chain: uint64(im.Chain()), ControllerEpoch: state.ClaimTerm,
		NodeId: int32(f.n.cfg.NodeID), ActiveController: f.n.activeController(), Lineage: int32(im.Lineage().Number),
	}}})
}

// logReader reads applied entries of the Raft log.
type logReader struct{ node *raftnode.Node }

// GetLog implements fsm.Logs.
func (r logReader) GetLog(index uint64, log *raft.Log) error { return r.node.ReadLog(index, log) }
