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
		target: image.NoOffset,
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
	target  image.MetadataOffset
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
		MetadataOffset: int64(at.Offset()), Chain: uint64(at.Chain()),
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
				ErrStreamBehind, fw.address, fw.fo.image().Offset(), fw.target, streamBehindMax)
		case <-fw.fo.heard.changed:
			fw.aim()
		case <-fw.done:
			return nil, ErrStopped
		}
	}
}

// aim sets the offset that the stream must reach in time: the committed offset as it was heard first.
func (fw *following) aim() {
	at := fw.fo.image().Offset()
	if at < fw.target {
		return
	}
	fw.behind.Stop()
	fw.target = image.NoOffset
	if committed := fw.fo.heard.offset(); committed > at {
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
	fo.heard.note(image.NoOffset, p.ActiveController)
	at := fo.image()
	if image.MetadataOffset(p.MetadataOffset) == at.Offset() {
		if err := checkChain(at, image.Chain(p.Chain), fw.address); err != nil {
			return err
		}
		fo.diverged.Store(nil)
	}
	if !fo.begun {
		fo.begun, fo.least = true, max(fo.least, image.MetadataOffset(p.MetadataOffset))
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
	switch {
	case next.Offset() < at.Offset():
		return fmt.Errorf("%w: offset %d from %s, the image is at %d", ErrSnapshotOld, next.Offset(), fw.address, at.Offset())
	case next.Offset() == at.Offset():
		if err := checkChain(at, next.Chain(), fw.address); err != nil {
			return err
		}
	}
	fw.fo.diverged.Store(nil)
	fw.fo.log.Info("metadata snapshot taken", "controller", fw.address, "metadataOffset", next.Offset(), "chain", next.Chain().String())
	fw.fo.put(next)
	return nil
}

func checkChain(at *image.Image, chain image.Chain, address string) error {
	if chain == at.Chain() {
		return nil
	}
	return fmt.Errorf("%w: at offset %d this broker has chain %v, %s has %v", ErrDiverged, at.Offset(), at.Chain(), address, chain)
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
	if fo.begun && !fo.isUp && fo.image().Offset() >= fo.least {
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
