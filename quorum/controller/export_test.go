package controller

import (
	"math/rand/v2"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// Modes of election, for tests of the builder itself.
const (
	ModeOnline    = electOnline
	ModePreferred = electPreferred
	ModeUnclean   = electUnclean
)

// ChangeSpec is what a test asks the builder for.
type ChangeSpec struct {
	ISR, Replicas []image.BrokerID
	SetISR        bool
	Mode          electionMode
	Crashed, Lost image.BrokerID
}

// BuildChange runs the builder of PartitionChange on one partition.
func BuildChange(v View, id image.PartitionID, old image.Partition, s ChangeSpec) (*metadatapb.Record, image.Partition) {
	c := newElectorate(v).changePartition(id, old, metadatapb.ChangeReason_CHANGE_REASON_ELECTION)
	c.mode, c.crashed, c.lost = s.Mode, s.Crashed, s.Lost
	if s.SetISR {
		c.isr = s.ISR
	}
	if s.Replicas != nil {
		c.replicas = s.Replicas
	}
	return c.build()
}

// FenceStaleUpTo is FenceStaleBrokers with another bound.
func FenceStaleUpTo(v View, membershipsMax int) Decision[Done] { return fenceStale(v, membershipsMax) }

// Placeable is a broker for tests of placement.
type Placeable struct {
	ID     image.BrokerID
	Rack   string
	Fenced bool
}

// Place runs the placer on its own.
func Place(brokers []Placeable, source *rand.Rand, count int32, factor int) ([][]image.BrokerID, error) {
	list := make([]placeable, len(brokers))
	for i, b := range brokers {
		list[i] = placeable{id: b.ID, rack: b.Rack, fenced: b.Fenced}
	}
	return newPlacer(list, source).place(count, factor)
}
