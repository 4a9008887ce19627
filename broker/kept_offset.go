package broker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

const (
	// keptOffsetFile holds the highest position in the metadata that the broker has ever applied, so that older metadata is
	// never taken for the truth (KAFKA-15605): a version line, then lineage, offset and chain. Version 0 has no lineage and is
	// of the first.
	keptOffsetFile    = "metadata-offset-checkpoint"
	keptOffsetVersion = 1
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
	written image.Position

	noteMu sync.Mutex
	noted  image.Position
	wake   chan struct{}
}

func newKeptOffset(e *env.Env, dir string, log *slog.Logger) *keptOffset {
	return &keptOffset{
		e: e, name: filepath.Join(dir, keptOffsetFile), log: log,
		written: image.NoPosition, noted: image.NoPosition, wake: make(chan struct{}, 1),
	}
}

// load reads the file. A missing one gives NoPosition; an unreadable one is an error, for without it old metadata
// could not be told from new.
func (ko *keptOffset) load() (image.Position, error) {
	data, err := env.ReadFile(ko.e.FS, ko.name)
	if errors.Is(err, fs.ErrNotExist) {
		return image.NoPosition, nil
	}
	if err != nil {
		return image.NoPosition, fmt.Errorf("broker: read %s: %w", ko.name, err)
	}
	p, err := parseKept(string(data))
	if err != nil {
		return image.NoPosition, &log.StorageError{Op: "parse", Path: ko.name, Err: fmt.Errorf("damaged (%q, %w); if the controllers have all that they ever had, remove the file and start again", data, err)}
	}
	ko.mu.Lock()
	defer ko.mu.Unlock()
	ko.written = p
	return p, nil
}

func parseKept(text string) (image.Position, error) {
	var version int
	var p image.Position
	var chain uint64
	head, rest, _ := strings.Cut(text, "\n")
	_, err := fmt.Sscanf(head, "%d", &version)
	switch {
	case err != nil:
	case version == 0:
		_, err = fmt.Sscanf(rest, "%d %x\n", &p.Offset, &chain)
	case version == keptOffsetVersion:
		_, err = fmt.Sscanf(rest, "%d %d %x\n", &p.Lineage, &p.Offset, &chain)
	default:
		err = fmt.Errorf("version %d, this program reads up to %d", version, keptOffsetVersion)
	}
	if err == nil && (p.Lineage < 0 || p.Offset < 0) {
		err = fmt.Errorf("lineage %d, offset %d", p.Lineage, p.Offset)
	}
	p.Chain = image.Chain(chain)
	if err == nil && text != keptText(p, version) {
		err = errors.New("it is not a version line and one line behind it: was it cut?")
	}
	return p, err
}

// keptText is the whole file, as a version writes it.
func keptText(p image.Position, version int) string {
	if version == 0 {
		return fmt.Sprintf("0\n%d %v\n", p.Offset, p.Chain)
	}
	return fmt.Sprintf("%d\n%d %d %v\n", version, p.Lineage, p.Offset, p.Chain)
}

// note takes a position over; run writes it within a second.
func (ko *keptOffset) note(im *image.Image) {
	ko.noteMu.Lock()
	if p := im.Position(); p.Compare(ko.noted) > 0 {
		ko.noted = p
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
	if p.Compare(ko.written) <= 0 {
		return nil
	}
	ko.e.At("broker.kept-offset.before-write")
	if err := env.WriteFileAtomic(ko.e.FS, ko.name, []byte(keptText(p, keptOffsetVersion)), 0o644); err != nil {
		return fmt.Errorf("broker: write %s: %w", ko.name, err)
	}
	ko.e.At("broker.kept-offset.after-write")
	ko.written = p
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
