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

// EntryOfThisClaim is the entry that the active controller would propose next, as a submitter that is late would still hold it.
func (n *Node) EntryOfThisClaim(t *testing.T) []byte {
	t.Helper()
	var header record.EntryHeader
	_, err := n.loop.do(t.Context(), &operation{
		ctx: context.Background(), cause: &metadatapb.Cause{Name: "Look"},
		decide: func(controller.View) plan {
			c := n.loop.claim
			header = record.EntryHeader{ClaimIndex: c.index, Term: c.term, Sequence: c.sequence, BaseOffset: c.base, Chain: c.chain, TimeMs: c.timeMs}
			return plan{}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
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
	data, _ := record.EncodeEntry(header, [][]byte{decision})
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
