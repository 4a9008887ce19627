package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// eventTimeLayout is RFC 3339 with milliseconds.
const eventTimeLayout = "2006-01-02T15:04:05.000Z"

func (a *app) metadataHistoryCommand() *cobra.Command {
	var r readFlags
	var topicID string
	c := &cobra.Command{
		Use:   "history TOPIC-PARTITION",
		Short: "Tell what happened to a partition, and why",
		Long: "Tell what happened to a partition: each change with its metadata offset, its time, old -> new value of what changed, the states\n" +
			"that the partition and its replicas went through, and after <- the cause. The first line says from which offset on nothing is\n" +
			"missing; what is missing is told where it would be, and a value that is not known is shown as ?. A topic that was deleted is\n" +
			"asked for by its id, with the number of the partition alone.",
		Example: "  quorate metadata history orders-0\n  quorate metadata history 0 --topic-id J08mhhdCQcWIXdG8Uvlcsg",
		Args:    cobra.ExactArgs(1),
	}
	c.Flags().StringVar(&topicID, "topic-id", "", "the topic with this id, also a deleted one; the argument is then the partition's number")
	r.register(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		request, err := historyRequest(args[0], topicID)
		if err != nil {
			return err
		}
		return a.timed(func(ctx context.Context, _ *cobra.Command, _ []string) error {
			return a.metadataHistory(ctx, &r, request)
		})(c, args)
	}
	return c
}

func historyRequest(arg, topicID string) (*controllerpb.ReadHistoryRequest, error) {
	if topicID == "" {
		names, err := parsePartitions([]string{arg})
		if err != nil {
			return nil, err
		}
		return &controllerpb.ReadHistoryRequest{Topic: names[0].topic, Partition: names[0].partition}, nil
	}
	id, err := image.ParseUUID(topicID)
	if err != nil {
		return nil, fmt.Errorf("--topic-id: %w", err)
	}
	n, err := strconv.ParseUint(arg, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("%q is not the number of a partition; with --topic-id the argument is that alone", arg)
	}
	return &controllerpb.ReadHistoryRequest{TopicId: id.Bytes(), Partition: int32(n)}, nil
}

// historyShown is what of a history has been printed: the client may repeat a read, and what was shown is not shown again.
type historyShown struct {
	a      *app
	headed bool
	offset int64
	items  int
}

func (a *app) metadataHistory(ctx context.Context, r *readFlags, request *controllerpb.ReadHistoryRequest) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	shown := &historyShown{a: a, offset: -1}
	err = a.read(ctx, c, r, func(ctx context.Context, reader controllerpb.ReaderApiClient) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		request.Options = r.options()
		stream, err := reader.ReadHistory(ctx, request)
		if err != nil {
			return err
		}
		return eachPiece(stream, func(piece *controllerpb.ReadHistoryResponse) error {
			shown.piece(piece)
			return nil
		})
	})
	return shown.end(err)
}

func (s *historyShown) piece(r *controllerpb.ReadHistoryResponse) {
	switch p := r.GetPiece().(type) {
	case *controllerpb.ReadHistoryResponse_Head:
		if !s.headed {
			s.head(p.Head)
		}
		s.headed = true
	case *controllerpb.ReadHistoryResponse_Gap:
		if p.Gap.GetToOffset() <= s.offset {
			return
		}
		s.offset = p.Gap.GetToOffset()
		if s.a.json() {
			s.item(append(object{{"kind", "gap"}}, gapJSON(p.Gap)...))
			return
		}
		s.a.printf("  gap %d..%d: %s", p.Gap.GetFromOffset(), p.Gap.GetToOffset(), p.Gap.GetReason())
	case *controllerpb.ReadHistoryResponse_Event:
		if p.Event.GetMetadataOffset() <= s.offset {
			return
		}
		s.offset = p.Event.GetMetadataOffset()
		if s.a.json() {
			s.item(eventJSON(p.Event))
			return
		}
		s.a.printf("%s", eventText(p.Event))
	}
}

// head begins the answer. In JSON it is one document, whose list of events is written as they come.
func (s *historyShown) head(h *controllerpb.HistoryHead) {
	if s.a.json() {
		former := list{}
		for _, f := range h.GetFormer() {
			former = append(former, object{{"topicId", uuid(f.GetTopicId())}, {"createdOffset", f.GetCreatedOffset()}})
		}
		b := appendJSON(nil, object{
			{"metadataOffset", h.GetMetadataOffset()}, {"topic", h.GetTopic()}, {"topicId", uuid(h.GetTopicId())}, {"partition", h.GetPartition()},
			{"completeFrom", h.GetCompleteFrom()}, {"formerTopics", former},
		})
		fmt.Fprintf(s.a.stdout, "%s,\"events\":[", b[:len(b)-1])
		return
	}
	name := cmp.Or(h.GetTopic(), "?")
	s.a.printf("metadataOffset=%d partition %s-%d of topic %s complete from offset %d", h.GetMetadataOffset(), name, h.GetPartition(), uuid(h.GetTopicId()), h.GetCompleteFrom())
	for _, f := range h.GetFormer() {
		s.a.printf("note: another topic had the name %s: %s, created at offset %d; see it with --topic-id", name, uuid(f.GetTopicId()), f.GetCreatedOffset())
	}
}

