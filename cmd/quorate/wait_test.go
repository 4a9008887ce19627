package main

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client/clienttest"
)

// A broker that is late is asked how far it is at the address that was known, even if the last look-up was cut off.
func TestLateBrokerIsAskedAtItsLastAddress(t *testing.T) {
	w := newWorld(t)
	w.handle(func(h *clienttest.Handlers) {
		h.UnregisterBroker = func(context.Context, *controllerpb.UnregisterBrokerRequest) (*controllerpb.UnregisterBrokerResponse, error) {
			return &controllerpb.UnregisterBrokerResponse{MetadataOffset: 812, UnfencedBrokers: []int32{2}}, nil
		}
	})
	var looks atomic.Int32
	w.active.SetHandlers(func(h *clienttest.Handlers) {
		h.ListBrokers = func(ctx context.Context, r *controllerpb.ListBrokersRequest) (*controllerpb.ListBrokersResponse, error) {
			if looks.Add(1) > 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return w.listBrokers(ctx, r)
		}
	})
	w.brokers[1].Set(&controllerpb.NodeStatusResponse{NodeId: 2, MetadataOffset: 790})
	w.brokers[1].SetHandlers(func(h *clienttest.Handlers) {
		h.WaitMetadata = func(ctx context.Context, _ *controllerpb.WaitMetadataRequest) (*controllerpb.WaitMetadataResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	if out := w.run("broker", "unregister", "1", "--timeout", "4s"); !strings.Contains(out, "committed at offset 812; broker 2 is at 790") {
		t.Error(out)
	}
}
