package reader

import (
	"math"
	"testing"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// What a stop harms is judged by who would lead, and no margin is so large that it counts as none.
func TestHarmOfAStop(t *testing.T) {
	d := image.Load()
	topic := image.UUID{1}
	text := "2"
	records := []*metadatapb.Record{
		{Kind: &metadatapb.Record_Config{Config: &metadatapb.Config{ResourceType: metadatapb.ResourceType_RESOURCE_TYPE_BROKER, Key: image.MinInsyncReplicasConfig, Value: &text}}},
		{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: "t", TopicId: topic.Bytes()}}},
	}
	for id := range int32(4) {
		records = append(records, &metadatapb.Record{Kind: &metadatapb.Record_RegisterBroker{RegisterBroker: &metadatapb.RegisterBroker{
			BrokerId: id, IncarnationId: image.UUID{2, byte(id)}.Bytes(), DirectoryId: image.UUID{3, byte(id)}.Bytes(), Fenced: id == 3,
		}}})
	}
	for i, r := range records {
		if err := d.Replay(image.MetadataOffset(i), r); err != nil {
			t.Fatal(err)
		}
	}
	im := d.Seal(image.MetadataOffset(len(records)), 0)
	type ids = []image.BrokerID
	for name, c := range map[string]struct {
		isr, elr   ids
		margin     int32
		leaderless bool
		inSync     int32
		wanted     int32
	}{
		"one is left":                     {isr: ids{0, 1}, inSync: 1, wanted: 2},
		"enough are left":                 {isr: ids{0, 1, 2}},
		"an eligible one leads":           {isr: ids{0}, elr: ids{1}, inSync: 1, wanted: 2},
		"the eligible one is fenced":      {isr: ids{0}, elr: ids{3}, leaderless: true, wanted: 2},
		"a member is fenced":              {isr: ids{0, 3}, leaderless: true, wanted: 2},
		"the largest margin":              {isr: ids{0, 1, 2}, margin: math.MaxInt32, inSync: 2, wanted: math.MaxInt32},
		"a margin below none counts none": {isr: ids{0, 1, 2}, margin: math.MinInt32},
	} {
		harm := harmOf(im, "t", 0, image.Partition{Replicas: ids{0, 1, 2, 3}, ISR: c.isr, ELR: c.elr}, 0, c.margin)
		if c.wanted == 0 {
			if harm != nil {
				t.Errorf("%s: %v", name, harm)
			}
			continue
		}
		want := controllerpb.StopHarm{Topic: "t", Leaderless: c.leaderless, InSync: c.inSync, Wanted: c.wanted}
		if harm.GetLeaderless() != want.GetLeaderless() || harm.GetInSync() != want.GetInSync() || harm.GetWanted() != want.GetWanted() {
			t.Errorf("%s: %v, want leaderless %v, %d of %d", name, harm, c.leaderless, c.inSync, c.wanted)
		}
	}
}
