package fsm

import (
	"errors"
	"fmt"
	"math"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// What a new lineage skips. What the lost controllers decided after the last entry that was found is not known, only that
// each step of a number took at least one record. So every number that must never be given twice is raised by as much as
// that many records could have raised it.
const (
	// RecordsSkipped is the number of metadata offsets between the last one found and the first of the new lineage. Broker
	// epochs are offsets, so those that were lost are never given again.
	RecordsSkipped = 1_000_000
	// epochsSkipped is added to the leader epoch and the partition epoch of every partition. A leader epoch that was lost would
	// otherwise be given again, and logs that differ could not be told apart (KIP-101); a broker that has seen a higher
	// partition epoch would not listen.
	epochsSkipped = RecordsSkipped
	// producerIDsSkipped is added to the next producer id: a record hands out a block of at most this many.
	producerIDsSkipped = RecordsSkipped * producerIDBlockMax
	producerIDBlockMax = 1000
)

// LineageStart is how a recovery begins a lineage.
type LineageStart struct {
	// Controller and Directory are the controller that becomes the only voter.
	Controller image.BrokerID
	Directory  image.UUID
	// LeftBehind are the other members of the quorum, each a node with one of its directories: they stay out for good. Their
	// time of removal is filled in.
	LeftBehind []image.RemovedController
	// Above is a lineage that was begun elsewhere: the new one goes before it as well.
	Above image.LineageNumber
	// TimeMs is the present time in milliseconds since the epoch.
	TimeMs int64
	// Index is the Raft index of the snapshot that will hold the result.
	Index uint64
}

// BeginLineage returns the position with which a new lineage begins: the content of p, with its numbers raised by what may
// have been lost, the other controllers forgotten, and the records of the recovery. It depends on its arguments only, and
// leaves p as it is. The claim of p stays, so whatever was decided under it is fenced or does not fit the chain.
//
// The records stand as those of one entry would, whose bytes give the chain.
func BeginLineage(p Position, by LineageStart) (Position, error) {
	if p.State.Offset == image.NoOffset {
		return Position{}, errors.New("fsm: the log holds no metadata, so there is nothing that a lineage could go on from")
	}
	d := image.Load()
	for r := range p.Image.Records() {
		if isForgotten(r, by.Controller) {
			continue
		}
		if err := raiseEpochs(r); err != nil {
			return Position{}, err
		}
		if err := d.Replay(p.State.Offset, r); err != nil {
			return Position{}, fmt.Errorf("fsm: raise the numbers of the lineage: %w", err)
		}
	}
	timeMs := max(by.TimeMs, p.State.TimeMs)
	records := by.records(p, timeMs)
	decision, err := record.EncodeDecision(&metadatapb.Decision{Cause: &metadatapb.Cause{Name: "BeginLineage"}, Records: records})
	if err != nil {
		return Position{}, err
	}
	header := record.EntryHeader{BaseOffset: p.State.Offset + 1 + RecordsSkipped, Chain: p.State.Chain, TimeMs: timeMs}
	next := Position{State: p.State}
	_, next.State.Chain = record.EncodeEntry(header, [][]byte{decision})
	next.State.Offset = header.BaseOffset - 1
	next.State.TimeMs, next.State.Index = timeMs, by.Index
	fork := d.Seal(p.State.Offset, p.State.Chain).Fork()
	for _, r := range records {
		next.State.Offset++
		if err := fork.Replay(next.State.Offset, r); err != nil {
			return Position{}, err
		}
	}
	next.Image = fork.Seal(next.State.Offset, next.State.Chain)
	return next, nil
}

// records are those of the recovery: the lineage, who is left behind, and the producer ids that are skipped.
func (by LineageStart) records(p Position, timeMs int64) []*metadatapb.Record {
	l := image.Lineage{
		Number: max(p.Image.Lineage().Number, by.Above) + 1, Controller: by.Controller, DirectoryID: by.Directory,
		TimeMs: timeMs, RecoveredOffset: p.State.Offset, RecoveredChain: p.State.Chain,
	}
	out := []*metadatapb.Record{l.Record()}
	for _, c := range by.LeftBehind {
		if p.Image.IsRemovedController(c.ID, c.DirectoryID) {
			continue
		}
		c.RemovedAtMs = timeMs
		out = append(out, &metadatapb.Record{Kind: &metadatapb.Record_RemovedController{RemovedController: c.Record()}})
	}
	return append(out, &metadatapb.Record{Kind: &metadatapb.Record_ProducerIds{ProducerIds: &metadatapb.ProducerIds{
		BrokerId: int32(image.NoBroker), BrokerEpoch: int64(image.NoBrokerEpoch), NextProducerId: p.Image.NextProducerID() + producerIDsSkipped,
	}}})
}

// isForgotten tells whether a record is the registration of a controller that the recovery leaves behind.
func isForgotten(r *metadatapb.Record, keep image.BrokerID) bool {
	c := r.GetRegisterController()
	return c != nil && image.BrokerID(c.ControllerId) != keep
}

// raiseEpochs raises the epochs of a partition; other records stay as they are.
func raiseEpochs(r *metadatapb.Record) error {
	p := r.GetPartition()
	if p == nil {
		return nil
	}
	if p.LeaderEpoch > math.MaxInt32-epochsSkipped || p.PartitionEpoch > math.MaxInt32-epochsSkipped {
		return fmt.Errorf("fsm: the epochs of partition %d cannot be raised by %d: leader epoch %d, partition epoch %d",
			p.Partition, epochsSkipped, p.LeaderEpoch, p.PartitionEpoch)
	}
	p.LeaderEpoch += epochsSkipped
	p.PartitionEpoch += epochsSkipped
	return nil
}
