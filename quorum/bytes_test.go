package quorum_test

import (
	"context"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum"
	"github.com/quorate/quorate/quorum/quorumtest"
)

// A request for which the waiting ones leave no room is refused, whatever it asks for; what was refused, decided or given up
// takes no room.
func TestRequestsThatWaitAreBoundedInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{Controllers: 1})
		epoch := c.RegisterBroker(t, 1)
		node := c.Members[0].Node
		create := &controllerpb.CreateTopicsRequest{Topics: []*controllerpb.CreatableTopic{{Name: "orders"}}, ValidateOnly: true}
		configs := &controllerpb.AlterConfigsRequest{RequestId: "a", ValidateOnly: true}
		beat := &controllerpb.BrokerHeartbeatRequest{BrokerId: 1, BrokerEpoch: epoch.Epoch}
		for name, ask := range map[string]struct {
			request proto.Message
			send    func(context.Context) error
		}{
			"CreateTopics": {create, func(ctx context.Context) error { _, err := node.OperatorServer().CreateTopics(ctx, create); return err }},
			"AlterConfigs": {configs, func(ctx context.Context) error {
				_, err := node.OperatorServer().AlterConfigs(ctx, configs)
				return err
			}},
			"BrokerHeartbeat": {beat, func(ctx context.Context) error { _, err := node.BrokerServer().BrokerHeartbeat(ctx, beat); return err }},
		} {
			others := quorum.OperationBytesMax - int64(proto.Size(ask.request))
			node.HoldBytes(others)
			if err := ask.send(soon(t)); err != nil {
				t.Errorf("%s, with as much room as it needs: %v", name, err)
			}
			node.HoldBytes(1)
			if err := ask.send(soon(t)); !quorumtest.Refused(err, controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT) {
				t.Errorf("%s, with a byte less: %v", name, err)
			}
			node.HoldBytes(-others - 1)
			if held := node.BytesHeld(); held != 0 {
				t.Errorf("%s: %d bytes are still held", name, held)
			}
		}
	})
}
