package partition_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// brokers is the metadata of a transcript.
type brokers map[image.BrokerID]image.Broker

func (b brokers) Broker(id image.BrokerID) (image.Broker, bool) {
	r, ok := b[id]
	return r, ok
}

// stage is what the verbs of a transcript act on. The clock starts at 0 and only advance moves it.
type stage struct {
	t         *testing.T
	facts     partition.Facts
	brokers   brokers
	state     partition.State
	minISR    int
	now       time.Time
	proposals []*partition.Proposal
}

func newStage(t *testing.T) *stage {
	b := brokers{}
	return &stage{
		t: t, brokers: b, state: partition.New(), minISR: 1, now: time.UnixMilli(0),
		facts: partition.Facts{Self: 1, SelfEpoch: 101, LagTimeMax: 30 * time.Second, Brokers: b},
	}
}

// transcript runs one file. Its verbs:
//
//	setup [lag=30s] [minISR=1]; brokers 1 to 5 are registered with epochs 101 to 105
//	broker id=3 [epoch=140] [fenced] [shutdown] [gone]       what metadata knows from now on
//	lead|follow leader=2 le=5 pe=7 replicas=(1,2,3) isr=(1,2) [leo=10] [hw=0] [shutdown] [adding=(4)] [removing=(2)] [offset=9]
//	metadata [minISR=2] [offset=9], delete, advance 31s, timer, append leo=20
//	fetch from=2 offset=10 [epoch=102] [le=5] [leo=10] [start=0]
//	answer [of=1] code=INVALID_REQUEST, or pe=8 isr=(1,2) [le=5] [minISR=2 offset=9]
//	admit, verdict required=11, read le=5 [any], state
func transcript(t *testing.T, path string) {
	st := newStage(t)
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		st.t = t
		return st.run(d)
	})
}

func (st *stage) run(d *datadriven.TestData) string {
	switch d.Cmd {
	case "setup":
		return st.setup(d)
	case "broker":
		return st.broker(d)
	case "advance":
		dur, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			d.Fatalf(st.t, "%v", err)
		}
		st.now = st.now.Add(dur)
		return fmt.Sprintf("now %d\n", st.now.UnixMilli())
	case "state":
		return st.state.String() + "\n"
	case "admit":
		return fmt.Sprintf("acks=1 %s, acks=all %s\n", code(st.state.AdmitAppend(false)), code(st.state.AdmitAppend(true)))
	case "verdict":
		c, decided := st.state.AcksAllVerdict(num(st.t, d, "required", 0))
		if !decided {
			return "undecided\n"
		}
		return code(c) + "\n"
	case "read":
		return code(st.state.CheckRead(image.LeaderEpoch(num(st.t, d, "le", -1)), !d.HasArg("any"))) + "\n"
	default:
		return st.step(st.event(d))
	}
}

func (st *stage) setup(d *datadriven.TestData) string {
	*st = *newStage(st.t)
	for id := image.BrokerID(1); id <= 5; id++ {
		st.brokers[id] = image.Broker{ID: id, Epoch: image.BrokerEpoch(100 + id)}
	}
	if d.HasArg("lag") {
		var s string
		d.ScanArgs(st.t, "lag", &s)
		lag, err := time.ParseDuration(s)
		if err != nil {
			d.Fatalf(st.t, "%v", err)
		}
		st.facts.LagTimeMax = lag
	}
	st.minISR = int(num(st.t, d, "minISR", 1))
	return "ok\n"
}

func (st *stage) broker(d *datadriven.TestData) string {
	id := image.BrokerID(num(st.t, d, "id", 0))
	if d.HasArg("gone") {
		delete(st.brokers, id)
		return "gone\n"
	}
	b := st.brokers[id]
	b.ID, b.Epoch = id, image.BrokerEpoch(num(st.t, d, "epoch", int64(b.Epoch)))
	b.Fenced, b.InControlledShutdown = d.HasArg("fenced"), d.HasArg("shutdown")
	b.StateSinceMs++
	st.brokers[id] = b
	return fmt.Sprintf("epoch=%d fenced=%v shutdown=%v\n", b.Epoch, b.Fenced, b.InControlledShutdown)
}

