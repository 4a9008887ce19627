package broker

import (
	"errors"
	"fmt"
	"io"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	"github.com/quorate/quorate/fsm/snapshot"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// replayEntry gives the image after an entry that must follow it: by offset, and by the chain before it. What is found
// to be wrong is wrong with one of the two nodes, and the image stays.
func replayEntry(at *image.Image, f *controllerpb.EntryFrame) (*image.Image, error) {
	entry, err := record.ScanEntry(f.Entry)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLogBroken, err)
	}
	base := entry.BaseOffset
	if base != at.Offset()+1 {
		return nil, fmt.Errorf("%w: it begins at offset %d, the image ends at %d", ErrStreamGap, base, at.Offset())
	}
	if entry.Chain != at.Chain() {
		return nil, fmt.Errorf("%w: at offset %d this broker has chain %v, the next entry stands on %v", ErrDiverged, at.Offset(), at.Chain(), entry.Chain)
	}
	chain := record.ChainAfter(f.Entry)
	if told := image.Chain(f.Chain); chain != told {
		return nil, fmt.Errorf("%w: entry at offset %d has chain %v, its frame says %v", ErrLogBroken, base, chain, told)
	}
	d := at.Fork()
	if err := d.ReplayEntry(entry); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLogBroken, err)
	}
	if entry.Count == 0 {
		return at, nil // it moves neither offset nor chain
	}
	return d.Seal(entry.LastOffset(), chain), nil
}

// readSnapshot reads a whole snapshot of the cluster.
func readSnapshot(r io.Reader, clusterID string) (*image.Image, error) {
	header, im, err := snapshot.Read(r)
	if err != nil {
		return nil, err
	}
	if header.ClusterId != clusterID {
		return nil, fmt.Errorf("broker: snapshot of cluster %q, this broker belongs to %q", header.ClusterId, clusterID)
	}
	return im, nil
}

// isFatal tells whether an error ends the process: metadata that a newer build wrote cannot be followed by this one, and
// neither can another cluster's; no other controller would send anything else.
func isFatal(err error) bool {
	return errors.Is(err, record.ErrUnknown) || errors.Is(err, snapshot.ErrUnknownBlock) || errors.Is(err, ErrForeignCluster)
}
