package quorum

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/controller"
	"github.com/quorate/quorate/quorum/env"
)

// deciding is a loop that is active over a log of one record, at offset 0, and sends nothing.
func deciding(fatal func(error)) *loop {
	cfg := &Config{Env: env.OS(""), Logger: slog.New(slog.DiscardHandler), Limits: controller.DefaultLimits(), Fatal: fatal}
	l := newLoop(cfg, &Metrics{}, &refusingRaft{}, emptyMachine{})
	d := image.Empty().Fork()
	level := &metadatapb.FeatureLevel{Name: image.FeatureMetadataVersion, Level: image.MetadataVersion}
	if err := d.Replay(0, &metadatapb.Record{Kind: &metadatapb.Record_FeatureLevel{FeatureLevel: level}}); err != nil {
		panic(err)
	}
	im := d.Seal(0, 0)
	l.claim = &claim{committed: im, pending: im}
	return l
}

func configRecord(value string) *metadatapb.Record {
	return &metadatapb.Record{Kind: &metadatapb.Record_Config{Config: &metadatapb.Config{
		ResourceType: metadatapb.ResourceType_RESOURCE_TYPE_BROKER, Key: "min.insync.replicas", Value: &value,
	}}}
}

// TestDecidedIsNotToldBeforeItCommits: the next decision sees what was decided and follows it, readers see what is
// committed, and neither answer leaves.
func TestDecidedIsNotToldBeforeItCommits(t *testing.T) {
	l := deciding(func(err error) { t.Fatal(err) })
	answers := 0
	var saw string
	var next image.MetadataOffset
	change := &operation{ctx: t.Context(), cause: &metadatapb.Cause{Name: "AlterConfigs"}, answer: func(result) { answers++ },
		decide: func(controller.View) plan { return plan{records: []*metadatapb.Record{configRecord("2")}} }}
	look := &operation{ctx: t.Context(), cause: &metadatapb.Cause{Name: "Look"}, answer: func(result) { answers++ },
		decide: func(v controller.View) plan {
			saw, _ = v.Image.Config(metadatapb.ResourceType_RESOURCE_TYPE_BROKER, "", "min.insync.replicas")
			next = v.NextOffset
			return plan{}
		}}
	l.decide(change)
	l.decide(look)
	if saw != "2" || next != 2 {
		t.Errorf("the next decision saw %q and would write at %d, want 2 and 2", saw, next)
	}
	if _, set := l.claim.committed.Config(metadatapb.ResourceType_RESOURCE_TYPE_BROKER, "", "min.insync.replicas"); set || l.claim.committed.Offset() != 0 {
		t.Error("what is not committed can be read")
	}
	if answers != 0 {
		t.Errorf("%d answers left before the commit", answers)
	}
	if l.close(l.claim); len(l.claim.ready) != 1 || len(l.claim.ready[0].parked) != 2 {
		t.Errorf("the answers do not wait for the entry: %+v", l.claim.ready)
	}
}

// TestUnreplayableDecisionEndsTheProcess: a decision whose record does not fit is a fault of this process, which must not
// go on from it, and nothing of it is sent.
func TestUnreplayableDecisionEndsTheProcess(t *testing.T) {
	var fatal error
	l := deciding(func(err error) { fatal = err })
	var answer error
	id := image.UUID{1}
	l.decide(&operation{ctx: t.Context(), cause: &metadatapb.Cause{Name: "DeleteTopics"}, answer: func(r result) { answer = r.err },
		decide: func(controller.View) plan {
			return plan{atomic: true, records: []*metadatapb.Record{configRecord("2"), {Kind: &metadatapb.Record_RemoveTopic{RemoveTopic: &metadatapb.RemoveTopic{TopicId: id.Bytes()}}}}}
		}})
	if !errors.Is(fatal, image.ErrReplay) || answer == nil {
		t.Errorf("ended with %v, answered %v", fatal, answer)
	}
	if !l.claim.open.empty() || l.claim.pending.Offset() != 0 {
		t.Errorf("something is left of it: %+v at %d", l.claim.open, l.claim.pending.Offset())
	}
}

// TestRequestOutOfTimeIsNotDecided: who gave up while the request waited is told REQUEST_TIMED_OUT, and nothing is decided.
func TestRequestOutOfTimeIsNotDecided(t *testing.T) {
	l := deciding(func(err error) { t.Fatal(err) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var answer error
	l.decide(&operation{ctx: ctx, cause: &metadatapb.Cause{Name: "CreateTopics"}, answer: func(r result) { answer = r.err },
		decide: func(controller.View) plan { t.Error("decided"); return plan{} }})
	refused, ok := client.AsRefusal(refusal(answer, nil))
	if !ok || refused.Code != controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT {
		t.Errorf("answered %v", answer)
	}
}
