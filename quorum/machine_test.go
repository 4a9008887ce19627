package quorum

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// ledLog writes a claim and entries of one record each, as an active controller does.
func ledLog(t *testing.T, entries int) []*raft.Log {
	t.Helper()
	const term = 2
	claim, err := record.EncodeClaim(&metadatapb.Claim{NodeId: 1, TimeMs: 1})
	if err != nil {
		t.Fatal(err)
	}
	logs := []*raft.Log{{Index: 1, Term: term, Type: raft.LogCommand, Data: claim}}
	header := record.EntryHeader{ClaimIndex: 1, Term: term, TimeMs: 1}
	for i := range entries {
		decision, err := record.EncodeDecision(&metadatapb.Decision{Records: []*metadatapb.Record{{Kind: &metadatapb.Record_Topic{
			Topic: &metadatapb.Topic{Name: fmt.Sprintf("t%d", i), TopicId: image.UUID{1, byte(i >> 8), byte(i)}.Bytes()},
		}}}})
		if err != nil {
			t.Fatal(err)
		}
		header.Sequence++
		header.BaseOffset = image.MetadataOffset(i)
		var data []byte
		data, header.Chain = record.EncodeEntry(header, [][]byte{decision})
		logs = append(logs, &raft.Log{Index: uint64(i) + 2, Term: term, Type: raft.LogCommand, Data: data})
	}
	return logs
}

// Whoever has waited for an offset finds the image at it, however soon after.
func TestImageIsKeptWhenItsOffsetIsSeen(t *testing.T) {
	const entries = 2000
	cfg := fsm.DefaultConfig()
	cfg.ClusterID, cfg.Logger, cfg.OnHalt = "c", slog.New(slog.DiscardHandler), func(err error) { t.Error(err) }
	inner, err := fsm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{FSM: inner}
	logs := ledLog(t, entries)
	seen := make(chan image.MetadataOffset)
	go func() {
		defer close(seen)
		for at := image.NoOffset; at < entries-1; {
			im, err := m.WaitOffset(t.Context(), at+1)
			if err != nil {
				t.Error(err)
				return
			}
			at = im.Offset()
			if kept, oldest, ok := m.imageAt(at); !ok || kept != im {
				t.Errorf("the image at offset %d is not kept, the oldest that is: %d", at, oldest)
				return
			}
			seen <- at
		}
	}()
	m.ApplyBatch(logs[:1])
	for _, l := range logs[1:] {
		m.ApplyBatch([]*raft.Log{l})
		if _, ok := <-seen; !ok {
			return
		}
	}
	if n := len(m.recent); n != recentImagesMax {
		t.Errorf("%d images are kept, want %d", n, recentImagesMax)
	}
	if _, oldest, ok := m.imageAt(0); ok || oldest != entries-recentImagesMax {
		t.Errorf("offset 0 kept: %v, oldest %d", ok, oldest)
	}
	if _, ok := m.imageAtOnce(entries - 2); !ok {
		t.Error("the image before the newest is not found at once")
	}
	m.mu.Lock() // as while entries are applied
	defer m.mu.Unlock()
	if im, ok := m.imageAtOnce(entries - 1); !ok || im != m.Image() {
		t.Error("the newest image is not found at once")
	}
	if _, ok := m.imageAtOnce(entries - 2); ok {
		t.Error("an older image is found while entries are applied")
	}
}
