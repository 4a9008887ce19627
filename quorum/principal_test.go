package quorum_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/quorate/quorate/fsm/record"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/quorumtest"
)

// The metadata log tells who asked: the caller, or the one that a broker forwards for. A name that is none is refused, and
// nothing is written.
func TestPrincipalReachesTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{Controllers: 1})
		c.RegisterBroker(t, 1)
		create := func(ctx context.Context, name string) error {
			_, err := controllerpb.NewOperatorApiClient(c.Client).CreateTopics(ctx, &controllerpb.CreateTopicsRequest{Topics: []*controllerpb.CreatableTopic{{Name: name}}})
			return err
		}
		alice := client.WithPrincipal(soon(t), "User:alice é")
		for name, ctx := range map[string]context.Context{"own": client.WithPrincipal(soon(t), ""), "forwarded": alice} {
			if err := create(ctx, name); err != nil {
				t.Fatal(err)
			}
		}
		for name, ctx := range map[string]context.Context{
			"long": client.WithPrincipal(soon(t), strings.Repeat("x", 257)), "two": client.WithPrincipal(alice, "User:bob"),
			"bytes": client.WithPrincipal(soon(t), "User:\xff\xfe"),
		} {
			if err := create(ctx, name); !quorumtest.Refused(err, controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST) {
				t.Errorf("%s: %v", name, err)
			}
		}
		entries, err := readLog(t, c, c.Members[0], 0)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, e := range entries {
			entry, err := record.DecodeEntry(e.GetEntry())
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range entry.GetDecisions() {
				for _, r := range d.GetRecords() {
					if r.GetTopic() != nil {
						got[r.GetTopic().GetName()] = d.GetCause().GetPrincipal()
					}
				}
			}
		}
		if len(got) != 2 || got["own"] != quorum.PrincipalAnonymous || got["forwarded"] != "User:alice é" {
			t.Errorf("the log says %v", got)
		}
	})
}
