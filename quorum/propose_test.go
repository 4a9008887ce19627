package quorum

import "testing"

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
