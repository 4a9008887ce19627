package broker

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

func imageAt(offset image.MetadataOffset) *image.Image {
	return image.Empty().Fork().Seal(offset, image.Chain(offset)*17)
}

func TestKeptOffsetSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	ko := newKeptOffset(env.OS(""), dir, slog.New(slog.DiscardHandler))
	if p, err := ko.load(); err != nil || p.Offset != image.NoOffset {
		t.Fatalf("nothing kept yet: got %+v, %v", p, err)
	}
	for _, o := range []image.MetadataOffset{7, 812, 30} { // it never falls
		if err := ko.keep(imageAt(o)); err != nil {
			t.Fatal(err)
		}
	}
	p, err := newKeptOffset(env.OS(""), dir, slog.New(slog.DiscardHandler)).load()
	if err != nil || p != (image.Position{Offset: 812, Chain: 812 * 17}) {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestKeptOffsetIsWrittenOnceASecond(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var writes atomic.Int32
		e := env.OS("")
		e.Hook = func(point string) {
			if point == "broker.kept-offset.before-write" {
				writes.Add(1)
			}
		}
		ko := newKeptOffset(e, dir, slog.New(slog.DiscardHandler))
		s := newStage(t.Context())
		s.run(ko.run)
		for o := range image.MetadataOffset(100) {
			ko.note(imageAt(o))
			time.Sleep(50 * time.Millisecond)
		}
		if n := writes.Load(); n < 5 || n > 6 {
			t.Errorf("%d writes in 5 s", n)
		}
		s.stop()
		ko.writeOrLog()
		if ko.written.Offset != 99 {
			t.Errorf("stopped at %d", ko.written)
		}
	})
}

func TestDamagedKeptOffsetIsRefused(t *testing.T) {
	for _, text := range []string{"", "0\n", "1\n5 0000000000000001\n", "0\n-3 0000000000000001\n", "garbage",
		"1\n0 1847 6bc6857b7b5810b0\n2", "1\n0 1847 6bc6857b7b5810b0", "1\n0 1847 6b", "1\n0 18", "0\n812 34", // cut: an older position, or another chain
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, keptOffsetFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := newKeptOffset(env.OS(""), dir, slog.New(slog.DiscardHandler)).load()
		if !errors.As(err, new(*log.StorageError)) || !strings.Contains(err.Error(), keptOffsetFile) {
			t.Errorf("%q: got %v", text, err)
		}
	}
}
