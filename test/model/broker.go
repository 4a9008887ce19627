package model

import (
	"strconv"
	"strings"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/test/lines"
)

// broker is one broker without its place in the metadata. It is shared by worlds and changed only on a copy.
type broker struct {
	id image.BrokerID
	// life counts processes. epoch is that of the registration, NoBrokerEpoch before it; the broker begins to work when its
	// metadata has reached registered.
	life       int8
	epoch      image.BrokerEpoch
	registered image.MetadataOffset
	begun      bool
	// stop is how the life before ended, previous its epoch if a clean stop left a note of it.
	stop     metadatapb.StopKind
	previous image.BrokerEpoch
	// stopping tells that the broker was told to stop and hands over.
	stopping bool
	// directory counts the data directories that it has had.
	directory int8
	// short tells that a log has become shorter and no registration has said so yet; wiped that all logs are gone.
	short, wiped bool
	parts        []replica
	hash         uint64
}

// replica is one partition on one broker.
type replica struct {
	partition.State
	log plog
	// source is the leader that is fetched from, NoBroker if the fetcher stands still, and sourceEpoch its leader epoch.
	source      image.BrokerID
	sourceEpoch image.LeaderEpoch
	// sent is the proposal that the AlterPartition manager holds, nil if it holds none.
	sent *partition.Proposal
	// attempt counts the sendings of it while one before was under way. The manager waits for the answer to the last one only.
	attempt int8
	// ledSince is the leader epoch with which this replica became leader.
	ledSince image.LeaderEpoch
	// waiting are the producers that wait for all replicas.
	waiting []wait
	// refusing tells that a follower may bear the mark of a refusal, which only its printed form shows; refused holds, by
	// broker, the registration that was refused last.
	refusing bool
	refused  [3]refusal
}

// refusal is what a leader looks at before it asks for a refused follower again.
type refusal struct {
	epoch            image.BrokerEpoch
	fenced, stopping bool
	sinceMs          int64
}

// wait is a producer that was not answered yet.
type wait struct {
	entry
	// required is the watermark that it waits for.
	required int64
}

func newReplica() replica {
	return replica{State: partition.New(), source: image.NoBroker, sourceEpoch: partition.NoLeaderEpoch, ledSince: partition.NoLeaderEpoch}
}

func (r *replica) leads() bool { return r.Role == partition.RoleLeader }

// settleTimes keeps of every time only whether it is known, so that states that differ in nothing else are one.
func (r *replica) settleTimes() {
	for i := range r.Followers {
		f := &r.Followers[i]
		if !f.LastCaughtUp.IsZero() {
			f.LastCaughtUp = begin
		}
		if !f.LastFetch.At.IsZero() {
			f.LastFetch.At = begin
		}
	}
}

func (b *broker) appendTo(out []byte) []byte {
	out = append(out, "broker "...)
	out = strconv.AppendInt(out, int64(b.id), 10)
	out = append(out, " life="...)
	out = strconv.AppendInt(out, int64(b.life), 10)
	out = appendInt(out, " directory=", int64(b.directory))
	out = append(out, " epoch="...)
	out = strconv.AppendInt(out, int64(b.epoch), 10)
	if !b.begun {
		out = append(out, " starting after "...)
		out = append(out, lines.Stop(b.stop)...)
		out = appendInt(out, " of ", int64(b.previous))
	}
	if b.stopping {
		out = append(out, " stopping"...)
	}
	if b.short {
		out = append(out, " short"...)
	}
	if b.wiped {
		out = append(out, " wiped"...)
	}
	out = append(out, '\n')
	for i := range b.parts {
		out = b.parts[i].appendTo(out)
	}
	return out
}

