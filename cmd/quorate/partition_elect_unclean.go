package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/cmd/quorate/node"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client"
)

// electionsPerRequest bounds the partitions of one unclean election; more go in several requests.
const electionsPerRequest = 1000

// uncleanElection is one command: what was found, chosen and answered, by partition.
type uncleanElection struct {
	t          *partitionElect
	names      []partitionName
	electables map[partitionName]*electable
	choices    map[partitionName]choice
	led        map[partitionName]int32 // who leads those that need no election
	answers    map[partitionName]*controllerpb.ElectLeadersResult
	offset     int64 // of the image that the partitions were looked up in
}

// partitionElectUnclean asks the replicas of each partition without a leader how far they are, and elects the furthest.
func (a *app) partitionElectUnclean(ctx context.Context, t *partitionElect) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	u := &uncleanElection{
		t: t, names: t.names, electables: map[partitionName]*electable{},
		choices: map[partitionName]choice{}, led: map[partitionName]int32{}, answers: map[partitionName]*controllerpb.ElectLeadersResult{},
	}
	if err := u.find(ctx, a, c); err != nil {
		return err
	}
	if err := u.ask(ctx, a, c); err != nil {
		return err
	}
	u.choose(a)
	done := changed{offset: u.offset, verb: "elected", list: "partitions"}
	unfenced, failed := u.send(ctx, c, &done)
	if failed != nil && len(u.answers) == 0 {
		return failed
	}
	elected := false
	for _, name := range u.names {
		it, ok := u.item(name)
		if !ok {
			continue
		}
		elected = elected || it.failed == nil
		done.items = append(done.items, it)
		if e := u.electables[name]; e != nil && !a.json() {
			a.printf("%s", e.table())
		}
	}
	if failed == nil && elected && t.change.waits() {
		failed = a.newWaiter(c, done.offset).brokers(ctx, unfenced, nil)
	}
	return a.finishElection(done, t, failed)
}

// find looks up the partitions. One that does not exist is left to the controller, which says so. One that has a leader is
// not sent: should it lose it meanwhile, nobody has chosen who leads it then.
func (u *uncleanElection) find(ctx context.Context, a *app, c *client.Client) error {
	request := &controllerpb.DescribeTopicsRequest{Unhealthy: u.t.all}
	asked := map[partitionName]bool{}
	for _, name := range u.names {
		asked[name] = true
		if !slices.Contains(request.Names, name.topic) {
			request.Names = append(request.Names, name.topic)
		}
	}
	offset, topics, _, err := a.describe(ctx, c, &readFlags{node: noNode, minOffset: -1}, request)
	if err != nil {
		return err
	}
	u.offset = offset
	for _, topic := range topics {
		for _, p := range topic.GetPartitions() {
			name := partitionName{topic.GetName(), p.GetState().GetPartition()}
			if !u.t.all && !asked[name] {
				continue
			}
			if p.GetState().Leader != nil {
				u.led[name] = p.GetState().GetLeader()
				continue
			}
			state := p.GetState()
			state.TopicId = topic.GetTopicId()
			u.electables[name] = &electable{name: name, state: state}
			if u.t.all {
				u.names = append(u.names, name)
			}
		}
	}
	return nil
}

// ask fills in what the replicas hold, those that are fenced too: they show what waiting for them may be worth.
func (u *uncleanElection) ask(ctx context.Context, a *app, c *client.Client) error {
	var wanted []replicaKey
	for _, e := range u.electables {
		for _, id := range e.state.GetReplicas() {
			wanted = append(wanted, keyOf(e.state, id))
		}
	}
	answers, err := a.askReplicas(ctx, c, wanted)
	if err != nil {
		return err
	}
	for _, e := range u.electables {
		for _, id := range e.state.GetReplicas() {
			row := electableReplica{broker: id, state: answers.state(id)}
			row.held, row.why = answers.find(keyOf(e.state, id))
			e.replicas = append(e.replicas, row)
		}
	}
	return nil
}

