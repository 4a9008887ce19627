package broker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

const (
	// keptOffsetFile holds the highest metadata offset that the broker has ever applied, so that older metadata is
	// never taken for the truth (KAFKA-15605): a version line, then offset and chain.
	keptOffsetFile    = "metadata-offset-checkpoint"
	keptOffsetVersion = 0
	// keptOffsetInterval is the least time between two writes that nothing waits for.
	keptOffsetInterval = time.Second
)

// keptOffset keeps the highest offset ever applied. Its methods may be called from any goroutine; run is the one
// goroutine that writes without being waited for.
type keptOffset struct {
	e    *env.Env
	name string
	log  *slog.Logger

	mu      sync.Mutex // held while writing
	written image.MetadataOffset

	noteMu sync.Mutex
	noted  keptPosition
	wake   chan struct{}
}

type keptPosition struct {
	offset image.MetadataOffset
	chain  image.Chain
}

func newKeptOffset(e *env.Env, dir string, log *slog.Logger) *keptOffset {
	return &keptOffset{
		e: e, name: filepath.Join(dir, keptOffsetFile), log: log,
		written: image.NoOffset, noted: keptPosition{offset: image.NoOffset}, wake: make(chan struct{}, 1),
	}
}

// load reads the file. A missing one gives NoOffset; an unreadable one is an error, for without it old metadata
// could not be told from new.
func (ko *keptOffset) load() (keptPosition, error) {
	none := keptPosition{offset: image.NoOffset}
	data, err := env.ReadFile(ko.e.FS, ko.name)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("broker: read %s: %w", ko.name, err)
	}
	var version int
	var offset int64
	var chain uint64
	if n, err := fmt.Sscanf(string(data), "%d\n%d %x\n", &version, &offset, &chain); n != 3 || version != keptOffsetVersion || offset < 0 {
		return none, fmt.Errorf("broker: %s is damaged (%q, %v); if this node's metadata is known to be current, remove the file", ko.name, data, err)
	}
	ko.mu.Lock()
	defer ko.mu.Unlock()
	ko.written = image.MetadataOffset(offset)
	return keptPosition{image.MetadataOffset(offset), image.Chain(chain)}, nil
}

// note takes a position over; run writes it within a second.
func (ko *keptOffset) note(im *image.Image) {
	ko.noteMu.Lock()
	if im.Offset() > ko.noted.offset {
		ko.noted = keptPosition{im.Offset(), im.Chain()}
	}
	ko.noteMu.Unlock()
	select {
	case ko.wake <- struct{}{}:
	default:
	}
}

// keep returns when the image's offset is on disk. It is called before a replica is deleted on the image's word.
func (ko *keptOffset) keep(im *image.Image) error {
	ko.note(im)
	return ko.write()
}

func (ko *keptOffset) write() error {
	ko.mu.Lock()
	defer ko.mu.Unlock()
	ko.noteMu.Lock()
	p := ko.noted
	ko.noteMu.Unlock()
	if p.offset <= ko.written {
		return nil
	}
	ko.e.At("broker.kept-offset.before-write")
	text := fmt.Sprintf("%d\n%d %v\n", keptOffsetVersion, p.offset, p.chain)
	if err := env.WriteFileAtomic(ko.e.FS, ko.name, []byte(text), 0o644); err != nil {
		return fmt.Errorf("broker: write %s: %w", ko.name, err)
	}
	ko.e.At("broker.kept-offset.after-write")
	ko.written = p.offset
	return nil
}

// run writes what was noted, at most once a second, until ctx ends.
func (ko *keptOffset) run(ctx context.Context) {
	for {
		select {
		case <-ko.wake:
		case <-ctx.Done():
			return
		}
		ko.writeOrLog()
		if !sleep(ctx, keptOffsetInterval) {
			return
		}
	}
}

func (ko *keptOffset) writeOrLog() {
	if err := ko.write(); err != nil {
		ko.log.Error("the applied metadata offset could not be kept", "error", err)
	}
}