func (st *stage) event(d *datadriven.TestData) partition.Event {
	t, s := st.t, &st.state
	switch d.Cmd {
	case "lead":
		p := st.partition(d)
		p.Leader = st.facts.Self
		return partition.BecomeLeader{
			Partition: p, MinISR: st.minISR, MetadataOffset: st.offset(d), Now: st.now,
			LogEndOffset: num(t, d, "leo", s.LogEndOffset), HighWatermark: num(t, d, "hw", 0),
		}
	case "follow":
		return partition.BecomeFollower{Partition: st.partition(d), InControlledShutdown: d.HasArg("shutdown")}
	case "metadata":
		st.minISR = int(num(t, d, "minISR", int64(st.minISR)))
		return partition.MetadataChanged{MinISR: st.minISR, MetadataOffset: st.offset(d), Now: st.now}
	case "delete":
		return partition.Deleted{}
	case "timer":
		return partition.CheckLag{Now: st.now}
	case "append":
		return partition.LocalAppend{LogEndOffset: num(t, d, "leo", 0), Now: st.now}
	case "fetch":
		from := image.BrokerID(num(t, d, "from", 0))
		return partition.FollowerFetched{
			Follower: from, FetchOffset: num(t, d, "offset", 0), LogStartOffset: num(t, d, "start", 0), At: st.now,
			LeaderEpoch:        image.LeaderEpoch(num(t, d, "le", int64(s.LeaderEpoch))),
			BrokerEpoch:        image.BrokerEpoch(num(t, d, "epoch", int64(st.brokers[from].Epoch))),
			LeaderLogEndOffset: num(t, d, "leo", s.LogEndOffset),
		}
	case "answer":
		return st.answer(d)
	}
	d.Fatalf(t, "unknown verb %s", d.Cmd)
	return nil
}

// offset is that of the metadata that is told or that an answer rests on.
func (st *stage) offset(d *datadriven.TestData) image.MetadataOffset {
	return image.MetadataOffset(num(st.t, d, "offset", int64(st.state.MetadataOffset)))
}

func (st *stage) partition(d *datadriven.TestData) image.Partition {
	return image.Partition{
		Leader: image.BrokerID(num(st.t, d, "leader", int64(image.NoBroker))), Replicas: ids(st.t, d, "replicas"), ISR: ids(st.t, d, "isr"),
		AddingReplicas: ids(st.t, d, "adding"), RemovingReplicas: ids(st.t, d, "removing"),
		LeaderEpoch: image.LeaderEpoch(num(st.t, d, "le", 0)), PartitionEpoch: image.PartitionEpoch(num(st.t, d, "pe", 0)),
	}
}

func (st *stage) answer(d *datadriven.TestData) partition.Event {
	a := partition.AlterPartitionAnswered{
		Proposal:       st.proposals[num(st.t, d, "of", int64(len(st.proposals)))-1],
		LeaderEpoch:    image.LeaderEpoch(num(st.t, d, "le", int64(st.state.LeaderEpoch))),
		PartitionEpoch: image.PartitionEpoch(num(st.t, d, "pe", 0)), ISR: ids(st.t, d, "isr"), Now: st.now,
		MinISR: int(num(st.t, d, "minISR", 0)), MetadataOffset: st.offset(d),
	}
	if d.HasArg("code") {
		var name string
		d.ScanArgs(st.t, "code", &name)
		c, ok := controllerpb.ErrorCode_value["ERROR_CODE_"+name]
		if a.Code = controllerpb.ErrorCode(c); !ok {
			a.Code = -1 // a code that is not in the table, such as UNKNOWN_SERVER_ERROR
		}
	}
	return a
}

// step prints the effects and the new state. It fails the test if the old state was touched.
func (st *stage) step(e partition.Event) string {
	old, before := st.state, st.state.String()
	next, fx := st.state.Step(st.facts, e)
	if after := old.String(); after != before {
		st.t.Errorf("the step changed the old state:\nwas %s\nis  %s", before, after)
	}
	st.state = next
	if fx.Submit != nil && fx.Answer != partition.Repeated {
		st.proposals = append(st.proposals, fx.Submit)
	}
	var b strings.Builder
	for line := range strings.Lines(fx.String()) {
		b.WriteString("- " + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String() + next.String() + "\n"
}

func code(c controllerpb.ErrorCode) string { return c.KafkaName() }

func num(t *testing.T, d *datadriven.TestData, key string, otherwise int64) int64 {
	if !d.HasArg(key) {
		return otherwise
	}
	var s string
	d.ScanArgs(t, key, &s)
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		d.Fatalf(t, "%s: %v", key, err)
	}
	return n
}

func ids(t *testing.T, d *datadriven.TestData, key string) []image.BrokerID {
	var out []image.BrokerID
	for _, a := range d.CmdArgs {
		if a.Key != key {
			continue
		}
		for _, v := range a.Vals {
			n, err := strconv.Atoi(v)
			if err != nil {
				d.Fatalf(t, "%s: %v", key, err)
			}
			out = append(out, image.BrokerID(n))
		}
	}
	return out
}
