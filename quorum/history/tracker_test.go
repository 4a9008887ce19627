package history

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

func decisionsOf(t *testing.T, e *fsm.Entry) *metadatapb.Decision {
	t.Helper()
	entry, err := record.DecodeEntry(e.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return entry.GetDecisions()[0]
}

func eventLine(e *controllerpb.PartitionEvent) string {
	line := fmt.Sprintf("%d %s", e.GetMetadataOffset(), strings.ToLower(strings.TrimPrefix(e.GetKind().String(), "PARTITION_EVENT_KIND_")))
	for _, c := range e.GetChanges() {
		line += fmt.Sprintf(" %s=%s->%s", c.GetField(), valueLine(c.GetOld()), valueLine(c.GetNew()))
	}
	if len(e.GetStates()) > 0 {
		line += " " + strings.Join(e.GetStates(), "->")
	}
	for _, r := range e.GetReplicaStates() {
		line += fmt.Sprintf(" %d:%s", r.GetBrokerId(), strings.Join(r.GetStates(), "->"))
		if r.GetReason() != "" {
			line += "(" + r.GetReason() + ")"
		}
	}
	return line + " <- " + e.GetText()
}

func valueLine(v *controllerpb.HistoryValue) string {
	switch k := v.GetKind().(type) {
	case *controllerpb.HistoryValue_Number:
		return strconv.Itoa(int(k.Number))
	case *controllerpb.HistoryValue_Ids:
		return image.FormatReplicas(image.BrokerIDs(k.Ids.GetIds()))
	case *controllerpb.HistoryValue_Text:
		return k.Text
	}
	return "?"
}

// follow lets a tracker go over entries.
func follow(t *testing.T, tracker *Tracker, entries ...*fsm.Entry) string {
	t.Helper()
	var out []string
	for _, e := range entries {
		if err := tracker.Entry(e, func(e *controllerpb.PartitionEvent) error {
			out = append(out, eventLine(e))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Join(out, "\n")
}

func idList(ids ...int32) *metadatapb.BrokerIds { return &metadatapb.BrokerIds{Ids: ids} }

func elected(id int32) *metadatapb.LeaderChange { return &metadatapb.LeaderChange{Leader: &id} }

func changed(c *metadatapb.PartitionChange) *metadatapb.Record {
	c.TopicId = topicID(1).Bytes()
	return &metadatapb.Record{Kind: &metadatapb.Record_PartitionChange{PartitionChange: c}}
}

func caused(name string, broker int32, records ...*metadatapb.Record) *metadatapb.Decision {
	c := &metadatapb.Cause{Name: name, Principal: "alice"}
	if broker > 0 {
		c.BrokerId = &broker
		c.Principal = ""
	}
	return &metadatapb.Decision{Cause: c, Records: records}
}

// lifeOfAPartition creates partition 0 with replicas 1, 2, 3, and lets all happen to it.
func lifeOfAPartition(t *testing.T) *chainOf {
	t.Helper()
	c := newChain(t, 0)
	partition := func(i int32) *metadatapb.Record {
		return &metadatapb.Record{Kind: &metadatapb.Record_Partition{Partition: &metadatapb.Partition{
			TopicId: topicID(1).Bytes(), Partition: i, Replicas: []int32{1, 2, 3}, Isr: []int32{1, 2, 3}, Leader: proto.Int32(1),
			LeaderRecoveryState: metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED,
		}}}
	}
	fence := func(id int32) *metadatapb.Record {
		return &metadatapb.Record{Kind: &metadatapb.Record_BrokerRegistrationChange{BrokerRegistrationChange: &metadatapb.BrokerRegistrationChange{
			BrokerId: id, BrokerEpoch: int64(id) - 1, Fenced: proto.Bool(true), Reason: metadatapb.ChangeReason_CHANGE_REASON_SESSION,
		}}}
	}
	unfence := func(id int32) *metadatapb.Record {
		r := fence(id)
		c := r.GetBrokerRegistrationChange()
		c.Fenced, c.Reason = proto.Bool(false), metadatapb.ChangeReason_CHANGE_REASON_UNFENCE
		return r
	}
	stop := func(id int32) *metadatapb.Record {
		r := fence(id)
		c := r.GetBrokerRegistrationChange()
		c.Fenced, c.InControlledShutdown, c.Reason = nil, proto.Bool(true), metadatapb.ChangeReason_CHANGE_REASON_CONTROLLED_SHUTDOWN
		return r
	}
	register := caused("RegisterBroker", 0)
	for id := range int32(5) {
		register.Records = append(register.Records, &metadatapb.Record{Kind: &metadatapb.Record_RegisterBroker{RegisterBroker: &metadatapb.RegisterBroker{
			BrokerId: id + 1, BrokerEpoch: int64(id), IncarnationId: image.UUID{1, byte(id)}.Bytes(), DirectoryId: image.UUID{2, byte(id)}.Bytes(),
		}}})
	}
	recovering := metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERING
	stateRecovered := metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED
	create := caused("CreateTopics", 0, &metadatapb.Record{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: "a", TopicId: topicID(1).Bytes()}}}, partition(0), partition(1))
	create.Cause.RequestId = "r-1"
	for _, d := range []*metadatapb.Decision{
		register,
		create,
		caused("AlterPartition", 1, changed(&metadatapb.PartitionChange{Isr: idList(1, 2), Reason: metadatapb.ChangeReason_CHANGE_REASON_LAG})),
		caused("AlterPartition", 1, changed(&metadatapb.PartitionChange{Isr: idList(1, 2, 3), Reason: metadatapb.ChangeReason_CHANGE_REASON_CAUGHT_UP})),
		caused("AlterPartition", 1, changed(&metadatapb.PartitionChange{Partition: 1, Isr: idList(1)})), // another one
		{Cause: &metadatapb.Cause{Name: "SessionExpired"}, Records: []*metadatapb.Record{
			changed(&metadatapb.PartitionChange{Leader: elected(2), Isr: idList(2, 3), Reason: metadatapb.ChangeReason_CHANGE_REASON_SESSION}), fence(1),
		}},
		{Cause: &metadatapb.Cause{Name: "SessionExpired"}, Records: []*metadatapb.Record{
			changed(&metadatapb.PartitionChange{Leader: &metadatapb.LeaderChange{}, Isr: idList(), Elr: idList(2, 3), Reason: metadatapb.ChangeReason_CHANGE_REASON_SESSION}), fence(2), fence(3),
		}},
		caused("BrokerHeartbeat", 3, unfence(3), changed(&metadatapb.PartitionChange{Leader: elected(3), Isr: idList(3), Elr: idList(2), Reason: metadatapb.ChangeReason_CHANGE_REASON_UNFENCE})),
		caused("BrokerHeartbeat", 3, changed(&metadatapb.PartitionChange{Leader: &metadatapb.LeaderChange{}, Isr: idList(), Elr: idList(), Reason: metadatapb.ChangeReason_CHANGE_REASON_CONTROLLED_SHUTDOWN}), stop(3)),
		caused("BrokerHeartbeat", 1, unfence(1)),
		caused("ElectLeaders", 0, changed(&metadatapb.PartitionChange{Leader: elected(1), Isr: idList(1), LeaderRecoveryState: &recovering, Reason: metadatapb.ChangeReason_CHANGE_REASON_UNCLEAN_ELECTION})),
		caused("AlterPartition", 1, changed(&metadatapb.PartitionChange{LeaderRecoveryState: &stateRecovered, Reason: metadatapb.ChangeReason_CHANGE_REASON_RECOVERED})),
		caused("AlterPartitionReassignments", 0, changed(&metadatapb.PartitionChange{
			Replicas: idList(4, 5, 1, 2, 3), AddingReplicas: idList(4, 5), RemovingReplicas: idList(1, 2, 3), Reason: metadatapb.ChangeReason_CHANGE_REASON_REASSIGNMENT_STARTED,
		})),
		caused("AlterPartition", 1, changed(&metadatapb.PartitionChange{
			Leader: elected(4), Replicas: idList(4, 5), Isr: idList(4, 5), AddingReplicas: idList(), RemovingReplicas: idList(), Reason: metadatapb.ChangeReason_CHANGE_REASON_REASSIGNMENT_COMPLETED,
		})),
		caused("BalanceLeaders", 0, changed(&metadatapb.PartitionChange{Leader: elected(5), Reason: metadatapb.ChangeReason_CHANGE_REASON_PREFERRED_ELECTION})),
		caused("DeleteTopics", 0, &metadatapb.Record{Kind: &metadatapb.Record_RemoveTopic{RemoveTopic: &metadatapb.RemoveTopic{TopicId: topicID(1).Bytes()}}}),
		caused("ReportDeletions", 5, &metadatapb.Record{Kind: &metadatapb.Record_ReplicaDeletionFailed{ReplicaDeletionFailed: &metadatapb.ReplicaDeletionFailed{
			BrokerId: 5, TopicId: topicID(1).Bytes(), Failure: "read-only file system",
		}}}),
		caused("ReportDeletions", 4, &metadatapb.Record{Kind: &metadatapb.Record_ReplicasDeleted{ReplicasDeleted: &metadatapb.ReplicasDeleted{
			BrokerId: 4, TopicIds: [][]byte{topicID(9).Bytes(), topicID(1).Bytes()},
		}}}),
		caused("ReportDeletions", 5, &metadatapb.Record{Kind: &metadatapb.Record_ReplicasDeleted{ReplicasDeleted: &metadatapb.ReplicasDeleted{
			BrokerId: 5, TopicIds: [][]byte{topicID(1).Bytes()},
		}}}),
		caused("ReportDeletions", 3, &metadatapb.Record{Kind: &metadatapb.Record_ReplicasDeleted{ReplicasDeleted: &metadatapb.ReplicasDeleted{
			BrokerId: 3, TopicIds: [][]byte{topicID(1).Bytes()}, // of the other partition
		}}}),
	} {
		c.add(t, d)
	}
	return c
}

// Each change of a partition's life, with old and new values, states and cause.
func TestLifeOfAPartition(t *testing.T) {
	const want = `6 created leader=?->1 leaderEpoch=?->0 partitionEpoch=?->0 replicas=?->[1,2,3] isr=?->[1,2,3] NonExistent->New->Online 1:NonExistent->New->Online 2:NonExistent->New->Online 3:NonExistent->New->Online <- operator alice created the topic (request r-1)
8 changed partitionEpoch=0->1 isr=[1,2,3]->[1,2] <- leader 1 shrank the ISR: broker 3 fell behind
9 changed partitionEpoch=1->2 isr=[1,2]->[1,2,3] <- leader 1 expanded the ISR: broker 3 caught up
11 changed leader=1->2 leaderEpoch=0->1 partitionEpoch=2->3 isr=[1,2,3]->[2,3] <- broker 1's session ended
12 replica_state 1:Online->Offline(is fenced) <- broker 1's session ended
13 changed leader=2->-1 leaderEpoch=1->2 partitionEpoch=3->4 isr=[2,3]->[] elr=[]->[2,3] Online->Offline <- the sessions of brokers 2, 3 ended
14 replica_state 2:Online->Offline(is fenced) <- broker 2's session ended
15 replica_state 3:Online->Offline(is fenced) <- broker 3's session ended
16 replica_state 3:Offline->Online <- broker 3 came back and serves
17 changed leader=-1->3 leaderEpoch=2->3 partitionEpoch=4->5 isr=[]->[3] elr=[2,3]->[2] Offline->Online <- broker 3 came back and serves
18 changed leader=3->-1 leaderEpoch=3->4 partitionEpoch=5->6 isr=[3]->[] elr=[2]->[] Online->Offline <- broker 3 shuts down in order
19 replica_state 3:Online->Offline(is shutting down) <- broker 3 shuts down in order
20 replica_state 1:Offline->Online <- broker 1 came back and serves
21 changed leader=-1->1 leaderEpoch=4->5 partitionEpoch=6->7 isr=[]->[1] leaderRecoveryState=RECOVERED->RECOVERING Offline->Online <- operator alice asked for an unclean election; records may be lost
22 changed partitionEpoch=7->8 leaderRecoveryState=RECOVERING->RECOVERED <- leader 1 has recovered from an unclean election
23 changed partitionEpoch=8->9 replicas=[1,2,3]->[4,5,1,2,3] addingReplicas=[]->[4,5] removingReplicas=[]->[1,2,3] 4:NonExistent->New 5:NonExistent->New <- operator alice moved the replicas to [4,5]
24 changed leader=1->4 leaderEpoch=5->6 partitionEpoch=9->10 replicas=[4,5,1,2,3]->[4,5] isr=[1]->[4,5] addingReplicas=[4,5]->[] removingReplicas=[1,2,3]->[] 1:Online->Offline->DeletionStarted->DeletionSuccessful->NonExistent 2:Offline->DeletionStarted->DeletionSuccessful->NonExistent 3:Offline->DeletionStarted->DeletionSuccessful->NonExistent 4:New->Online 5:New->Online <- leader 1 has the new replicas in sync: the move is complete
25 changed leader=4->5 leaderEpoch=6->7 partitionEpoch=10->11 <- leadership went back to the preferred replica by itself
26 removed Online->Offline 4:Online->Offline->DeletionStarted 5:Online->Offline->DeletionStarted <- operator alice deleted the topic
27 replica_deletion_failed broker=?->5 failure=?->read-only file system 5:DeletionStarted->DeletionIneligible(read-only file system) <- broker 5 could not remove its data
28 replica_deleted broker=?->4 4:DeletionStarted->DeletionSuccessful <- broker 4 removed its data
29 replica_deleted broker=?->5 5:DeletionIneligible->Offline->DeletionStarted->DeletionSuccessful <- broker 5 removed its data`
	c := lifeOfAPartition(t)
	if got := follow(t, NewTracker(topicID(1), 0), c.entries...); got != want {
		t.Errorf("told:\n%s\nexpected:\n%s", got, want)
	}
}

// After a gap no value is guessed; with the state at the end the epochs, and what was not touched, are known again.
func TestValuesBehindAGapAreNotGuessed(t *testing.T) {
	c := lifeOfAPartition(t)
	tracker := NewTracker(topicID(1), 0)
	tracker.Gap()
	rest := c.entries[10:12] // the unclean election, the recovery
	if got, want := follow(t, tracker, rest...), `21 changed leader=?->1 isr=?->[1] leaderRecoveryState=?->RECOVERING Online <- operator alice asked for an unclean election; records may be lost
22 changed leaderRecoveryState=RECOVERING->RECOVERED <- leader 1 has recovered from an unclean election`; got != want {
		t.Errorf("told:\n%s\nexpected:\n%s", got, want)
	}
	seeded := tracker.Seed(image.Partition{
		Replicas: []image.BrokerID{1, 2, 3}, ISR: []image.BrokerID{1}, Leader: 1, LeaderEpoch: 5, PartitionEpoch: 8,
	})
	if got, want := follow(t, seeded, c.entries[10:13]...), `21 changed leader=?->1 leaderEpoch=4->5 partitionEpoch=6->7 isr=?->[1] leaderRecoveryState=?->RECOVERING Online <- operator alice asked for an unclean election; records may be lost
22 changed partitionEpoch=7->8 leaderRecoveryState=RECOVERING->RECOVERED <- leader 1 has recovered from an unclean election
23 changed partitionEpoch=8->9 replicas=[1,2,3]->[4,5,1,2,3] addingReplicas=[]->[4,5] removingReplicas=[]->[1,2,3] <- operator alice moved the replicas to [4,5]`; got != want {
		t.Errorf("told:\n%s\nexpected:\n%s", got, want)
	}
}

// An election that nobody asked to be unclean and that was says what it costs.
func TestUncleanElectionsByThemselvesAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		known []int32
		want  string
	}{
		"last known leader": {[]int32{3}, "broker 3 came back and serves; the last known leader leads: what a crash of its machine took from its log is lost"},
		"by the topic":      {nil, "broker 3 came back and serves; nobody in ISR and ELR could lead, the election was unclean: records may be lost"},
	} {
		e := &controllerpb.PartitionEvent{
			Kind:   controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_CHANGED,
			Reason: metadatapb.ChangeReason_CHANGE_REASON_UNFENCE, Cause: &metadatapb.Cause{Name: "BrokerHeartbeat", BrokerId: proto.Int32(3)},
			Changes: []*controllerpb.FieldChange{
				{Field: "leader", Old: number(-1), New: number(3)},
				{Field: "lastKnownElr", Old: list(c.known), New: list(nil)},
				{Field: "leaderRecoveryState", Old: text(recovered), New: text("RECOVERING")},
			},
		}
		if got := words(e, nil, nil); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A second target is told without the replicas that leave, although it does not change which leave.
func TestSecondTargetIsToldWithoutThoseThatLeave(t *testing.T) {
	c := newChain(t, 0)
	started := metadatapb.ChangeReason_CHANGE_REASON_REASSIGNMENT_STARTED
	c.add(t, caused("CreateTopics", 0, &metadatapb.Record{Kind: &metadatapb.Record_Partition{Partition: &metadatapb.Partition{
		TopicId: topicID(1).Bytes(), Replicas: []int32{2, 3, 1}, Isr: []int32{2, 1}, Leader: proto.Int32(2),
	}}}))
	c.add(t, caused("AlterPartitionReassignments", 0, changed(&metadatapb.PartitionChange{Replicas: idList(1, 3, 2), RemovingReplicas: idList(2), Reason: started})))
	c.add(t, caused("AlterPartitionReassignments", 0, changed(&metadatapb.PartitionChange{Replicas: idList(3, 1, 2), Reason: started})))
	told := follow(t, NewTracker(topicID(1), 0), c.entries...)
	for _, want := range []string{"operator alice moved the replicas to [1,3]\n", "operator alice moved the replicas to [3,1]"} {
		if !strings.Contains(told+"\n", want) {
			t.Errorf("told:\n%s\nno %q", told, want)
		}
	}
}

// Every reason has words, whoever caused it.
func TestEveryReasonHasWords(t *testing.T) {
	for n, name := range metadatapb.ChangeReason_name {
		for _, cause := range []*metadatapb.Cause{
			{Name: "SessionExpired"}, {Name: "ApplyConfigs", Principal: "alice"}, {Name: "RegisterBroker", BrokerId: proto.Int32(3)}, {},
		} {
			e := &controllerpb.PartitionEvent{
				Kind: controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_CHANGED, Reason: metadatapb.ChangeReason(n), Cause: cause,
			}
			text := words(e, nil, nil)
			if len(text) < 8 || strings.Contains(text, "CHANGE_REASON") || strings.Contains(text, "  ") || strings.HasSuffix(text, " ") {
				t.Errorf("%s by %v: %q", name, cause, text)
			}
		}
	}
}
