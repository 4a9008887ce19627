package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client/clienttest"
)

func TestQuorumRecover(t *testing.T) {
	w := newWorld(t)
	for _, n := range []int{1, 2} {
		text := fmt.Sprintf("process.roles=controller\nnode.id=100%d\nlog.dirs=%s\nlisteners=GRPC://127.0.0.1:9192,RAFT://%s\n", n, filepath.Join(w.files, fmt.Sprint("c", n)), w.silent)
		if err := os.WriteFile(filepath.Join(w.files, fmt.Sprintf("c%d.properties", n)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	broker := "process.roles=broker\nnode.id=1\nlog.dirs=" + filepath.Join(w.files, "b") + "\nlisteners=KAFKA://127.0.0.1:9092,GRPC://127.0.0.1:9195\ncontroller.quorum.bootstrap.servers=127.0.0.1:9192\n"
	if err := os.WriteFile(filepath.Join(w.files, "b.properties"), []byte(broker), 0o644); err != nil {
		t.Fatal(err)
	}
	w.handle(func(h *clienttest.Handlers) {
		h.ConfirmLineage = func(_ context.Context, r *controllerpb.ConfirmLineageRequest) (*controllerpb.ConfirmLineageResponse, error) {
			resp := &controllerpb.ConfirmLineageResponse{Number: 1, MetadataOffset: 20, UnfencedBrokers: []int32{1, 2}}
			if r.GetValidateOnly() {
				resp.Records = []*metadatapb.Record{{Kind: &metadatapb.Record_LineageConfirmed{LineageConfirmed: &metadatapb.LineageConfirmed{Number: 1, TimeMs: 7}}}}
			}
			return resp, nil
		}
	})
	w.golden(t, "quorum_recover.txt", func(t *testing.T, what string) {
		switch what {
		case "the identity is gone":
			if err := os.Remove(filepath.Join(w.files, "c1", "meta.properties")); err != nil {
				t.Fatal(err)
			}
		case "never recovered":
			w.handle(func(h *clienttest.Handlers) {
				h.ConfirmLineage = func(context.Context, *controllerpb.ConfirmLineageRequest) (*controllerpb.ConfirmLineageResponse, error) {
					return nil, refusal(controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST, "this log is of lineage 0")
				}
			})
		default:
			t.Fatal(what)
		}
	})
}