// appendTo writes the canonical form, with the words of [partition.State].
func (r *replica) appendTo(b []byte) []byte {
	b = append(b, "  "...)
	b = append(b, r.Role.String()...)
	b = appendInt(b, " leader=", int64(r.Leader))
	b = appendInt(b, " le=", int64(r.LeaderEpoch))
	b = appendInt(b, " pe=", int64(r.PartitionEpoch))
	b = append(b, " replicas="...)
	b = record.AppendIDs(b, r.Replicas)
	b = record.AppendIDs(b, r.AddingReplicas)
	b = record.AppendIDs(b, r.RemovingReplicas)
	b = append(b, ' ')
	b = r.log.appendTo(b)
	if r.source != image.NoBroker {
		b = appendInt(b, " fetching=", int64(r.source))
		b = appendInt(b, "@", int64(r.sourceEpoch))
	}
	if r.sent != nil {
		b = append(b, " sent="...)
		b = appendProposal(b, r.sent)
		b = appendInt(b, " attempt=", int64(r.attempt))
	}
	for _, w := range r.waiting {
		b = append(b, " wait="...)
		b = appendEntries(b, []entry{w.entry})
		b = appendInt(b, "<", w.required)
	}
	if r.leads() {
		b = r.appendLeader(b)
	}
	return append(b, '\n')
}

func (r *replica) appendLeader(b []byte) []byte {
	b = appendInt(b, " start=", r.EpochStartOffset)
	b = appendInt(b, " hw=", r.HighWatermark)
	b = appendInt(b, " since=", int64(r.ledSince))
	b = append(b, " isr="...)
	b = record.AppendIDs(b, r.ISR.Committed)
	b = append(b, " maximalISR="...)
	b = record.AppendIDs(b, r.ISR.Maximal)
	b = appendInt(b, " minISR=", int64(r.MinISR))
	if a := r.Answered; a.MinISR > 0 {
		b = appendInt(b, ",", int64(a.MinISR))
		b = appendInt(b, "@", int64(a.MetadataOffset))
	}
	if r.ISR.Pending != nil {
		b = append(b, " pending="...)
		b = appendProposal(b, r.ISR.Pending)
	}
	for i := range r.Followers {
		f := &r.Followers[i]
		b = appendInt(b, " ", int64(f.ID))
		b = appendInt(b, "{leo=", f.LogEndOffset)
		b = appendInt(b, " fetch=", f.LastFetch.LeaderLogEndOffset)
		b = appendInt(b, " epoch=", int64(f.LastFetch.BrokerEpoch))
		if !f.LastCaughtUp.IsZero() {
			b = append(b, " caught-up"...)
		}
		if r.refusing && isRefused(f) {
			x := r.refused[f.ID-1]
			b = appendInt(b, " refused=", int64(x.epoch))
			b = strconv.AppendBool(append(b, ','), x.fenced)
			b = strconv.AppendBool(append(b, ','), x.stopping)
			b = appendInt(b, ",", x.sinceMs)
		}
		b = append(b, '}')
	}
	return b
}

// isRefused tells whether the follower bears the mark of a refusal.
func isRefused(f *partition.Follower) bool { return strings.HasSuffix(f.String(), "refused}") }

// appendProposal writes the line of [partition.Proposal], which is wanted too often to be made by fmt.
func appendProposal(b []byte, p *partition.Proposal) []byte {
	b = append(b, p.Kind.String()...)
	b = strconv.AppendUint(append(b, '#'), p.Number, 10)
	b = appendInt(b, " le=", int64(p.LeaderEpoch))
	b = appendInt(b, " pe=", int64(p.PartitionEpoch))
	b = append(b, " isr="...)
	for i, m := range p.ISR {
		b = append(b, "[,"[min(i, 1)])
		b = strconv.AppendInt(b, int64(m.ID), 10)
		if m.Epoch != image.NoBrokerEpoch {
			b = appendInt(b, "@", int64(m.Epoch))
		}
	}
	b = append(b, "] changed="...)
	return record.AppendIDs(b, p.Changed)
}

