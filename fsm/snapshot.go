package fsm

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/snapshot"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// snapshotBufferBytes is the size of the buffer between a snapshot that is written and its file.
const snapshotBufferBytes = 256 << 10

// Snapshot takes the pointer to the published position; writing happens beside Apply. After a halt it is refused, for
// a state that could not follow the log must not take its place.
func (f *FSM) Snapshot() (raft.FSMSnapshot, error) {
	if err := f.Halted(); err != nil {
		return nil, fmt.Errorf("fsm: no snapshot after a halt: %w", err)
	}
	return &taken{Position: f.Position(), clusterID: f.cfg.ClusterID}, nil
}

// taken is a snapshot that waits to be written.
type taken struct {
	Position
	clusterID string
}

// Persist writes the snapshot to Raft's sink.
func (t *taken) Persist(sink raft.SnapshotSink) error {
	w := bufio.NewWriterSize(sink, snapshotBufferBytes)
	err := snapshot.Write(w, t.Header(t.clusterID), t.Image)
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

// Release has nothing to give back: the image goes when nobody holds it.
func (t *taken) Release() {}

// Header returns the header under which the position's image is written.
func (p Position) Header(clusterID string) *metadatapb.SnapshotHeader {
	s := p.State
	return &metadatapb.SnapshotHeader{
		MetadataOffset: int64(s.Offset), Chain: uint64(s.Chain), ClaimIndex: s.ClaimIndex, ClaimTerm: s.ClaimTerm,
		ExpectedSequence: s.ExpectedSequence, TimeMs: s.TimeMs, ClusterId: clusterID, RaftIndex: s.Index,
	}
}

// WriteSnapshot writes the newest published position as a snapshot, as a stream sends it to a broker far behind. It
// returns the position written.
func (f *FSM) WriteSnapshot(w io.Writer) (Position, error) {
	if err := f.Halted(); err != nil {
		return Position{}, fmt.Errorf("fsm: no snapshot after a halt: %w", err)
	}
	p := f.Position()
	return p, snapshot.Write(w, p.Header(f.cfg.ClusterID), p.Image)
}

// StateOf returns the state that a snapshot's header holds.
func StateOf(h *metadatapb.SnapshotHeader) State {
	return State{
		ClaimIndex: h.ClaimIndex, ClaimTerm: h.ClaimTerm, ExpectedSequence: h.ExpectedSequence,
		Offset: image.MetadataOffset(h.MetadataOffset), Chain: image.Chain(h.Chain), TimeMs: h.TimeMs, Index: h.RaftIndex,
	}
}

// Restore replaces the whole state by a snapshot. It is built and checked aside, and takes effect in one step that
// cannot fail; on an error nothing has changed.
func (f *FSM) Restore(rc io.ReadCloser) error {
	defer func() { _ = rc.Close() }() // opened for reading; the error of Read counts
	h, im, err := snapshot.Read(rc)
	if err != nil {
		return err
	}
	if h.ClusterId != f.cfg.ClusterID {
		return fmt.Errorf("fsm: the snapshot is of cluster %q, this node is of %q", h.ClusterId, f.cfg.ClusterID)
	}
	if err := f.Halted(); err != nil {
		return fmt.Errorf("fsm: no restore after a halt: %w", err)
	}
	next := &Position{State: StateOf(h), Image: im}
	f.offers.clear()
	f.marks.reset(next.State)
	f.publisher.reset(func() { f.position.Store(next) })
	f.applied.Store(h.RaftIndex)
	f.counters.Restores.Add(1)
	f.cfg.Logger.Info("snapshot loaded", "metadataOffset", h.MetadataOffset, "chain", im.Chain().String(), "raftIndex", h.RaftIndex, "records", im.RecordCount())
	return nil
}
