package controller_test

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/fsm/record"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// TestNewerReleaseRegisters: a node of a newer release may say more of itself than this one knows. It is registered with
// what is known, and the log keeps nothing that other nodes could not read.
func TestNewerReleaseRegisters(t *testing.T) {
	newer := protowire.AppendVarint(protowire.AppendTag(nil, 77, protowire.VarintType), 1)
	h := newHarness(t)
	h.claim()
	req := registerRequest(1, "inc-1", "dir-1")
	for _, m := range []proto.Message{req, req.Listeners[0], req.Features[0]} {
		m.ProtoReflect().SetUnknown(newer)
	}
	broker, err := controller.RegisterBroker(h.view(), req)
	if err != nil {
		t.Fatal(err)
	}
	id := uuid("controller").Bytes()
	node, err := controller.RegisterController(h.view(), &controllerpb.RegisterControllerRequest{
		ClusterId: testCluster, ControllerId: 1000, IncarnationId: id, DirectoryId: id, Listeners: req.Listeners, Features: req.Features,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range append(broker.Records, node.Records...) {
		raw, err := record.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := record.Decode(raw); err != nil {
			t.Errorf("%s: %v", recordLine(h.image, r), err)
		}
	}
	carryOut(h, broker, nil)
	if again, err := controller.RegisterBroker(h.view(), req); err != nil || len(again.Records) > 0 {
		t.Errorf("the same registration again: %v, %d records", err, len(again.Records))
	}
}
