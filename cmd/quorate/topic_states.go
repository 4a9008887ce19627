package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// replicaStates are the names of the older controller's states, which are views here.
var replicaStates = map[controllerpb.ReplicaState]string{
	controllerpb.ReplicaState_REPLICA_STATE_NEW:                 "New",
	controllerpb.ReplicaState_REPLICA_STATE_ONLINE:              "Online",
	controllerpb.ReplicaState_REPLICA_STATE_OFFLINE:             "Offline",
	controllerpb.ReplicaState_REPLICA_STATE_DELETION_STARTED:    "DeletionStarted",
	controllerpb.ReplicaState_REPLICA_STATE_DELETION_SUCCESSFUL: "DeletionSuccessful",
	controllerpb.ReplicaState_REPLICA_STATE_DELETION_INELIGIBLE: "DeletionIneligible",
}

func partitionState(s controllerpb.PartitionState) string {
	if s == controllerpb.PartitionState_PARTITION_STATE_ONLINE {
		return "Online"
	}
	return "Offline"
}

// statesText is 1:Online 3:Offline(is fenced).
func statesText(replicas []*controllerpb.ReplicaStatus) string {
	var parts []string
	for _, r := range replicas {
		text := fmt.Sprintf("%d:%s", r.GetBrokerId(), cmp.Or(replicaStates[r.GetState()], "Unknown"))
		if r.GetReason() != "" {
			text += "(" + r.GetReason() + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

func statesJSON(replicas []*controllerpb.ReplicaStatus) list {
	out := list{}
	for _, r := range replicas {
		out = append(out, object{{"broker", r.GetBrokerId()}, {"state", cmp.Or(replicaStates[r.GetState()], "Unknown")}, {"reason", r.GetReason()}})
	}
	return out
}

// topicListDeleting lists deleted topics whose data is not gone everywhere.
func (a *app) topicListDeleting(ctx context.Context, r *readFlags) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	var resp *controllerpb.ListDeletionsResponse
	err = a.read(ctx, c, r, func(ctx context.Context, reader controllerpb.ReaderApiClient) (err error) {
		resp, err = reader.ListDeletions(ctx, &controllerpb.ListDeletionsRequest{Options: r.options()})
		return err
	})
	if err != nil {
		return err
	}
	if !a.json() {
		a.printf("metadataOffset=%d", resp.GetMetadataOffset())
		for _, t := range resp.GetTopics() {
			a.printf("topic %s %s state=Offline replicas %s", t.GetName(), uuid(t.GetTopicId()), statesText(t.GetReplicas()))
		}
		return nil
	}
	out := list{}
	for _, t := range resp.GetTopics() {
		out = append(out, object{{"name", t.GetName()}, {"topicId", uuid(t.GetTopicId())}, {"state", "Offline"}, {"replicaStates", statesJSON(t.GetReplicas())}})
	}
	a.print(object{{"metadataOffset", resp.GetMetadataOffset()}, {"topics", out}})
	return nil
}
