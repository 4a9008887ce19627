package controller_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
	"github.com/quorate/quorate/test/invariant"
)

const testCluster = "cluster-1"

// fataler is what the harness needs of a test, be it *testing.T or *rapid.T.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// harness drives decisions as the active controller does: each sees the image that the ones before made. After each
// record every invariant is checked, so each prefix of a decision is.
type harness struct {
	t        fataler
	image    *image.Image
	liveness controller.Liveness
	limits   controller.Limits
	defaults controller.Defaults
	now      time.Time
	rand     *rand.Rand
	ids      int
	// lenient harnesses hold states that no decision makes, so only the steps are checked.
	lenient bool
	// saw is told of each record that is written, if it is set.
	saw func(before, after *image.Image, r *metadatapb.Record)
	// quorum is the Raft configuration that requests about it see.
	quorum controller.Quorum
	// followed are partitions whose states each record tells.
	followed []followed
	// cut lets only so many records of the next decision be written; -1 for all.
	cut int
}

func newHarness(t fataler) *harness {
	h := &harness{
		t: t, image: image.Empty(), limits: controller.DefaultLimits(), defaults: controller.DefaultDefaults(),
		now: time.Unix(1000, 0), rand: rand.New(rand.NewPCG(1, 2)), cut: -1,
	}
	h.liveness = controller.NewLiveness(h.image, h.now)
	return h
}

func (h *harness) view() controller.View {
	return controller.View{
		Image: h.image, NextOffset: h.image.Offset() + 1, Liveness: h.liveness, Limits: h.limits, Defaults: h.defaults,
		ClusterID: testCluster, Now: h.now, Rand: h.rand, NewID: h.newID,
	}
}

func (h *harness) newID() image.UUID {
	h.ids++
	return uuid(fmt.Sprintf("id-%d", h.ids))
}

// uuid is an id that can be read: its bytes are the name.
func uuid(name string) image.UUID {
	var id image.UUID
	copy(id[:], name)
	return id
}

// write replays the records one by one and checks every invariant after each.
func (h *harness) write(records []*metadatapb.Record) {
	h.t.Helper()
	if h.cut >= 0 && h.cut < len(records) {
		records = records[:h.cut]
	}
	for _, r := range records {
		next, err := replay(h.image, r)
		if err != nil {
			h.t.Fatalf("record %s does not replay: %v", recordLine(h.image, r), err)
		}
		if err := invariant.Step(h.image, next); err != nil {
			h.t.Fatalf("after %s: %v", recordLine(next, r), err)
		}
		if err := invariant.Record(h.image, next, r); err != nil {
			h.t.Fatalf("after %s: %v", recordLine(next, r), err)
		}
		if h.saw != nil {
			h.saw(h.image, next, r)
		}
		h.image = next
		if h.lenient {
			continue
		}
		if err := invariant.Image(h.image); err != nil {
			h.t.Fatalf("after %s: %v", recordLine(h.image, r), err)
		}
	}
}

func replay(im *image.Image, records ...*metadatapb.Record) (*image.Image, error) {
	d := im.Fork()
	offset := im.Offset()
	for _, r := range records {
		offset++
		if err := d.Replay(offset, r); err != nil {
			return nil, err
		}
	}
	return d.Seal(offset, im.Chain()), nil
}

// carryOut does what the loop does with a decision.
func carryOut[R any](h *harness, d controller.Decision[R], err error) string {
	h.t.Helper()
	if err != nil {
		code, ok := controllerpb.CodeOf(err)
		if !ok {
			h.t.Fatalf("the refusal has no code: %v", err)
		}
		if len(d.Records) > 0 || d.Liveness != nil {
			h.t.Fatalf("refused with %v, and yet %d records", code, len(d.Records))
		}
		return "refused " + err.Error() + "\n"
	}
	var b strings.Builder
	if err := controller.CheckLevels(h.image, d.Records); err != nil && !h.lenient {
		h.t.Fatalf("the finalized levels do not allow the records: %v", err)
	}
	im := h.image
	for _, r := range d.Records {
		next, err := replay(im, r)
		if err != nil {
			h.t.Fatalf("record does not replay: %v", err)
		}
		fmt.Fprintf(&b, "%d %s\n", next.Offset(), recordLine(pick(im, next, r), r))
		b.WriteString(h.crossings(im, next))
		im = next
	}
	if d.Liveness != nil {
		h.liveness = *d.Liveness
	}
	h.write(d.Records)
	if h.cut >= 0 {
		h.cut = -1
		fmt.Fprintf(&b, "-- cut after offset %d\n", h.image.Offset())
		return b.String()
	}
	if err := invariant.Rest(h.image); err != nil && !h.lenient {
		h.t.Fatalf("after the decision: %v\n%s", err, b.String())
	}
	return b.String()
}

