package partition

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// String returns the role's name.
func (r Role) String() string { return [...]string{"None", "Follower", "Leader"}[r] }

// String returns the kind's name.
func (k Kind) String() string { return [...]string{"", "Expand", "Shrink"}[k] }

// String returns the judgement's name.
func (a Agreement) String() string { return [...]string{"Agreed", "Diverging", "OutOfRange"}[a] }

// String returns the outcome's name.
func (o Outcome) String() string {
	return [...]string{"NoAnswer", "Expanded", "Shrunk", "Reverted", "Waiting", "Repeated", "Ignored"}[o]
}

// String returns the order's name.
func (o FetchOrder) String() string { return [...]string{"keep", "restart", "stop"}[o] }

// String returns one canonical line. Times are milliseconds since the Unix epoch.
func (s State) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v leader=%s le=%d pe=%d replicas=%s", s.Role, leaderString(s.Leader), s.LeaderEpoch, s.PartitionEpoch,
		image.FormatReplicas(s.Replicas))
	if len(s.AddingReplicas)+len(s.RemovingReplicas) > 0 {
		fmt.Fprintf(&b, " adding=%s removing=%s", image.FormatReplicas(s.AddingReplicas), image.FormatReplicas(s.RemovingReplicas))
	}
	if s.Role != RoleLeader {
		return b.String()
	}
	fmt.Fprintf(&b, " minISR=%d", s.MinISR)
	if a := s.Answered; a != (AnsweredMinISR{}) {
		fmt.Fprintf(&b, "(%d until %d)", a.MinISR, a.MetadataOffset)
	}
	fmt.Fprintf(&b, " start=%d leo=%d hw=%d %v", s.EpochStartOffset, s.LogEndOffset, s.HighWatermark, s.ISR)
	for _, r := range s.Followers {
		fmt.Fprintf(&b, " %v", r)
	}
	return b.String()
}

func leaderString(id image.BrokerID) string {
	if id == image.NoBroker {
		return "none"
	}
	return id.String()
}

// String returns one canonical line.
func (i ISR) String() string {
	name := "Committed"
	if p := i.Pending; p != nil {
		name = fmt.Sprintf("Pending%v#%d %s", p.Kind, p.Number, image.FormatReplicas(p.Changed))
	}
	return fmt.Sprintf("%s isr=%s maximalISR=%s", name, image.FormatReplicas(i.Committed), image.FormatReplicas(i.Maximal))
}

// String returns the proposal as one canonical line. Members carry their broker epochs.
func (p *Proposal) String() string {
	members := make([]string, len(p.ISR))
	for i, m := range p.ISR {
		members[i] = m.String()
	}
	return fmt.Sprintf("%v#%d le=%d pe=%d isr=[%s] changed=%s", p.Kind, p.Number, p.LeaderEpoch, p.PartitionEpoch,
		strings.Join(members, ","), image.FormatReplicas(p.Changed))
}

// String returns the id and the broker epoch, joined by an @; the id alone if no epoch is known.
func (m Member) String() string {
	if m.Epoch == image.NoBrokerEpoch {
		return m.ID.String()
	}
	return m.ID.String() + "@" + strconv.FormatInt(int64(m.Epoch), 10)
}

// String returns one canonical word: the broker, its log end offset, when it was caught up, its last fetch.
func (r Follower) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v{leo=%d caughtUp=%s", r.ID, r.LogEndOffset, timeString(r.LastCaughtUp))
	if r.LogStartOffset > 0 {
		fmt.Fprintf(&b, " start=%d", r.LogStartOffset)
	}
	if !r.LastFetch.At.IsZero() {
		fmt.Fprintf(&b, " fetch=%d@%s epoch=%d", r.LastFetch.LeaderLogEndOffset, timeString(r.LastFetch.At), r.LastFetch.BrokerEpoch)
	}
	if r.refused != nil {
		b.WriteString(" refused")
	}
	return b.String() + "}"
}

func timeString(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

// String returns a line an effect, in the order of the fields; empty if there is none.
func (fx Effects) String() string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if fx.Skipped {
		add("skipped")
	}
	if fx.Refused != controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED {
		add("refused %s", fx.Refused.KafkaName())
	}
	if fx.StartEpoch != nil {
		add("start epoch %d at %d", fx.StartEpoch.Epoch, fx.StartEpoch.Offset)
	}
	if fx.NewLeader {
		add("new leader")
	}
	if fx.NewLeaderEpoch {
		add("new leader epoch")
	}
	if fx.Fetch != FetchKeep {
		add("fetch %v", fx.Fetch)
	}
	if fx.HighWatermarkMoved {
		add("high watermark moved")
	}
	if fx.CompleteWaiters {
		add("complete waiters")
	}
	if fx.Answer != NoAnswer {
		add("answer %v", fx.Answer)
	}
	if fx.Submit != nil {
		add("submit %v", fx.Submit)
	}
	return strings.Join(lines, "\n")
}
