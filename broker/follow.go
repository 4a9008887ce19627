package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// follow follows one controller until the stream ends, and says why it did.
func (fo *follower) follow(ctx context.Context, address string) error {
	ctx, cancel := context.WithCancel(ctx)
	fw := &following{
		fo: fo, address: address,
		frames: make(chan frameOrError), done: ctx.Done(),
		silence: time.NewTimer(streamSilenceMax), behind: stoppedTimer(),
		target: image.NoPosition, lineage: fo.lineage(),
	}
	var reader sync.WaitGroup
	defer reader.Wait()
	defer cancel()
	defer fw.silence.Stop()
	defer fw.behind.Stop()
	reader.Go(func() { fw.read(ctx) })
	fw.aim()
	for {
		frame, err := fw.next()
		if err == nil {
			err = fw.take(frame)
		}
		if err != nil {
			return err
		}
		fw.aim()
	}
}

// following is one stream being followed; the follower's goroutine owns it, and read runs beside it.
type following struct {
	fo      *follower
	address string
	frames  chan frameOrError
	done    <-chan struct{}
	silence *time.Timer // fires when the stream has brought nothing for too long
	behind  *time.Timer // fires when target has not been reached in time
	target  image.Position
	lineage image.LineageNumber // the newest one followed when the stream began
	// taking is set from the first frame on, which tells the position that the stream begins with.
	taking bool
}

type frameOrError struct {
	frame *controllerpb.FollowFrame
	err   error
}

// read opens the stream and hands its frames over one by one. It ends with the context.
func (fw *following) read(ctx context.Context) {
	at := fw.fo.image()
	stream, err := fw.fo.open(ctx, fw.address, &controllerpb.FollowRequest{
		ClusterId: fw.fo.clusterID, BrokerId: int32(fw.fo.id),
		MetadataOffset: int64(at.Offset()), Chain: uint64(at.Chain()), Lineage: int32(fw.lineage),
	})
	if err != nil {
		fw.hand(ctx, frameOrError{err: err})
		return
	}
	defer context.AfterFunc(ctx, stream.Close)()
	defer stream.Close()
	for {
		frame, err := stream.Recv()
		if !fw.hand(ctx, frameOrError{frame, err}) || err != nil {
			return
		}
	}
}

func (fw *following) hand(ctx context.Context, f frameOrError) bool {
	select {
	case fw.frames <- f:
		return true
	case <-ctx.Done():
		return false
	}
}

// next waits for a frame, no longer than a stream may be silent or behind.
func (fw *following) next() (*controllerpb.FollowFrame, error) {
	for {
		select {
		case f := <-fw.frames:
			fw.silence.Reset(streamSilenceMax)
			return f.frame, f.err
		case <-fw.silence.C:
			return nil, fmt.Errorf("%w: nothing from %s for %v", ErrStreamSilent, fw.address, streamSilenceMax)
		case <-fw.behind.C:
			return nil, fmt.Errorf("%w: %s gave offset %d, %d is committed for %v",
				ErrStreamBehind, fw.address, fw.fo.image().Offset(), fw.target.Offset, streamBehindMax)
		case <-fw.fo.heard.changed:
			fw.aim()
		case <-fw.done:
			return nil, ErrStopped
		}
	}
}

// aim sets the offset that the stream must reach in time: the committed offset as it was heard first.
func (fw *following) aim() {
	at := fw.fo.image().Position()
	if at.Compare(fw.target) < 0 {
		return
	}
	fw.behind.Stop()
	fw.target = image.NoPosition
	if committed := fw.fo.heard.position(); committed.Compare(at) > 0 {
		fw.target = committed
		fw.behind.Reset(streamBehindMax)
	}
}

// take acts on one frame.
func (fw *following) take(frame *controllerpb.FollowFrame) error {
	if !fw.taking {
		fw.taking = true
		fw.fo.serving.Store(&fw.address)
		if p := frame.GetPosition(); p != nil {
			fw.fo.log.Info("following metadata", "address", fw.address,
				"metadataOffset", p.GetMetadataOffset(), "controller", p.GetNodeId())
		}
	}
	switch f := frame.Frame.(type) {
	case *controllerpb.FollowFrame_Position:
		return fw.takePosition(f.Position)
	case *controllerpb.FollowFrame_Entry:
		return fw.takeEntry(f.Entry)
	case *controllerpb.FollowFrame_Snapshot:
		return fw.takeSnapshot(f.Snapshot)
	default:
		return fmt.Errorf("broker: metadata stream of %s: frame of an unknown kind; this broker is older than the controller", fw.address)
	}
}

