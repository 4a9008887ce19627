package kafka

import (
	"context"
	"log/slog"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

const (
	// autoCreateWaitMillis bounds how long an answer to Metadata waits for topics that it has asked for.
	autoCreateWaitMillis = 2000
	// autoCreateMax bounds the topics that one Metadata request creates; the others are created when it is repeated.
	autoCreateMax = 100
	// autoCreateFlagMin is the version from which on a request says whether it wants topics to be created.
	autoCreateFlagMin = 4

	autoCreateConfig = "auto.create.topics.enable"
)

// internalTopics are the names that Kafka keeps for itself. As ordinary topics, with an ordinary topic's configs, they
// would be in the way of what they are for.
var internalTopics = map[string]bool{
	metadataTopic: true, "__consumer_offsets": true, "__transaction_state": true, "__share_group_state": true, "__remote_log_metadata": true,
}

// autoCreation remembers which topics are being created, so that the many clients of a new topic ask the controller once.
type autoCreation struct {
	mu      sync.Mutex
	pending map[string]bool
}

// take reserves the names that nobody creates now.
func (a *autoCreation) take(names []string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for _, name := range names {
		if !a.pending[name] && len(out) < autoCreateMax {
			if a.pending == nil {
				a.pending = map[string]bool{}
			}
			a.pending[name] = true
			out = append(out, name)
		}
	}
	return out
}

func (a *autoCreation) done(names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range names {
		delete(a.pending, name)
	}
}

// autoCreates tells whether this broker creates topics that clients ask for.
func (s *Server) autoCreates() bool {
	value, ok := s.backend.Configs.Static(autoCreateConfig)
	if !ok {
		value, _ = s.backend.Configs.Default(autoCreateConfig)
	}
	return value == "true"
}

// toCreate lists the topics of a Metadata request that are to be created: named, not all of them, by clients that want it.
func (s *Server) toCreate(r *request, req *kmsg.MetadataRequest) []string {
	if len(req.Topics) == 0 || r.version >= autoCreateFlagMin && !req.AllowAutoTopicCreation || !s.autoCreates() {
		return nil
	}
	im := s.backend.Metadata.Image()
	var names []string
	for _, t := range req.Topics {
		if t.Topic == nil || t.TopicID != [16]byte{} || !validTopicName(*t.Topic) || internalTopics[*t.Topic] {
			continue
		}
		if _, ok := im.TopicByName(*t.Topic); !ok {
			names = append(names, *t.Topic)
		}
	}
	return names
}

// autoCreate asks the controller for topics with its defaults, and returns what is to be answered for those that are not
// there afterwards: LEADER_NOT_AVAILABLE, upon which clients ask again, or the controller's refusal.
func (s *Server) autoCreate(ctx context.Context, c Caller, names []string) map[string]*kerr.Error {
	errs := make(map[string]*kerr.Error, len(names))
	for _, name := range names {
		errs[name] = kerr.LeaderNotAvailable
	}
	mine := s.creating.take(names)
	if len(mine) == 0 {
		return errs
	}
	defer s.creating.done(mine)
	ask := &controllerpb.CreateTopicsRequest{RequestId: newRequestID(s.backend.Metadata.BrokerID())}
	for _, name := range mine {
		ask.Topics = append(ask.Topics, &controllerpb.CreatableTopic{Name: name, TopicId: newTopicID().Bytes()})
	}
	answer, err := s.backend.Admin.CreateTopics(ctx, c, ask)
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "topics not created", slog.Any("topics", mine), slog.String("error", err.Error()))
		return errs
	}
	for _, t := range answer.GetTopics() {
		code := int16(t.GetError().GetCode())
		if code == 0 || code == kerr.TopicAlreadyExists.Code || code == kerr.NotController.Code {
			continue
		}
		if ke := kerr.TypedErrorForCode(code); ke != nil {
			errs[t.GetName()] = ke
		}
	}
	if anyDone(answer.GetTopics()) {
		_ = s.backend.Admin.WaitApplied(ctx, image.MetadataOffset(answer.GetMetadataOffset()))
	}
	return errs
}
