package history

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// words tells the cause of an event as a person would. fenced are the brokers that the same decision fences, leaving the
// replicas that a move takes away, as they are known after the event.
func words(e *controllerpb.PartitionEvent, fenced, leaving []int32) string {
	s := sentence{e, fenced, leaving}
	text := s.text()
	if id := e.GetCause().GetRequestId(); id != "" {
		text += " (request " + id + ")"
	}
	return text
}

type sentence struct {
	e       *controllerpb.PartitionEvent
	fenced  []int32
	leaving []int32
}

func (s sentence) text() string {
	switch s.e.GetKind() {
	case controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_CREATED:
		if s.e.GetCause().GetName() == "CreatePartitions" {
			return s.operator() + " added the partition"
		}
		return s.operator() + " created the topic"
	case controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_REMOVED:
		return s.operator() + " deleted the topic"
	case controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_REPLICA_DELETED:
		return fmt.Sprintf("broker %d removed its data", s.new("broker").GetNumber())
	case controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_REPLICA_DELETION_FAILED:
		return fmt.Sprintf("broker %d could not remove its data", s.new("broker").GetNumber())
	}
	if text, ok := s.registration(); ok {
		return text
	}
	return s.change() + s.loss()
}

// loss warns of a change that nobody asked to be unclean and that made an unclean leader all the same: the last known one after
// a crash of its machine, or the first that lives where the topic allows it.
func (s sentence) loss() string {
	to := s.new("leaderRecoveryState")
	if s.e.GetReason() == metadatapb.ChangeReason_CHANGE_REASON_UNCLEAN_ELECTION || to == nil || to.GetText() == recovered {
		return ""
	}
	known := s.old("lastKnownElr").GetIds().GetIds()
	if len(known) == 1 && int64(known[0]) == s.new("leader").GetNumber() {
		return "; the last known leader leads: what a crash of its machine took from its log is lost"
	}
	return "; nobody in ISR and ELR could lead, the election was unclean: records may be lost"
}

// registration is the cause of a replica's new state that comes from the registration of its broker alone.
func (s sentence) registration() (string, bool) {
	if s.e.GetKind() != controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_REPLICA_STATE || s.e.GetReason() != metadatapb.ChangeReason_CHANGE_REASON_UNSPECIFIED {
		return "", false
	}
	switch s.e.GetCause().GetName() {
	case "RegisterBroker":
		return s.about(" registered"), true
	case "UnregisterBroker":
		return s.operator() + " unregistered " + s.about(""), true
	case "ReportDeletions":
		return s.about(" removed its data of other partitions of the topic"), true
	}
	return "", false
}

// change is the cause of a PartitionChange: its reason says what happened, the cause who asked.
func (s sentence) change() string {
	switch s.e.GetReason() {
	case metadatapb.ChangeReason_CHANGE_REASON_LAG:
		return s.leader() + " shrank the ISR" + s.brokers(": ", s.left("isr"), " fell behind")
	case metadatapb.ChangeReason_CHANGE_REASON_CAUGHT_UP:
		return s.leader() + " expanded the ISR" + s.brokers(": ", s.joined("isr"), " caught up")
	case metadatapb.ChangeReason_CHANGE_REASON_RECOVERED:
		return s.leader() + " has recovered from an unclean election"
	case metadatapb.ChangeReason_CHANGE_REASON_SESSION:
		return s.session()
	case metadatapb.ChangeReason_CHANGE_REASON_WANT_FENCE:
		return s.about(" asked to be fenced")
	case metadatapb.ChangeReason_CHANGE_REASON_CONTROLLED_SHUTDOWN:
		return s.about(" shuts down in order")
	case metadatapb.ChangeReason_CHANGE_REASON_UNFENCE:
		return s.about(" came back and serves")
	case metadatapb.ChangeReason_CHANGE_REASON_NEW_INCARNATION:
		return s.about(" was started anew")
	case metadatapb.ChangeReason_CHANGE_REASON_LOST_LOG:
		return s.about(" lost its log, or the unsynced end of it")
	case metadatapb.ChangeReason_CHANGE_REASON_UNREGISTER:
		return s.operator() + " unregistered " + s.about("")
	case metadatapb.ChangeReason_CHANGE_REASON_ELECTION:
		return "the active controller held an election"
	case metadatapb.ChangeReason_CHANGE_REASON_PREFERRED_ELECTION:
		if s.isBackground() {
			return "leadership went back to the preferred replica by itself"
		}
		return s.operator() + " asked for the preferred leader"
	case metadatapb.ChangeReason_CHANGE_REASON_UNCLEAN_ELECTION:
		if s.isBackground() {
			return "an unclean election, which the topic allows; records may be lost"
		}
		return s.operator() + " asked for an unclean election; records may be lost"
	case metadatapb.ChangeReason_CHANGE_REASON_REASSIGNMENT_STARTED:
		return s.operator() + " moved the replicas" + s.target()
	case metadatapb.ChangeReason_CHANGE_REASON_REASSIGNMENT_CANCELLED:
		return s.operator() + " cancelled the move"
	case metadatapb.ChangeReason_CHANGE_REASON_REASSIGNMENT_COMPLETED:
		return s.completed()
	case metadatapb.ChangeReason_CHANGE_REASON_CONFIG:
		return s.config()
	}
	return s.plain()
}

