package image

import (
	"cmp"
	"fmt"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// LineageNumber counts the offline recoveries that a log has been through. Offsets, chains and controller epochs compare
// within one lineage only; of two lineages the higher one goes before.
type LineageNumber int32

// Lineage tells how the present lineage of the log began. The zero value is the first lineage, which no recovery began.
type Lineage struct {
	Number LineageNumber
	// Controller and DirectoryID are the controller that the recovery made the only voter.
	Controller  BrokerID
	DirectoryID UUID
	// TimeMs is the clock of the recovery in milliseconds since the epoch.
	TimeMs int64
	// RecoveredOffset and RecoveredChain are where the lineage before was left: its last offset that was found.
	RecoveredOffset MetadataOffset
	RecoveredChain  Chain
	// ConfirmedMs is when an operator confirmed the lineage, 0 as long as nobody has.
	ConfirmedMs int64
}

// IsUnconfirmed tells that a recovery waits for an operator to look at what it brought back. Until then nothing is deleted on
// the word of this image.
func (l Lineage) IsUnconfirmed() bool { return l.Number > 0 && l.ConfirmedMs == 0 }

// Notice says in words what an unconfirmed lineage waits for; empty if it waits for nothing.
func (l Lineage) Notice() string {
	if !l.IsUnconfirmed() {
		return ""
	}
	return fmt.Sprintf("lineage %d waits to be confirmed: the quorum was recovered offline, and brokers delete nothing until `quorate quorum recover --confirm`", l.Number)
}

// String returns one canonical line.
func (l Lineage) String() string {
	s := fmt.Sprintf("lineage %d controller=%d:%v recovered=%d/%v", l.Number, l.Controller, l.DirectoryID, l.RecoveredOffset, l.RecoveredChain)
	if l.IsUnconfirmed() {
		s += " unconfirmed"
	}
	return s
}

// Lineage returns the lineage that the image belongs to.
func (im *Image) Lineage() Lineage { return im.lineage }

// Position is a place in the metadata log. The zero value is offset 0; [NoPosition] is before everything.
type Position struct {
	Lineage LineageNumber
	Offset  MetadataOffset
	Chain   Chain
}

// NoPosition is the position of the empty image.
var NoPosition = Position{Offset: NoOffset}

// Position returns where in the log the image stands.
func (im *Image) Position() Position { return Position{im.lineage.Number, im.offset, im.chain} }

// Compare orders positions by lineage, then by offset.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Lineage, q.Lineage), cmp.Compare(p.Offset, q.Offset))
}

// IsAlarm tells that two nodes that stand at these positions have different histories. Positions of different lineages or
// offsets tell nothing.
func (p Position) IsAlarm(q Position) bool { return p.Compare(q) == 0 && p.Chain != q.Chain }

// String is the position in one line.
func (p Position) String() string {
	return fmt.Sprintf("lineage=%d metadataOffset=%d chain=%v", p.Lineage, p.Offset, p.Chain)
}

// beginLineage replays the record of a recovery. It is above the lineage before, by more than one if others were begun elsewhere and
// left; a snapshot holds the last one only.
func (d *Delta) beginLineage(r *metadatapb.Lineage) error {
	directory, err := UUIDFrom(r.DirectoryId)
	old := d.lineage.Number
	switch {
	case err != nil:
		return fmt.Errorf("Lineage %d: %w", r.Number, err)
	case r.Number < 1 || r.ControllerId < 0:
		return fmt.Errorf("Lineage %d of controller %d: the number must be at least 1, the id at least 0", r.Number, r.ControllerId)
	case d.snapshot && old > 0, !d.snapshot && LineageNumber(r.Number) <= old:
		return fmt.Errorf("Lineage %d does not follow lineage %d", r.Number, old)
	}
	d.lineage = Lineage{
		Number: LineageNumber(r.Number), Controller: BrokerID(r.ControllerId), DirectoryID: directory, TimeMs: r.TimeMs,
		RecoveredOffset: MetadataOffset(r.RecoveredOffset), RecoveredChain: Chain(r.RecoveredChain),
	}
	return nil
}

func (d *Delta) confirmLineage(r *metadatapb.LineageConfirmed) error {
	if LineageNumber(r.Number) != d.lineage.Number || !d.lineage.IsUnconfirmed() || r.TimeMs <= 0 {
		return fmt.Errorf("LineageConfirmed %d at %d ms: lineage %d (confirmed at %d ms) does not wait for it", r.Number, r.TimeMs,
			d.lineage.Number, d.lineage.ConfirmedMs)
	}
	d.lineage.ConfirmedMs = r.TimeMs
	return nil
}

// records returns what restores the lineage; nothing for the first.
func (l Lineage) records() []*metadatapb.Record {
	if l.Number == 0 {
		return nil
	}
	out := []*metadatapb.Record{l.Record()}
	if l.ConfirmedMs != 0 {
		out = append(out, &metadatapb.Record{Kind: &metadatapb.Record_LineageConfirmed{
			LineageConfirmed: &metadatapb.LineageConfirmed{Number: int32(l.Number), TimeMs: l.ConfirmedMs},
		}})
	}
	return out
}

// Record returns the record that begins the lineage.
func (l Lineage) Record() *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_Lineage{Lineage: &metadatapb.Lineage{
		Number: int32(l.Number), ControllerId: int32(l.Controller), DirectoryId: l.DirectoryID.Bytes(), TimeMs: l.TimeMs,
		RecoveredOffset: int64(l.RecoveredOffset), RecoveredChain: uint64(l.RecoveredChain),
	}}}
}

func hashLineage(l Lineage) uint64 {
	if l.Number == 0 {
		return 0
	}
	h := hash(kindLineage).word(uint64(l.Number)).word(uint64(l.Controller)).uuid(l.DirectoryID)
	return h.words2(uint64(l.TimeMs), uint64(l.ConfirmedMs)).words2(uint64(l.RecoveredOffset), uint64(l.RecoveredChain)).sum()
}

func (j *jsonWriter) lineage(l Lineage) *jsonWriter {
	if l.Number == 0 {
		return j.text(`null`)
	}
	j.text(`{"number":`).int(int64(l.Number)).text(`,"confirmedMs":`).int(l.ConfirmedMs)
	j.text(`,"controllerId":`).int(int64(l.Controller)).text(`,"directoryId":`).string(l.DirectoryID.String())
	j.text(`,"timeMs":`).int(l.TimeMs).text(`,"recoveredOffset":`).int(int64(l.RecoveredOffset))
	return j.text(`,"recoveredChain":`).string(l.RecoveredChain.String()).text(`}`)
}
