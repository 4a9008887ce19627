package broker

import (
	"context"
	"sync"

	"github.com/quorate/quorate/fsm/image"
)

// imageCell holds the newest image of a kind: the newest that was followed, or the newest that was acted on, its logs
// created and deleted, its leaders and followers made. Any goroutine may wait for it.
type imageCell struct {
	mu      sync.Mutex
	im      *image.Image
	changed chan struct{} // closed and replaced with each set
}

func newImageCell() *imageCell { return &imageCell{im: image.Empty(), changed: make(chan struct{})} }

func (ic *imageCell) image() *image.Image {
	im, _ := ic.watch()
	return im
}

// watch returns the image and a channel that is closed when there is a newer one.
func (ic *imageCell) watch() (*image.Image, <-chan struct{}) {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	return ic.im, ic.changed
}

// set makes im the newest image, and wakes everyone who waits.
func (ic *imageCell) set(im *image.Image) {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	ic.im = im
	ic.wakeLocked()
}

// wake has everyone who waits look again.
func (ic *imageCell) wake() {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	ic.wakeLocked()
}

func (ic *imageCell) wakeLocked() {
	close(ic.changed)
	ic.changed = make(chan struct{})
}

// wait returns the first image that satisfies done, or the context's error.
func (ic *imageCell) wait(ctx context.Context, done func(*image.Image) bool) (*image.Image, error) {
	for {
		im, changed := ic.watch()
		if done(im) {
			return im, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return im, ctx.Err()
		}
	}
}

// waitOffset waits for an image with the offset.
func (ic *imageCell) waitOffset(ctx context.Context, offset image.MetadataOffset) (*image.Image, error) {
	return ic.wait(ctx, func(im *image.Image) bool { return im.Offset() >= offset })
}
