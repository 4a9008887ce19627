package broker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// A broker with the data directory of another cluster gives up when every controller has said so; a stale address beside
// controllers of its cluster, or one that does not answer, is no reason.
func TestForeignClusterEndsTheStart(t *testing.T) {
	foreign := refusalOf(&controllerpb.RefusalDetail{Error: controllerpb.NewError(controllerpb.ErrorCode_ERROR_CODE_INCONSISTENT_CLUSTER_ID, "this is cluster B")})
	for name, c := range map[string]struct {
		answers map[string]error // none: the log is served
		ends    bool
	}{
		"all":             {map[string]error{"c1": foreign, "c2": foreign, "c3": foreign}, true},
		"one is silent":   {map[string]error{"c1": foreign, "c2": foreign, "c3": errors.New("connection refused")}, false},
		"one is of ours":  {map[string]error{"c1": foreign, "c2": foreign}, false},
		"another refusal": {map[string]error{"c1": errors.New("x"), "c2": foreign, "c3": foreign}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ml := newMetadataLog().topics(t, 1)
				fc := &fakeControllers{scripts: map[string]func(*fakeStream, *controllerpb.FollowRequest){"c1": serve(ml), "c2": serve(ml), "c3": serve(ml)}}
				fo, stop := followFixture(t, fc, func(fo *follower) {
					served := fo.open
					fo.open = func(ctx context.Context, address string, r *controllerpb.FollowRequest) (metadataStream, error) {
						if err := c.answers[address]; err != nil {
							return nil, err
						}
						return served(ctx, address, r)
					}
				})
				time.Sleep(10 * time.Second)
				ours := len(c.answers) < 3
				if got := fo.image().TopicCount() == 1; got != ours {
					t.Errorf("metadata followed: %v, want %v", got, ours)
				}
				err := stop()
				if got := errors.Is(err, ErrForeignCluster); got != c.ends {
					t.Fatalf("ended with %v", err)
				}
				if c.ends && (!strings.Contains(err.Error(), "this is cluster B") || !strings.Contains(err.Error(), "correct log.dirs")) {
					t.Errorf("unhelpful: %v", err)
				}
			})
		})
	}
}