func keyOf(p *metadatapb.Partition, broker int32) replicaKey {
	return replicaKey{string(p.GetTopicId()), p.GetPartition(), broker}
}

// choose picks the leaders. With --all, partitions that nobody can lead are left out, as the controller does.
func (u *uncleanElection) choose(a *app) {
	var hopeless []string
	for _, name := range u.names {
		e := u.electables[name]
		if e == nil {
			continue
		}
		if live, _ := e.liveAndSilent(); u.t.all && len(live) == 0 {
			hopeless = append(hopeless, name.String())
			continue
		}
		u.choices[name] = e.choose(u.t.candidate, u.t.force)
	}
	if n := len(hopeless); n > 0 {
		a.warn("no replica on an unfenced broker, so no leader, for %d of the partitions: %s", n, someOf(hopeless))
	}
}

// someOf names the first few of many.
func someOf(names []string) string {
	const shown = 5
	if len(names) > shown {
		return strings.Join(names[:shown], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}

// send asks for the elections that were not refused here, and collects the answers.
func (u *uncleanElection) send(ctx context.Context, c *client.Client, done *changed) (unfenced []int32, failed error) {
	var partitions []*controllerpb.ElectablePartition
	for _, name := range u.names {
		ch, chosen := u.choices[name]
		_, led := u.led[name]
		if ch.refused != nil || led || u.t.all && !chosen {
			continue
		}
		p := &controllerpb.ElectablePartition{Topic: name.topic, Partition: name.partition}
		if chosen {
			p.Candidate = &ch.leader
		}
		partitions = append(partitions, p)
	}
	for part := range slices.Chunk(partitions, electionsPerRequest) {
		resp, err := controllerpb.NewOperatorApiClient(c).ElectLeaders(ctx, &controllerpb.ElectLeadersRequest{
			Type: controllerpb.ElectionType_ELECTION_TYPE_UNCLEAN, Partitions: part,
			ValidateOnly: u.t.change.dryRun, RequestId: node.RandomUUID().String(),
		})
		if err != nil {
			return unfenced, err
		}
		done.offset, unfenced = resp.GetMetadataOffset(), resp.GetUnfencedBrokers()
		done.records = append(done.records, resp.GetRecords()...)
		for _, r := range resp.GetResults() {
			u.answers[partitionName{r.GetTopic(), r.GetPartition()}] = r
		}
	}
	return unfenced, nil
}

// item is what became of one partition; ok is false if it was not asked for in the end.
func (u *uncleanElection) item(name partitionName) (it item, ok bool) {
	e, ch, answer := u.electables[name], u.choices[name], u.answers[name]
	var rows list
	if e != nil {
		rows = e.json()
	} else {
		rows = list{}
	}
	leader, led := u.led[name]
	switch {
	case ch.refused != nil:
		it = name.item(ch.refused, "", nil)
	case led && !u.t.all:
		it = name.item(refused(controllerpb.ErrorCode_ERROR_CODE_ELECTION_NOT_NEEDED, "broker %d leads: an unclean election is for a partition without a leader; quorate partition elect --preferred or reassign moves a leader", leader), "", nil)
	case answer == nil:
		return item{}, false
	default:
		lost := answer.GetRecordsMayBeLost()
		if !lost || answer.GetLeader() != ch.leader || ch.basis == lossNone {
			// Somebody else came back meanwhile and leads, or who was in sync is so no more.
			ch.basis, ch.lossFrom = lossNone, -1
			if lost {
				ch.basis = lossUnknown
			}
		}
		text := fmt.Sprintf(" leader=%d", answer.GetLeader())
		if e != nil {
			text += ch.loss(e.heldBy(answer.GetLeader()))
		}
		it = name.item(itemFailure(answer.GetError()), text, object{
			{"leader", answer.GetLeader()}, {"recordsMayBeLost", lost}, {"lossFromOffset", ch.lossFrom}, {"lossBasis", ch.basis}, {"replicas", rows},
		})
	}
	if e != nil {
		it.key = object{{"topic", name.topic}, {"partition", name.partition}, {"replicas", rows}}
	}
	return it, true
}