func appendInt(b []byte, name string, v int64) []byte {
	return strconv.AppendInt(append(b, name...), v, 10)
}

// fingerprint is FNV-1a with a last mix, so that nearby texts lie far apart.
func fingerprint(text []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range text {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return mix(h)
}

func mix(h uint64) uint64 {
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	return h ^ h>>31
}

// message is an AlterPartition request under way, or its answer.
type message struct {
	from        image.BrokerID
	life        int8
	senderEpoch image.BrokerEpoch
	part        int
	proposal    *partition.Proposal
	attempt     int8
	// rivalled: when this was sent, a copy sent before had not reached the controller.
	rivalled bool
	// answered is nil in a request.
	answered *partition.AlterPartitionAnswered
	// whole is the code of a request that was refused as a whole.
	whole controllerpb.ErrorCode
	text  string
	hash  uint64
}

func (m *message) String() string { return m.text }

// isCopyOf tells whether both are sendings of one proposal, or answers to them.
func (m *message) isCopyOf(other *message) bool {
	return m.from == other.from && m.life == other.life && m.part == other.part && m.proposal.Equal(other.proposal)
}

func (m *message) describe() string {
	b := appendInt(nil, "", int64(m.from))
	b = appendInt(b, "/", int64(m.life))
	if m.answered == nil && m.whole == 0 {
		b = append(b, "->controller AlterPartition"...)
	} else {
		b = append(b, "<-controller AlterPartition"...)
	}
	b = appendInt(b, " t-", int64(m.part))
	b = appendInt(b, " epoch=", int64(m.senderEpoch))
	b = append(b, ' ')
	b = appendProposal(b, m.proposal)
	if m.attempt > 0 {
		b = appendInt(b, " attempt=", int64(m.attempt))
	}
	if m.rivalled {
		b = append(b, " rivalled"...)
	}
	switch {
	case m.whole != 0:
		b = append(b, ": "+m.whole.KafkaName()...)
	case m.answered != nil:
		b = append(b, ": "+m.answered.Code.KafkaName()...)
		b = appendInt(b, " le=", int64(m.answered.LeaderEpoch))
		b = appendInt(b, " pe=", int64(m.answered.PartitionEpoch))
		b = append(b, " isr="...)
		b = record.AppendIDs(b, m.answered.ISR)
		if m.answered.MinISR > 0 {
			b = appendInt(b, " minISR=", int64(m.answered.MinISR))
			b = appendInt(b, "@", int64(m.answered.MetadataOffset))
		}
	}
	return string(b)
}

// lateFetch is a fetch that was sent and has not arrived, or whose answer has not.
type lateFetch struct {
	from, to  image.BrokerID
	life      int8
	part      int
	epoch     image.LeaderEpoch
	broker    image.BrokerEpoch
	offset    int64
	lastEpoch image.LeaderEpoch
	// answer is what the leader has answered, nil if the fetch has not reached it.
	answer *fetched
}

func (f *lateFetch) appendTo(b []byte) []byte {
	b = appendInt(b, "late fetch from=", int64(f.from))
	b = appendInt(b, " to=", int64(f.to))
	b = appendInt(b, " t-", int64(f.part))
	b = appendInt(b, " le=", int64(f.epoch))
	b = appendInt(b, " epoch=", int64(f.broker))
	b = appendInt(b, " offset=", f.offset)
	b = appendInt(b, " last=", int64(f.lastEpoch))
	if a := f.answer; a != nil {
		b = append(b, ": "+a.code.KafkaName()...)
		if a.diverging != nil {
			b = appendInt(b, " diverging=", int64(a.diverging.Epoch))
			b = appendInt(b, "@", a.diverging.EndOffset)
		}
		b = append(b, " records="...)
		b = appendEntries(b, a.records)
		b = appendInt(b, " hw=", a.high)
		b = appendInt(b, " leo=", a.end)
	}
	return appendInt(b, " life=", int64(f.life))
}