// pick returns the image that knows the topic that the record is about.
func pick(before, after *image.Image, r *metadatapb.Record) *image.Image {
	if r.GetRemoveTopic() != nil {
		return before
	}
	return after
}

// claim lets another controller become active: what it had not written is gone, and so is the soft state.
func (h *harness) claim() string {
	h.t.Helper()
	h.liveness = controller.NewLiveness(h.image, h.now)
	d, err := controller.Activate(h.view())
	return carryOut(h, d, err) + reasonLines(d.Reasons)
}

func reasonLines(reasons []controller.Reason) string {
	var b strings.Builder
	for _, r := range reasons {
		fmt.Fprintf(&b, "because %v\n", r)
	}
	return b.String()
}

func (h *harness) broker(id int32) image.Broker {
	h.t.Helper()
	b, ok := h.image.Broker(image.BrokerID(id))
	if !ok {
		h.t.Fatalf("broker %d is not registered", id)
	}
	return b
}

func registerRequest(id int32, incarnation, directory string) *controllerpb.RegisterBrokerRequest {
	i, d := uuid(incarnation), uuid(directory)
	return &controllerpb.RegisterBrokerRequest{
		ClusterId: testCluster, BrokerId: id, IncarnationId: i[:], DirectoryId: d[:],
		Listeners: []*metadatapb.Listener{{Name: "KAFKA", Host: "localhost", Port: uint32(9000 + id)}},
		Features:  image.DeclaredFeatures(),
	}
}

// startBroker registers a broker and unfences it.
func (h *harness) startBroker(id int32, rack string) {
	h.t.Helper()
	req := registerRequest(id, fmt.Sprintf("inc-%d", id), fmt.Sprintf("dir-%d", id))
	req.StopKind = metadatapb.StopKind_STOP_KIND_NEVER_RAN
	if rack != "" {
		req.Rack = &rack
	}
	d, err := controller.RegisterBroker(h.view(), req)
	if err != nil {
		h.t.Fatal(err)
	}
	carryOut(h, d, err)
	h.beat(id)
}

// beat is the heartbeat of a broker that is well.
func (h *harness) beat(id int32) string {
	h.t.Helper()
	b := h.broker(id)
	d, err := controller.BrokerHeartbeat(h.view(), &controllerpb.BrokerHeartbeatRequest{
		BrokerId: id, BrokerEpoch: int64(b.Epoch), MetadataOffset: int64(h.image.Offset()),
	})
	return carryOut(h, d, err)
}

// advance moves the clock in steps as the loop ticks. Brokers in heard beat before each tick.
func (h *harness) advance(by time.Duration, heard []int32) string {
	h.t.Helper()
	const step = 100 * time.Millisecond
	var b strings.Builder
	for end := h.now.Add(by); h.now.Before(end); {
		h.now = h.now.Add(min(step, end.Sub(h.now)))
		h.liveness, _ = h.liveness.Tick(h.now, h.limits.HeartbeatInterval)
		for _, id := range heard {
			b.WriteString(h.beat(id))
		}
		if controller.HasStale(h.view()) {
			d, err := controller.FenceStaleBrokers(h.view())
			b.WriteString(carryOut(h, d, err) + reasonLines(d.Reasons))
			if controller.HasStale(h.view()) {
				h.t.Fatal("still stale after fencing")
			}
		}
	}
	return b.String()
}