func (s *historyShown) item(o object) {
	b := appendJSON(nil, o)
	if s.items++; s.items > 1 {
		b = append([]byte{','}, b...)
	}
	_, _ = s.a.stdout.Write(b) // as every other output
}

// end closes the document, also when the answer broke off in the middle.
func (s *historyShown) end(err error) error {
	if !s.headed || !s.a.json() {
		return err
	}
	if err == nil {
		fmt.Fprint(s.a.stdout, "]}\n")
		return nil
	}
	f := explain(err)
	fmt.Fprintf(s.a.stderr, "error: %v\n", f)
	fmt.Fprintf(s.a.stdout, "],\"error\":%s}\n", appendJSON(nil, f.json()))
	return shown{f.exit}
}

var eventKinds = map[controllerpb.PartitionEventKind]string{
	controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_CREATED:                 "created",
	controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_CHANGED:                 "changed",
	controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_REMOVED:                 "removed",
	controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_REPLICA_DELETED:         "replica-deleted",
	controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_REPLICA_DELETION_FAILED: "replica-deletion-failed",
	controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_REPLICA_STATE:           "replica-state",
}

// eventText is one line.
func eventText(e *controllerpb.PartitionEvent) string {
	line := fmt.Sprintf("  %d %s %s", e.GetMetadataOffset(), time.UnixMilli(e.GetTimeMs()).UTC().Format(eventTimeLayout), eventKinds[e.GetKind()])
	created := e.GetKind() != controllerpb.PartitionEventKind_PARTITION_EVENT_KIND_CHANGED
	for _, c := range e.GetChanges() {
		line += " " + c.GetField() + "="
		if !created {
			line += valueText(c.GetOld()) + "->"
		}
		line += valueText(c.GetNew())
	}
	if len(e.GetStates()) > 0 {
		line += " state=" + strings.Join(e.GetStates(), "->")
	}
	return line + replicaWays(e.GetReplicaStates()) + "  <- " + e.GetText()
}

// replicaWays is " 1,2:NonExistent->New->Online 3:Online->Offline(is fenced)": brokers whose replicas go one way are named together.
func replicaWays(ways []*controllerpb.ReplicaTransition) string {
	var order []string
	brokers := map[string][]string{}
	for _, w := range ways {
		way := strings.Join(w.GetStates(), "->")
		if w.GetReason() != "" {
			way += "(" + w.GetReason() + ")"
		}
		if brokers[way] == nil {
			order = append(order, way)
		}
		brokers[way] = append(brokers[way], strconv.Itoa(int(w.GetBrokerId())))
	}
	text := ""
	for _, way := range order {
		text += " " + strings.Join(brokers[way], ",") + ":" + way
	}
	if text != "" {
		text = " replicas" + text
	}
	return text
}

// valueText is ? for what is not known.
func valueText(v *controllerpb.HistoryValue) string {
	switch k := v.GetKind().(type) {
	case *controllerpb.HistoryValue_Number:
		if k.Number < 0 {
			return "none"
		}
		return strconv.FormatInt(k.Number, 10)
	case *controllerpb.HistoryValue_Ids:
		return image.FormatReplicas(image.BrokerIDs(k.Ids.GetIds()))
	case *controllerpb.HistoryValue_Text:
		return k.Text
	}
	return "?"
}

func valueJSON(v *controllerpb.HistoryValue) any {
	switch k := v.GetKind().(type) {
	case *controllerpb.HistoryValue_Number:
		return k.Number
	case *controllerpb.HistoryValue_Ids:
		return numbers(k.Ids.GetIds())
	case *controllerpb.HistoryValue_Text:
		return k.Text
	}
	return nil
}

func eventJSON(e *controllerpb.PartitionEvent) object {
	changes, states := list{}, list{}
	for _, c := range e.GetChanges() {
		changes = append(changes, object{{"field", c.GetField()}, {"old", valueJSON(c.GetOld())}, {"new", valueJSON(c.GetNew())}})
	}
	for _, s := range e.GetStates() {
		states = append(states, s)
	}
	replicas := list{}
	for _, w := range e.GetReplicaStates() {
		way := list{}
		for _, s := range w.GetStates() {
			way = append(way, s)
		}
		replicas = append(replicas, object{{"broker", w.GetBrokerId()}, {"states", way}, {"reason", w.GetReason()}})
	}
	cause := object{{"name", e.GetCause().GetName()}, {"principal", e.GetCause().GetPrincipal()}, {"requestId", e.GetCause().GetRequestId()}}
	if c := e.GetCause(); c != nil && c.BrokerId != nil {
		cause = append(cause, field{"broker", c.GetBrokerId()})
	}
	return object{
		{"metadataOffset", e.GetMetadataOffset()}, {"timeMs", e.GetTimeMs()}, {"controllerEpoch", e.GetControllerEpoch()}, {"kind", eventKinds[e.GetKind()]},
		{"changes", changes}, {"states", states}, {"replicaStates", replicas}, {"reason", strings.TrimPrefix(e.GetReason().String(), "CHANGE_REASON_")}, {"cause", cause}, {"text", e.GetText()},
	}
}
