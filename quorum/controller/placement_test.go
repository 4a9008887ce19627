package controller_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/controller"
)

// zeros is a source that always draws 0, so that racks and lists begin at their beginning.
type zeros struct{}

func (zeros) Uint64() uint64 { return 1 << 32 } // rejection sampling takes it for 0 of any n

func brokersIn(rack string, fenced bool, ids ...image.BrokerID) []controller.Placeable {
	var list []controller.Placeable
	for _, id := range ids {
		list = append(list, controller.Placeable{ID: id, Rack: rack, Fenced: fenced})
	}
	return list
}

func concat(lists ...[]controller.Placeable) []controller.Placeable {
	var all []controller.Placeable
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// TestPlacementStripes holds the rows of Kafka's StripedReplicaPlacerTest, all offsets at their beginning.
func TestPlacementStripes(t *testing.T) {
	for _, c := range []struct {
		name    string
		brokers []controller.Placeable
		factor  int
		count   int32
		want    string
	}{
		{"P1 three racks", concat(brokersIn("A", false, 0, 1, 2), brokersIn("B", false, 10, 11, 12), brokersIn("C", false, 20, 21, 22)), 3, 3, "[0,10,20] [11,21,1] [22,2,12]"},
		{"P2 one fenced", concat(brokersIn("", false, 0, 1, 2), brokersIn("", true, 3)), 3, 3, "[0,1,2] [1,2,0] [2,0,1]"},
		{"P2 one fenced, all needed", concat(brokersIn("", false, 0, 1, 2), brokersIn("", true, 3)), 4, 3, "[0,1,2,3] [1,2,0,3] [2,0,1,3]"},
		{"P4 a rack of fenced brokers gets its share, not the leader", concat(brokersIn("A", true, 10), brokersIn("B", false, 20, 21), brokersIn("C", false, 30)), 3, 3, "[20,10,30] [21,30,10] [30,10,20]"},
		{"P5 uneven racks", concat(brokersIn("A", false, 0, 1), brokersIn("B", false, 2)), 3, 2, "[0,2,1] [2,1,0]"},
		{"P6 a fenced broker leads nothing", concat(brokersIn("", false, 0), brokersIn("", true, 1)), 1, 3, "[0] [0] [0]"},
		{"P8 all fenced", brokersIn("", true, 10, 11), 1, 1, "error all 2 brokers (10, 11) are fenced: start one of them"},
		{"P8 too few", brokersIn("", false, 10, 11), 3, 1, "error replication factor 3 is larger than 2 usable brokers (10, 11): start another broker, or ask for replication factor 2"},
		{"none", nil, 1, 1, "error no broker is registered that is not shutting down: start one"},
		{"factor 0", brokersIn("", false, 1), 0, 1, "error replication factor is 0, must be at least 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			placed, err := controller.Place(c.brokers, rand.New(zeros{}), c.count, c.factor)
			var got []string
			for _, list := range placed {
				got = append(got, image.FormatReplicas(list))
			}
			text := strings.Join(got, " ")
			if err != nil {
				text = "error " + err.Error()
			}
			if text != c.want {
				t.Errorf("placed %s, want %s", text, c.want)
			}
		})
	}
}

// P7: the unfenced brokers begin at their second one, the fenced one goes last and leads nothing.
func TestPlacementBeginsAnywhere(t *testing.T) {
	brokers := concat(brokersIn("", false, 2, 3), brokersIn("", true, 1))
	seen := map[string]bool{}
	for seed := range uint64(100) {
		placed, err := controller.Place(brokers, rand.New(rand.NewPCG(seed, 1)), 2, 3)
		if err != nil {
			t.Fatal(err)
		}
		seen[image.FormatReplicas(placed[0])+image.FormatReplicas(placed[1])] = true
	}
	if len(seen) != 2 || !seen["[3,2,1][2,3,1]"] || !seen["[2,3,1][3,2,1]"] {
		t.Errorf("placed %v", seen)
	}
}

// TestPlacementSpreads: no broker twice in a partition, an unfenced leader, racks used evenly, leaders even, and the
// same seed gives the same placement.
func TestPlacementSpreads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		racks := rapid.IntRange(1, 4).Draw(t, "racks")
		perRack := rapid.IntRange(1, 4).Draw(t, "brokers a rack")
		var brokers []controller.Placeable
		for r := range racks {
			for b := range perRack {
				brokers = append(brokers, controller.Placeable{ID: image.BrokerID(r*10 + b), Rack: fmt.Sprint(r)})
			}
		}
		fenced := rapid.IntRange(0, len(brokers)-1).Draw(t, "fenced")
		for i := range fenced {
			brokers[i].Fenced = true
		}
		factor := rapid.IntRange(1, len(brokers)).Draw(t, "factor")
		count := rapid.Int32Range(1, 40).Draw(t, "partitions")
		seed := rapid.Uint64().Draw(t, "seed")
		placed, err := controller.Place(brokers, rand.New(rand.NewPCG(seed, 1)), count, factor)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := controller.Place(brokers, rand.New(rand.NewPCG(seed, 1)), count, factor)
		leaders := map[image.BrokerID]int{}
		for i, list := range placed {
			if !image.Equal(list, again[i]) {
				t.Fatalf("partition %d: the same seed gives %v and %v", i, list, again[i])
			}
			checkSpread(t, brokers, list, racks, perRack)
			leaders[list[0]]++
		}
		if fenced == 0 {
			low, high := int(count), 0
			for _, b := range brokers {
				low, high = min(low, leaders[b.ID]), max(high, leaders[b.ID])
			}
			if high-low > 1 {
				t.Fatalf("leaders are spread from %d to %d", low, high)
			}
		}
	})
}

func checkSpread(t *rapid.T, brokers []controller.Placeable, list []image.BrokerID, racks, perRack int) {
	if image.HasDuplicates(list) {
		t.Fatalf("%v names a broker twice", list)
	}
	byRack := map[string]int{}
	for _, b := range brokers {
		if b.ID == list[0] && b.Fenced {
			t.Fatalf("%v is led by a fenced broker", list)
		}
		if image.Contains(list, b.ID) {
			byRack[b.Rack]++
		}
	}
	if len(byRack) < min(racks, len(list)) {
		t.Fatalf("%v uses %d racks of %d", list, len(byRack), racks)
	}
	for rack, n := range byRack {
		if n > (len(list)+racks-1)/racks {
			t.Fatalf("%v has %d replicas in rack %s", list, n, rack)
		}
	}
}
