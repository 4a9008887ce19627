package quorum

import (
	"context"
	"errors"
	"sort"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/history"
)

// ReadLog implements [reader.LogSource].
func (n *Node) ReadLog(ctx context.Context, r *controllerpb.ReadLogRequest, end image.MetadataOffset, take func(*controllerpb.ReadLogResponse) error) error {
	from := image.MetadataOffset(max(0, r.GetFromOffset()))
	first := true
	if from > end {
		return nil
	}
	return n.readPast(ctx, from, end, nil, func(p history.Piece) error {
		if first && p.Gap != nil && !r.GetFromOldest() {
			return n.beginsLater(from, p.Gap.To+1)
		}
		first = false
		return take(logPiece(p))
	})
}

// walkFrom walks all entries since a place before the one that holds the record.
func (n *Node) walkFrom(from image.MetadataOffset) (*fsm.Walker, error) {
	walker, err := n.fsm.Walk(logReader{n.raft}, from-1)
	if err != nil {
		return nil, err
	}
	start := walker.State()
	return fsm.NewWalker(logReader{n.raft}, start, start.Offset, n.fsm.AppliedIndex()), nil
}

// logBegins is the oldest record that the Raft log still has between two offsets, or the next one if it has none.
func (n *Node) logBegins(from, end image.MetadataOffset) image.MetadataOffset {
	return from + image.MetadataOffset(sort.Search(int(end-from)+1, func(i int) bool {
		walker, err := n.walkFrom(from + image.MetadataOffset(i))
		if err == nil {
			_, err = walker.Next()
		}
		return !errors.Is(err, fsm.ErrCompacted)
	}))
}

// beginsLater names the oldest record that this node still has.
func (n *Node) beginsLater(from, oldest image.MetadataOffset) error {
	return client.RefusalStatus(codes.OutOfRange, &controllerpb.RefusalDetail{Error: controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE,
		"log and history of node %v do not reach back to metadata offset %d; they begin at %d; ask from there, or another controller",
		n.cfg.NodeID, from, oldest)}).Err()
}

func logPiece(p history.Piece) *controllerpb.ReadLogResponse {
	if p.Gap != nil {
		return &controllerpb.ReadLogResponse{Gap: gapMessage(*p.Gap)}
	}
	return &controllerpb.ReadLogResponse{Entry: frameOf(p.Entry)}
}

func gapMessage(g history.Gap) *controllerpb.HistoryGap {
	return &controllerpb.HistoryGap{FromOffset: int64(g.From), ToOffset: int64(g.To), Reason: g.Reason.String()}
}

func frameOf(e *fsm.Entry) *controllerpb.EntryFrame {
	return &controllerpb.EntryFrame{
		Entry: e.Bytes, BaseOffset: int64(e.BaseOffset), Records: int32(e.Records), Chain: uint64(e.Chain), RaftIndex: e.Index, ControllerEpoch: e.Term,
	}
}