// session tells whose session ended.
func (s sentence) session() string {
	text := s.about("'s session ended")
	if who, many := strings.CutPrefix(text, "brokers "); many {
		return "the sessions of brokers " + strings.TrimSuffix(who, "'s session ended") + " ended"
	}
	return text
}

// completed tells what let a reassignment end.
func (s sentence) completed() string {
	if s.e.GetCause().GetName() == "AlterPartition" {
		return s.leader() + " has the new replicas in sync: the move is complete"
	}
	if s.e.GetCause().GetName() == "AlterPartitionReassignments" {
		return s.operator() + " moved the replicas" + s.target() + ": all of them are in sync, the move is complete"
	}
	return "the move is complete (" + s.plain() + ")"
}

// config tells whose config it was.
func (s sentence) config() string {
	if s.e.GetCause().GetName() == "ApplyConfigs" || s.e.GetCause().GetName() == "AlterConfigs" {
		return s.operator() + " changed a config that counts for the partition"
	}
	return "a config that counts for the partition has another value (" + s.plain() + ")"
}

// plain is the API or event, for causes that have no words of their own.
func (s sentence) plain() string {
	c := s.e.GetCause()
	text := c.GetName()
	if text == "" {
		text = "no cause is known"
	}
	if c.BrokerId != nil {
		text += " broker " + strconv.Itoa(int(c.GetBrokerId()))
	}
	return text
}

// operator is who asked.
func (s sentence) operator() string {
	if p := s.e.GetCause().GetPrincipal(); p != "" {
		return "operator " + p
	}
	return "the controller"
}

// leader is the broker that asked, which only a leader may.
func (s sentence) leader() string {
	if c := s.e.GetCause(); c.BrokerId != nil {
		return "leader " + strconv.Itoa(int(c.GetBrokerId()))
	}
	return "the leader"
}

// isBackground tells whether the controller held the election without being asked.
func (s sentence) isBackground() bool {
	switch s.e.GetCause().GetName() {
	case "BalanceLeaders", "ElectUnclean", "ApplyConfigs", "AlterConfigs":
		return true
	}
	return false
}

// about names the broker that an event is about: the cause's, else those that left the partition.
func (s sentence) about(what string) string {
	if c := s.e.GetCause(); c.BrokerId != nil {
		return "broker " + strconv.Itoa(int(c.GetBrokerId())) + what
	}
	if s.e.GetKind() == controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_REPLICA_STATE && len(s.e.GetReplicaStates()) == 1 {
		return "broker " + strconv.Itoa(int(s.e.GetReplicaStates()[0].GetBrokerId())) + what
	}
	gone := s.left("isr")
	for _, f := range []string{"elr", "lastKnownElr"} {
		if len(gone) == 0 {
			gone = s.left(f)
		}
	}
	if old := s.old("leader"); len(gone) == 0 && old != nil && old.GetNumber() >= 0 {
		gone = []int32{int32(old.GetNumber())}
	}
	if len(gone) == 0 && len(s.fenced) == 1 {
		gone = s.fenced
	}
	if len(gone) == 0 {
		return "a broker" + what
	}
	return s.brokers("", gone, what)
}

func (s sentence) brokers(before string, ids []int32, what string) string {
	switch len(ids) {
	case 0:
		return ""
	case 1:
		return before + "broker " + strconv.Itoa(int(ids[0])) + what
	}
	var names []string
	for _, id := range ids {
		names = append(names, strconv.Itoa(int(id)))
	}
	return before + "brokers " + strings.Join(names, ", ") + what
}

// target tells where a move goes: the replicas without those that leave.
func (s sentence) target() string {
	replicas := s.new("replicas")
	if replicas == nil {
		return ""
	}
	var to []string
	for _, id := range replicas.GetIds().GetIds() {
		if !slices.Contains(s.leaving, id) {
			to = append(to, strconv.Itoa(int(id)))
		}
	}
	return " to [" + strings.Join(to, ",") + "]"
}

func (s sentence) find(field string) *controllerpb.FieldChange {
	for _, c := range s.e.GetChanges() {
		if c.GetField() == field {
			return c
		}
	}
	return nil
}

func (s sentence) old(field string) *controllerpb.HistoryValue { return s.find(field).GetOld() }
func (s sentence) new(field string) *controllerpb.HistoryValue { return s.find(field).GetNew() }

// left are the brokers that a change took out of a list, joined those that it brought in; none if the old list is not known.
func (s sentence) left(field string) []int32   { return missing(s.old(field), s.new(field)) }
func (s sentence) joined(field string) []int32 { return missing(s.new(field), s.old(field)) }

func missing(from, in *controllerpb.HistoryValue) []int32 {
	if from == nil || in == nil {
		return nil
	}
	var out []int32
	for _, id := range from.GetIds().GetIds() {
		if !slices.Contains(in.GetIds().GetIds(), id) {
			out = append(out, id)
		}
	}
	return out
}
