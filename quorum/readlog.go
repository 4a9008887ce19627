package quorum

import (
	"context"
	"errors"
	"io"
	"sort"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
)

// ReadLog implements [reader.LogSource]: the applied entries with the records from to end, each whole. The log is judged
// anew, so that fenced entries are left out. OFFSET_OUT_OF_RANGE if the log begins later.
func (n *Node) ReadLog(ctx context.Context, from, end image.MetadataOffset, take func(*controllerpb.EntryFrame) error) error {
	if from > end {
		return nil
	}
	walker, err := n.walkFrom(from)
	for err == nil {
		var e *fsm.Entry
		if e, err = walker.Next(); err != nil {
			break
		}
		if e.LastOffset >= from {
			if err := take(frameOf(e)); err != nil {
				return err
			}
		}
		if e.LastOffset >= end {
			return nil
		}
		err = ctx.Err()
	}
	if errors.Is(err, fsm.ErrCompacted) {
		return n.beginsLater(from, end)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
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

// beginsLater names the oldest record that the log still has, or the next one if it has none.
func (n *Node) beginsLater(from, end image.MetadataOffset) error {
	oldest := from + image.MetadataOffset(sort.Search(int(end-from)+1, func(i int) bool {
		walker, err := n.walkFrom(from + image.MetadataOffset(i))
		if err == nil {
			_, err = walker.Next()
		}
		return !errors.Is(err, fsm.ErrCompacted)
	}))
	return client.RefusalStatus(codes.OutOfRange, &controllerpb.RefusalDetail{Error: controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE,
		"the log of node %v does not reach back to metadata offset %d: older records are in a snapshot only; it begins at %d; ask from there, or another controller",
		n.cfg.NodeID, from, oldest)}).Err()
}

func frameOf(e *fsm.Entry) *controllerpb.EntryFrame {
	return &controllerpb.EntryFrame{
		Entry: e.Bytes, BaseOffset: int64(e.BaseOffset), Records: int32(e.Records), Chain: uint64(e.Chain), RaftIndex: e.Index, ControllerEpoch: e.Term,
	}
}
