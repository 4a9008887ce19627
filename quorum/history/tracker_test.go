package history

import (
	"testing"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/record"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

func decisionsOf(t *testing.T, e *fsm.Entry) *metadatapb.Decision {
	t.Helper()
	entry, err := record.DecodeEntry(e.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return entry.GetDecisions()[0]
}
