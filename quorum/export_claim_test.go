package quorum

import (
	"context"
	"testing"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/record"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
	"github.com/quorate/quorate/quorum/raftnode"
)

// LateEntry is an entry that the active controller would have proposed next, as a submitter that is late still holds it.
type LateEntry struct{ header record.EntryHeader }

// EntryOfThisClaim is the one of the present claim.
func (n *Node) EntryOfThisClaim(t *testing.T) LateEntry {
	t.Helper()
	var late LateEntry
	_, err := n.loop.do(t.Context(), &operation{
		ctx: context.Background(), cause: &metadatapb.Cause{Name: "Look"},
		decide: func(controller.View) plan {
			c := n.loop.claim
			late.header = record.EntryHeader{ClaimIndex: c.index, Term: c.term, Sequence: c.sequence, BaseOffset: c.base, Chain: c.chain, TimeMs: c.timeMs}
			return plan{}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return late
}

// Term is that of its claim.
func (l LateEntry) Term() uint64 { return l.header.Term }

// Encode is the entry as of a term: another one than its own stands for a claim that was made twice in one.
func (l LateEntry) Encode(t *testing.T, term uint64) []byte {
	t.Helper()
	l.header.Term = term
	value := "late"
	decision, err := record.EncodeDecision(&metadatapb.Decision{
		Cause: &metadatapb.Cause{Name: "Late"},
		Records: []*metadatapb.Record{{Kind: &metadatapb.Record_Config{Config: &metadatapb.Config{
			ResourceType: metadatapb.ResourceType_RESOURCE_TYPE_BROKER, ResourceName: "1", Key: "late", Value: &value,
		}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	data, _ := record.EncodeEntry(l.header, [][]byte{decision})
	return data
}

// Submit hands an entry to Raft and tells its verdict.
func (n *Node) Submit(data []byte) string {
	out := n.raft.Apply(append([]byte(nil), data...)).Wait()
	entry, ok := out.Response.(fsm.EntryResult)
	if out.Fate != raftnode.FateApplied || !ok {
		return out.Fate.String()
	}
	return entry.Verdict.String()
}
