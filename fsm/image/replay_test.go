package image

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// TestReplay runs the transcripts of what each record does to an image. A line of input is a record:
//
//	<kind> key=value …     lists as 1,2,3; topics by name or by the number of their id
//
// and "show" prints the image. A record that does not fit prints its error and leaves the image as it was.
func TestReplay(t *testing.T) {
	datadriven.Walk(t, "testdata/replay", func(t *testing.T, path string) {
		im := Empty()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "show":
				checkDerived(t, im)
				return im.String()
			case "indexes":
				return indexText(im)
			}
			var out strings.Builder
			for _, line := range strings.Split(d.Input, "\n") {
				r := parseRecord(t, im, line)
				delta := im.Fork()
				if err := delta.Replay(im.Offset()+1, r); err != nil {
					if !errors.Is(err, ErrReplay) {
						t.Fatalf("%v does not wrap ErrReplay", err)
					}
					fmt.Fprintln(&out, err)
					continue
				}
				im = delta.Seal(im.Offset()+1, 0)
			}
			if out.Len() == 0 {
				return "ok\n"
			}
			return out.String()
		})
	})
}

func indexText(im *Image) string {
	var s strings.Builder
	line := func(name string, seq func(func(PartitionID, Partition) bool)) {
		fmt.Fprintf(&s, "%s:", name)
		for id := range seq {
			t, _ := im.TopicByID(id.Topic)
			fmt.Fprintf(&s, " %s-%d", t.Name(), id.Partition)
		}
		s.WriteString("\n")
	}
	for b := BrokerID(1); b <= 3; b++ {
		line(fmt.Sprintf("broker %d leads %d, on", b, im.LeaderCount(b)), im.PartitionsOn(b))
		line("  isr", im.PartitionsWithISR(b))
		line("  elr", im.PartitionsWithELR(b))
	}
	line("leaderless", im.Leaderless())
	line("not preferred", im.NotPreferred())
	line("reassigning", im.Reassigning())
	return s.String()
}

// fields are the key=value pairs of a line.
type fields map[string]string

func (f fields) int(key string) int64 {
	v, _ := strconv.ParseInt(f[key], 10, 64)
	return v
}

func (f fields) list(key string) []int32 {
	var out []int32
	for _, s := range strings.FieldsFunc(f[key], func(r rune) bool { return r == ',' }) {
		v, _ := strconv.Atoi(s)
		out = append(out, int32(v))
	}
	return out
}

func (f fields) ids(key string) *metadatapb.BrokerIds {
	if _, ok := f[key]; !ok {
		return nil
	}
	return &metadatapb.BrokerIds{Ids: f.list(key)}
}

func (f fields) leader() *int32 {
	if v, ok := f["leader"]; !ok || v == "none" {
		return nil
	}
	return ptr(int32(f.int("leader")))
}

func (f fields) topic(im *Image) []byte {
	if t, ok := im.TopicByName(f["topic"]); ok {
		return t.ID().Bytes()
	}
	return testID(int(f.int("topic")))
}

func (f fields) recovery() metadatapb.LeaderRecoveryState {
	return metadatapb.LeaderRecoveryState(metadatapb.LeaderRecoveryState_value["LEADER_RECOVERY_STATE_"+f["recovery"]])
}

func parseRecord(t testing.TB, im *Image, line string) *metadatapb.Record {
	t.Helper()
	words := strings.Fields(line)
	f := fields{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		f[k] = v
	}
	switch words[0] {
	case "topic":
		return recTopic(f["name"], int(f.int("id")))
	case "partition":
		return recPartition(&metadatapb.Partition{TopicId: f.topic(im), Partition: int32(f.int("n")), Replicas: f.list("replicas"),
			Isr: f.list("isr"), Leader: f.leader(), LeaderEpoch: int32(f.int("le")), PartitionEpoch: int32(f.int("pe")),
			Elr: f.list("elr"), LastKnownElr: f.list("last"), LeaderRecoveryState: f.recovery()})
	case "change":
		c := &metadatapb.PartitionChange{TopicId: f.topic(im), Partition: int32(f.int("n")), Isr: f.ids("isr"), Elr: f.ids("elr"),
			LastKnownElr: f.ids("last"), Replicas: f.ids("replicas"), AddingReplicas: f.ids("adding"),
			RemovingReplicas: f.ids("removing"), OriginalReplicas: f.ids("original")}
		if _, ok := f["leader"]; ok {
			c.Leader = &metadatapb.LeaderChange{Leader: f.leader()}
		}
		if _, ok := f["recovery"]; ok {
			c.LeaderRecoveryState = f.recovery().Enum()
		}
		return recChange(c)
	case "remove":
		return recRemove(f.topic(im))
	}
	return parseClusterRecord(t, im, words[0], f)
}

func parseClusterRecord(t testing.TB, im *Image, kind string, f fields) *metadatapb.Record {
	t.Helper()
	id := int32(f.int("id"))
	epoch := f.int("epoch")
	if b, ok := im.Broker(BrokerID(id)); ok && f["epoch"] == "" {
		epoch = int64(b.Epoch)
	}
	switch kind {
	case "register":
		r := &metadatapb.RegisterBroker{BrokerId: id, BrokerEpoch: int64(im.Offset() + 1), IncarnationId: testID(int(f.int("incarnation"))),
			DirectoryId: testID(int(f.int("directory"))), Fenced: f["fenced"] != "false", InControlledShutdown: f["stopping"] == "true"}
		if f["epoch"] != "" {
			r.BrokerEpoch = f.int("epoch")
		}
		return recBroker(r)
	case "broker":
		r := &metadatapb.BrokerRegistrationChange{BrokerId: id, BrokerEpoch: epoch, StateSinceMs: f.int("since")}
		if v, ok := f["fenced"]; ok {
			r.Fenced = ptr(v == "true")
		}
		if v, ok := f["stopping"]; ok {
			r.InControlledShutdown = ptr(v == "true")
		}
		return recBrokerChange(r)
	case "unregister":
		return recUnregister(id, epoch)
	case "controller":
		return recController(id, int(f.int("directory")))
	case "removed-controller":
		return recRemovedController(id, int(f.int("directory")), f.int("at"))
	case "deleted":
		return recDeleted(id, f.topic(im))
	case "failed":
		return recDeletionFailed(id, f.topic(im), f["failure"], f.int("since"))
	case "config":
		var value *string
		if v, ok := f["value"]; ok {
			value = &v
		}
		return recConfig(metadatapb.ResourceType(metadatapb.ResourceType_value["RESOURCE_TYPE_"+f["type"]]), f["of"], f["key"], value)
	case "feature":
		return recFeature(f["name"], int32(f.int("level")))
	case "lineage":
		return recLineage(int32(f.int("number")))
	case "lineage-confirmed":
		return recConfirmed(int32(f.int("number")), f.int("at"))
	case "producer-ids":
		return recProducerIDs(f.int("next"))
	}
	return &metadatapb.Record{}
}
