package fsm

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// author writes a log the way an active controller does, and remembers what it stands on.
type author struct {
	t     testing.TB
	index uint64
	term  uint64
	state State
	logs  []*raft.Log
}

func newAuthor(t testing.TB) *author { return &author{t: t, term: 1, state: InitialState()} }

// append puts data into the log under the current term.
func (a *author) append(data []byte) *raft.Log {
	a.index++
	l := &raft.Log{Index: a.index, Term: a.term, Type: raft.LogCommand, Data: data}
	a.logs = append(a.logs, l)
	return l
}

// noop puts an entry of Raft's own into the log.
func (a *author) noop() {
	a.index++
	a.logs = append(a.logs, &raft.Log{Index: a.index, Term: a.term, Type: raft.LogNoop})
}

func (a *author) claim() *raft.Log {
	timeMs := int64(a.index) * 10
	data, err := record.EncodeClaim(&metadatapb.Claim{NodeId: 1, TimeMs: timeMs})
	if err != nil {
		a.t.Fatal(err)
	}
	l := a.append(data)
	a.state = a.state.AfterClaim(l.Index, l.Term, timeMs)
	return l
}

func encodeEntry(t testing.TB, h record.EntryHeader, records ...*metadatapb.Record) []byte {
	var decisions [][]byte
	for _, r := range records {
		b, err := record.EncodeDecision(&metadatapb.Decision{Records: []*metadatapb.Record{r}})
		if err != nil {
			t.Fatal(err)
		}
		decisions = append(decisions, b)
	}
	data, _ := record.EncodeEntry(h, decisions)
	return data
}

func (a *author) header() record.EntryHeader {
	return record.EntryHeader{ClaimIndex: a.state.ClaimIndex, Term: a.state.ClaimTerm, Sequence: a.state.ExpectedSequence,
		BaseOffset: a.state.Offset + 1, Chain: a.state.Chain, TimeMs: a.state.TimeMs + 1}
}

// entry appends an entry that is to be applied.
func (a *author) entry(records ...*metadatapb.Record) *raft.Log {
	l := a.append(encodeEntry(a.t, a.header(), records...))
	c, err := record.DecodeCommand(l.Data)
	if err != nil {
		a.t.Fatal(err)
	}
	a.state = a.state.AfterEntry(l.Index, c.Entry)
	return l
}

// GetLog makes the author a log store.
func (a *author) GetLog(index uint64, l *raft.Log) error {
	if index == 0 || index > uint64(len(a.logs)) || a.logs[index-1] == nil {
		return raft.ErrLogNotFound
	}
	*l = *a.logs[index-1]
	return nil
}

func topicID(n int) []byte {
	var id [16]byte
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id[:]
}

func topicRecord(n int, name string) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: name, TopicId: topicID(n)}}}
}

func partitionRecord(topic, n int, replicas ...int32) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_Partition{Partition: &metadatapb.Partition{
		TopicId: topicID(topic), Partition: int32(n), Replicas: replicas, Isr: replicas, Leader: &replicas[0]}}}
}

func shrinkRecord(topic, n int, isr ...int32) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_PartitionChange{PartitionChange: &metadatapb.PartitionChange{
		TopicId: topicID(topic), Partition: int32(n), Isr: &metadatapb.BrokerIds{Ids: isr}}}}
}

func removeRecord(topic int) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_RemoveTopic{RemoveTopic: &metadatapb.RemoveTopic{TopicId: topicID(topic)}}}
}

// newFSM returns an FSM that compares every offer with a replay; a halt fails the test unless halts is given.
func newFSM(t testing.TB, halts *[]error, change ...func(*Config)) *FSM {
	cfg := DefaultConfig()
	cfg.ClusterID, cfg.VerifyEvery = "c", 1
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.OnHalt = func(err error) {
		if halts == nil {
			t.Errorf("halted: %v", err)
			return
		}
		*halts = append(*halts, err)
	}
	for _, f := range change {
		f(&cfg)
	}
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func dump(t testing.TB, im *image.Image) string {
	var b bytes.Buffer
	if err := im.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// applyAll applies the commands of a log, as Raft would hand them over, in batches of the given size.
func applyAll(f *FSM, logs []*raft.Log, batch int) (out []any) {
	var commands []*raft.Log
	for _, l := range logs {
		if l.Type == raft.LogCommand {
			commands = append(commands, l)
		}
	}
	for len(commands) > 0 {
		n := min(batch, len(commands))
		out = append(out, f.ApplyBatch(commands[:n])...)
		commands = commands[n:]
	}
	return out
}