func (fw *following) takePosition(p *controllerpb.StreamPosition) error {
	fo := fw.fo
	at := fo.image().Position()
	there := image.Position{Lineage: image.LineageNumber(p.Lineage), Offset: image.MetadataOffset(p.MetadataOffset), Chain: image.Chain(p.Chain)}
	if err := fw.checkLineage(there.Lineage); err != nil {
		return err
	}
	fo.heard.note(there.Lineage, image.NoOffset, p.ActiveController)
	if there.Compare(at) == 0 {
		if there.IsAlarm(at) {
			return divergence(at, there.Chain, fw.address)
		}
		fo.diverged.Store(nil)
	}
	if !fo.begun {
		fo.begun = true
		if there.Compare(fo.least) > 0 {
			fo.least = there
		}
	}
	fo.checkUp()
	return nil
}

// takeEntry replays one entry on the image.
func (fw *following) takeEntry(f *controllerpb.EntryFrame) error {
	at := fw.fo.image()
	next, err := replayEntry(at, f)
	if err != nil {
		return fmt.Errorf("%w (raft index %d, from %s)", err, f.RaftIndex, fw.address)
	}
	fw.fo.diverged.Store(nil)
	fw.fo.put(next)
	return nil
}

// takeSnapshot reads the whole snapshot, of which part is the first piece, and replaces the image.
func (fw *following) takeSnapshot(part *controllerpb.SnapshotPart) error {
	at := fw.fo.image()
	next, err := readSnapshot(&snapshotReader{fw: fw, part: part}, fw.fo.clusterID)
	if err != nil {
		return fmt.Errorf("broker: metadata snapshot from %s: %w", fw.address, err)
	}
	if err := fw.checkLineage(next.Lineage().Number); err != nil {
		return err
	}
	switch was, is := at.Position(), next.Position(); {
	case is.Compare(was) < 0:
		return fmt.Errorf("%w: offset %d from %s, the image is at %d", ErrSnapshotOld, next.Offset(), fw.address, at.Offset())
	case is.IsAlarm(was):
		return divergence(was, is.Chain, fw.address)
	case is.Lineage > was.Lineage && was.Offset != image.NoOffset:
		fw.fo.log.Warn("the metadata is of a new lineage: the quorum was recovered offline; nothing is deleted until it is confirmed",
			"lineage", int32(is.Lineage), "metadataOffset", is.Offset, "former", was.String())
	}
	fw.fo.diverged.Store(nil)
	fw.fo.log.Info("metadata snapshot taken", "controller", fw.address, "metadataOffset", next.Offset(), "chain", next.Chain().String())
	fw.fo.put(next)
	return nil
}

// checkLineage refuses metadata of an older lineage than any that this broker has followed: whoever sends it is left from before
// an offline recovery. Within one lineage, and into a newer one, the rest decides.
func (fw *following) checkLineage(lineage image.LineageNumber) error {
	if known := fw.fo.lineage(); lineage < known {
		return fmt.Errorf("%w: %s is of lineage %d, this broker has followed lineage %d; stop that controller, it is left from before an offline recovery",
			ErrOldLineage, fw.address, lineage, known)
	}
	return nil
}

// lineage is the newest one that this broker has ever followed.
func (fo *follower) lineage() image.LineageNumber {
	return max(fo.image().Lineage().Number, fo.least.Lineage)
}

func divergence(at image.Position, chain image.Chain, address string) error {
	return fmt.Errorf("%w: at offset %d this broker has chain %v, %s has %v", ErrDiverged, at.Offset, at.Chain, address, chain)
}

// put makes an image the newest one.
func (fo *follower) put(im *image.Image) {
	fo.im.Store(im)
	fo.metrics.followed.Set(float64(im.Offset()))
	fo.broken.Store(nil)
	fo.taken(im)
	fo.checkUp()
}

func (fo *follower) checkUp() {
	if fo.begun && !fo.isUp && fo.image().Position().Compare(fo.least) >= 0 {
		fo.isUp = true
		fo.caughtUp()
	}
}

// snapshotReader is the bytes of a snapshot as its frames bring them.
type snapshotReader struct {
	fw   *following
	part *controllerpb.SnapshotPart
	read int64
}

// errSnapshotSize says that a snapshot is larger than any that this broker could hold.
var errSnapshotSize = errors.New("broker: metadata snapshot is larger than the limit")

// snapshotBytesMax bounds a snapshot.
const snapshotBytesMax = 4 << 30

func (sr *snapshotReader) Read(p []byte) (int, error) {
	for len(sr.part.Data) == 0 {
		if sr.part.Last {
			return 0, io.EOF
		}
		frame, err := sr.fw.next()
		if err != nil {
			return 0, err
		}
		next := frame.GetSnapshot()
		if next == nil {
			return 0, fmt.Errorf("broker: %T inside a snapshot", frame.Frame)
		}
		sr.part = next
	}
	n := copy(p, sr.part.Data)
	sr.part.Data = sr.part.Data[n:]
	if sr.read += int64(n); sr.read > snapshotBytesMax {
		return 0, fmt.Errorf("%w of %d bytes", errSnapshotSize, int64(snapshotBytesMax))
	}
	return n, nil
}
