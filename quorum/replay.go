package quorum

import (
	"bufio"
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	"github.com/quorate/quorate/fsm/snapshot"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/history"
	"github.com/quorate/quorate/quorum/reader"
)

const (
	// replaysMax bounds the images of the past that are built at one time: each takes as much memory as the newest.
	replaysMax = 1
	// replayTimeMax bounds the building of one.
	replayTimeMax = time.Minute
	// replayBufferBytes is the buffer between a snapshot's file and its reader.
	replayBufferBytes = 256 << 10
)

// ReadAt returns the image at an offset at which an entry ends: one of the newest, which are kept, or one that is built from
// the newest snapshot before it, or from the beginning, by replaying log and history.
func (n *Node) ReadAt(ctx context.Context, offset image.MetadataOffset) (*image.Image, error) {
	if err := n.awaitOffset(ctx, offset); err != nil {
		return nil, err
	}
	if im, _, ok := n.fsm.imageAt(offset); ok {
		return im, nil
	}
	select {
	case n.replaying <- struct{}{}:
		defer func() { <-n.replaying }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	bounded, cancel := context.WithTimeout(ctx, replayTimeMax)
	defer cancel()
	im, err := n.replayTo(bounded, offset)
	if bounded.Err() != nil && ctx.Err() == nil {
		return nil, outOfRange("the image at metadata offset %d was not built within %v, the limit; ask for an offset closer to a snapshot", offset, replayTimeMax)
	}
	return im, err
}

// awaitOffset refuses an offset that there is not, and that does not come soon. The active controller has the newest.
func (n *Node) awaitOffset(ctx context.Context, offset image.MetadataOffset) error {
	if offset < 0 {
		return invalidRequest("metadata offset %d is asked for, and the first one is 0; ask for 0 to %d, the newest here", offset, n.fsm.Image().Offset())
	}
	wait := reader.AtWaitMax
	if n.loop.active.Load() != nil {
		wait = 0
	}
	bounded, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if _, err := n.fsm.WaitOffset(bounded, offset); err == nil || bounded.Err() == nil || ctx.Err() != nil {
		return refusal(err, nil)
	}
	return outOfRange("metadata offset %d is beyond the newest that node %v has applied, which is %d; ask for one up to that, or wait with --min-offset %d",
		offset, n.cfg.NodeID, n.fsm.Image().Offset(), offset)
}

// replayTo builds an image of the past.
func (n *Node) replayTo(ctx context.Context, offset image.MetadataOffset) (*image.Image, error) {
	base, err := n.baseOf(offset)
	if err != nil || base.Offset() == offset {
		return base, err
	}
	delta := base.Fork()
	at, chain := base.Offset(), base.Chain()
	err = n.readPast(ctx, at+1, offset, nil, func(p history.Piece) error {
		if p.Gap != nil {
			return n.notBuilt(offset, *p.Gap)
		}
		if p.Entry.LastOffset > offset {
			return outOfRange("metadata offset %d is within the entry %d to %d; an image stands where an entry ends: ask for %d",
				offset, p.Entry.BaseOffset, p.Entry.LastOffset, p.Entry.LastOffset)
		}
		raw, err := record.ScanEntry(p.Entry.Bytes)
		if err != nil {
			return err
		}
		if raw.Chain != chain {
			return fmt.Errorf("quorum: the entry at metadata offset %d does not follow chain %v", p.Entry.BaseOffset, chain)
		}
		at, chain = p.Entry.LastOffset, p.Entry.Chain
		return delta.ReplayEntry(raw)
	})
	switch {
	case err != nil:
		return nil, err
	case at != offset:
		return nil, outOfRange("there is no metadata offset %d: what comes after %d begins later", offset, at)
	}
	return delta.Seal(at, chain), nil
}

// baseOf loads the newest snapshot that is not newer than an offset, else the empty image.
func (n *Node) baseOf(offset image.MetadataOffset) (*image.Image, error) {
	ids, err := n.raft.Snapshots()
	if err != nil {
		return nil, err
	}
	for _, id := range ids { // the newest first
		if at, ok := n.snapshotOffset(id); !ok || at > offset {
			continue
		}
		file, err := n.raft.OpenSnapshot(id)
		if err != nil {
			continue // a newer one took its place, or it is damaged, which has been told
		}
		_, im, err := snapshot.Read(bufio.NewReaderSize(file, replayBufferBytes))
		file.Close() // opened for reading
		if err == nil {
			return im, nil
		}
	}
	return image.Empty(), nil
}

// snapshotOffset is the metadata offset at which a snapshot was taken.
func (n *Node) snapshotOffset(id string) (image.MetadataOffset, bool) {
	file, err := n.raft.OpenSnapshot(id)
	if err != nil {
		return 0, false
	}
	defer file.Close() // opened for reading
	header, err := snapshot.ReadHeader(file)
	if err != nil {
		return 0, false
	}
	return image.MetadataOffset(header.GetMetadataOffset()), true
}

// notBuilt names the oldest image after an offset that there is, and why the one asked for is not.
func (n *Node) notBuilt(offset image.MetadataOffset, missing history.Gap) error {
	_, oldest, _ := n.fsm.imageAt(offset)
	if ids, err := n.raft.Snapshots(); err == nil {
		for _, id := range ids {
			if at, ok := n.snapshotOffset(id); ok && at >= offset {
				oldest = min(oldest, at)
			}
		}
	}
	return outOfRange("the image at metadata offset %d cannot be built: node %v lacks the records %d to %d (%s); the oldest one after them is at %d; ask for that, or another controller",
		offset, n.cfg.NodeID, missing.From, missing.To, missing.Reason, oldest)
}

func outOfRange(format string, args ...any) error {
	return client.RefusalStatus(codes.OutOfRange, &controllerpb.RefusalDetail{
		Error: controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE, format, args...),
	}).Err()
}
