package main

import (
	"fmt"
	"testing"

	"google.golang.org/grpc"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client/clienttest"
)

func TestMetadataDump(t *testing.T) {
	w := newWorld(t)
	dumping := func(node int) func(*clienttest.Handlers) {
		return func(h *clienttest.Handlers) {
			h.DumpImage = func(r *controllerpb.DumpImageRequest, s grpc.ServerStreamingServer[controllerpb.DumpImageResponse]) error {
				if r.AtOffset != nil && r.GetAtOffset() > 20 {
					return refusal(controllerpb.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE, "metadata offset 99 is above 20; use --at 20 or less")
				}
				if r.GetOptions().GetMinOffset() > 20 {
					<-s.Context().Done() // the offset does not come
					return s.Context().Err()
				}
				for _, part := range []string{`{"metadataOffset":`, fmt.Sprintf("20,\"answeredBy\":%d,\"local\":%v}\n", node, r.GetOptions().GetLocal())} {
					if err := s.Send(&controllerpb.DumpImageResponse{Data: []byte(part)}); err != nil {
						return err
					}
				}
				return nil
			}
		}
	}
	w.active.SetHandlers(dumping(1001))
	w.standby.SetHandlers(dumping(1002))
	w.brokers[1].SetHandlers(dumping(2))
	w.golden(t, "metadata_dump.txt", nil)
}
