package record

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// Field numbers of the messages that this package takes apart by hand. A test compares them with the generated code.
const (
	fieldCommandClaim = 1
	fieldCommandEntry = 2

	fieldEntryClaimIndex = 1
	fieldEntryTerm       = 2
	fieldEntrySequence   = 3
	fieldEntryBaseOffset = 4
	fieldEntryChain      = 5
	fieldEntryTimeMs     = 6
	fieldEntryDecisions  = 7

	fieldDecisionCause   = 1
	fieldDecisionMore    = 2
	fieldDecisionRecords = 3
)

// EntryHeader is what an entry was decided on.
type EntryHeader struct {
	// ClaimIndex and Term are the Raft index and term of the claim.
	ClaimIndex, Term uint64
	// Sequence is 1, 2, 3 … within the claim.
	Sequence uint64
	// BaseOffset is the metadata offset of the first record.
	BaseOffset MetadataOffset
	// Chain is the chain before the entry.
	Chain Chain
	// TimeMs is the active controller's clock in milliseconds since the epoch.
	TimeMs int64
}

var marshal = proto.MarshalOptions{Deterministic: true}

// EncodeClaim returns the Raft command that opens an incarnation of the active controller.
func EncodeClaim(c *metadatapb.Claim) ([]byte, error) {
	data, err := marshal.Marshal(&metadatapb.Command{Kind: &metadatapb.Command_Claim{Claim: c}})
	if err != nil {
		return nil, fmt.Errorf("record: encode claim: %w", err)
	}
	return data, nil
}

// EncodeDecision returns the bytes of a decision, to be put into an entry by [EncodeEntry].
func EncodeDecision(d *metadatapb.Decision) ([]byte, error) {
	data, err := marshal.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("record: encode decision %s: %w", d.GetCause().GetName(), err)
	}
	return data, nil
}

// EncodeEntry returns the Raft command with an entry of encoded decisions, and the chain after it if it has records.
func EncodeEntry(h EntryHeader, decisions [][]byte) ([]byte, Chain) {
	size := 0
	for _, d := range decisions {
		size += protowire.SizeTag(fieldEntryDecisions) + protowire.SizeBytes(len(d))
	}
	head := appendHeader(make([]byte, 0, 80), h)
	size += len(head)
	b := make([]byte, 0, 1+protowire.SizeBytes(size))
	b = protowire.AppendTag(b, fieldCommandEntry, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	start := len(b)
	b = append(b, head...)
	for _, d := range decisions {
		b = protowire.AppendTag(b, fieldEntryDecisions, protowire.BytesType)
		b = protowire.AppendBytes(b, d)
	}
	return b, ChainAfter(b[start:])
}

func appendHeader(b []byte, h EntryHeader) []byte {
	for _, f := range [...]struct {
		num protowire.Number
		v   uint64
	}{
		{fieldEntryClaimIndex, h.ClaimIndex}, {fieldEntryTerm, h.Term}, {fieldEntrySequence, h.Sequence},
		{fieldEntryBaseOffset, uint64(h.BaseOffset)},
	} {
		b = appendVarintField(b, f.num, f.v)
	}
	if h.Chain != 0 {
		b = protowire.AppendTag(b, fieldEntryChain, protowire.Fixed64Type)
		b = protowire.AppendFixed64(b, uint64(h.Chain))
	}
	return appendVarintField(b, fieldEntryTimeMs, uint64(h.TimeMs))
}

func appendVarintField(b []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
}

// Encode returns the bytes of a record.
func Encode(r *metadatapb.Record) ([]byte, error) { return Append(nil, r) }

// Append appends the bytes of a record to b.
func Append(b []byte, r *metadatapb.Record) ([]byte, error) {
	out, err := marshal.MarshalAppend(b, r)
	if err != nil {
		return b, fmt.Errorf("record: encode %s: %w", Kind(r), err)
	}
	return out, nil
}

// Size returns the number of bytes that a record takes in a decision, its frame included.
func Size(r *metadatapb.Record) int {
	return protowire.SizeTag(fieldDecisionRecords) + protowire.SizeBytes(proto.Size(r))
}
