package kafka_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// A topic is made when a client that may asks for it by name, with the broker's consent, and never otherwise.
func TestMetadataCreatesTopics(t *testing.T) {
	metadata := func(allow bool, names ...string) *kmsg.MetadataRequest {
		req := kmsg.NewPtrMetadataRequest()
		req.AllowAutoTopicCreation = allow
		for _, n := range names {
			req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &n})
		}
		return req
	}
	for name, c := range map[string]struct {
		enabled bool
		request *kmsg.MetadataRequest
		version int16
		want    int16
		made    bool
	}{
		"asked for":                   {true, metadata(true, "new"), 9, 0, true},
		"without a flag in version 3": {true, metadata(false, "new"), 3, 0, true},
		"the client does not want it": {true, metadata(false, "new"), 9, kerr.UnknownTopicOrPartition.Code, false},
		"the broker does not want it": {false, metadata(true, "new"), 9, kerr.UnknownTopicOrPartition.Code, false},
		"a bad name":                  {true, metadata(true, "not a name"), 9, kerr.InvalidTopicException.Code, false},
		"the metadata log":            {true, metadata(true, "__cluster_metadata"), 9, kerr.UnknownTopicOrPartition.Code, false},
		"consumer groups' topic":      {true, metadata(true, "__consumer_offsets"), 9, kerr.UnknownTopicOrPartition.Code, false},
		"an id":                       {true, &kmsg.MetadataRequest{AllowAutoTopicCreation: true, Topics: []kmsg.MetadataRequestTopic{{TopicID: [16]byte{7}}}}, 12, kerr.UnknownTopicID.Code, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t)
			r.b.Statics["auto.create.topics.enable"] = fmt.Sprint(c.enabled)
			resp := do[*kmsg.MetadataResponse](r.dial(), at(c.request, c.version))
			if len(resp.Topics) != 1 || resp.Topics[0].ErrorCode != c.want || (r.b.Image().TopicCount() == 1) != c.made {
				t.Errorf("%+v, %d topics", resp.Topics, r.b.Image().TopicCount())
			}
			if c.made && len(resp.Topics[0].Partitions) != 1 {
				t.Errorf("answered with %+v", resp.Topics[0])
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		r := start(t)
		r.b.Statics["auto.create.topics.enable"] = "true"
		r.b.RefuseTopic = controllerpb.ErrorCode_ERROR_CODE_INVALID_REPLICATION_FACTOR
		resp := do[*kmsg.MetadataResponse](r.dial(), at(metadata(true, "new"), 9))
		if resp.Topics[0].ErrorCode != kerr.InvalidReplicationFactor.Code {
			t.Errorf("%+v", resp.Topics)
		}
	})
	t.Run("no answer", func(t *testing.T) {
		r := start(t)
		r.b.Statics["auto.create.topics.enable"] = "true"
		r.b.Refuse = func() error { return errors.New("nobody") }
		w := r.dial()
		for range 2 {
			resp := do[*kmsg.MetadataResponse](w, at(metadata(true, "new"), 9))
			if resp.Topics[0].ErrorCode != kerr.LeaderNotAvailable.Code {
				t.Errorf("%+v", resp.Topics)
			}
		}
	})
}

// Many clients of a new topic cost the controller one request.
func TestMetadataCreatesATopicOnce(t *testing.T) {
	r := start(t)
	r.b.Statics["auto.create.topics.enable"] = "true"
	entered, leave := make(chan struct{}, 16), make(chan struct{})
	r.b.Refuse = func() error { entered <- struct{}{}; <-leave; return nil }
	name := "new"
	ask := func() kmsg.Request {
		req := kmsg.NewPtrMetadataRequest()
		req.AllowAutoTopicCreation, req.Topics = true, []kmsg.MetadataRequestTopic{{Topic: &name}}
		return at(req, 9)
	}
	first := r.dial()
	first.send(ask())
	<-entered
	for range 3 {
		if resp := do[*kmsg.MetadataResponse](r.dial(), ask()); resp.Topics[0].ErrorCode != kerr.LeaderNotAvailable.Code {
			t.Errorf("meanwhile: %+v", resp.Topics)
		}
	}
	close(leave)
	if _, resp := first.answer(); resp.(*kmsg.MetadataResponse).Topics[0].ErrorCode != 0 {
		t.Errorf("in the end: %+v", resp)
	}
	if n := len(r.b.RequestIDs()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// A producer of a topic that does not exist makes it.
func TestFranzCreatesByProducing(t *testing.T) {
	r := start(t)
	r.b.Statics["auto.create.topics.enable"] = "true"
	cl := franz(t, r, kgo.AllowAutoTopicCreation())
	if err := cl.ProduceSync(within(t), &kgo.Record{Topic: "new", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}
