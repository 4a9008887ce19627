package quorum

import (
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/fsm/record"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// A lone decision goes at once; behind a few entries on their way it shares the next; a full one goes while the window lasts.
func TestSmallEntriesShareTheNext(t *testing.T) {
	for _, c := range []struct {
		name                       string
		sent, sentBytes, openBytes int
		want                       bool
	}{
		{"alone", 0, 0, 1, true},
		{"pipeline not yet full", smallEntriesInFlightMax - 1, 300, 1, true},
		{"pipeline full", smallEntriesInFlightMax, 400, entryBytesTarget - 1, false},
		{"pipeline full, entry full", smallEntriesInFlightMax, 400, entryBytesTarget, true},
		{"window of entries full", entriesInFlightMax, 400, entryBytesTarget, false},
		{"window of bytes full", 4, bytesInFlightMax, entryBytesTarget, false},
	} {
		claim := &claim{sent: make([]*proposal, c.sent), sentBytes: c.sentBytes, open: batch{bytes: c.openBytes}}
		if got := claim.wantsEntry(); got != c.want {
			t.Errorf("%s: wants an entry %v, want %v", c.name, got, c.want)
		}
	}
}

// A decision that may be cut is cut by size: two records that fill an entry, two more, and the one that is left. A record that is
// larger than an entry is one of its own.
func TestDecisionIsCutByBytes(t *testing.T) {
	value := strings.Repeat("x", 100)
	config := func(value string) *metadatapb.Record {
		return &metadatapb.Record{Kind: &metadatapb.Record_Config{Config: &metadatapb.Config{Key: "k", Value: &value}}}
	}
	one := record.Size(config(value))
	cut := func(rest []*metadatapb.Record, bytesMax int) (parts []int) {
		for len(rest) > 0 {
			part := prefixBelow(rest, bytesMax)
			parts = append(parts, len(part))
			rest = rest[len(part):]
		}
		return parts
	}
	five := []*metadatapb.Record{config(value), config(value), config(value), config(value), config(value)}
	for _, c := range []struct {
		bytesMax int
		want     []int
	}{
		{2 * one, []int{2, 2, 1}}, {3*one - 1, []int{2, 2, 1}}, {2*one - 1, []int{1, 1, 1, 1, 1}}, {one - 1, []int{1, 1, 1, 1, 1}}, {5 * one, []int{5}},
	} {
		if got := cut(five, c.bytesMax); !slices.Equal(got, c.want) {
			t.Errorf("cut at %d bytes, a record has %d: %v, want %v", c.bytesMax, one, got, c.want)
		}
	}
}
