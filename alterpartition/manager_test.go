package alterpartition_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/alterpartition"
	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/env/envtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// call is a request that a test answers.
type call struct {
	at      time.Duration // since the test began
	request *controllerpb.AlterPartitionRequest
	reply   chan reply
}

type reply struct {
	response *controllerpb.AlterPartitionResponse
	err      error
}

// desk is the controller of a test, and the manager that asks it.
type desk struct {
	t       *testing.T
	start   time.Time
	calls   chan call
	manager *alterpartition.Manager
	epoch   image.BrokerEpoch
	answers []string
}

func (d *desk) AlterPartition(ctx context.Context, r *controllerpb.AlterPartitionRequest) (*controllerpb.AlterPartitionResponse, error) {
	c := call{time.Since(d.start), r, make(chan reply, 1)}
	select {
	case d.calls <- c:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case got := <-c.reply:
		return got.response, got.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run gives a test a running manager inside a bubble.
func run(t *testing.T, change func(*alterpartition.Config), test func(d *desk)) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{t: t, start: time.Now(), calls: make(chan call), epoch: 101}
		cfg := alterpartition.DefaultConfig(1, func() image.BrokerEpoch { return d.epoch })
		if change != nil {
			change(&cfg)
		}
		var err error
		d.manager, err = alterpartition.New(cfg, envtest.NewClock(), d, slog.New(slog.NewTextHandler(io.Discard, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			d.manager.Run(ctx)
		}()
		test(d)
		cancel()
		<-stopped
	})
}

func id(p int32) image.PartitionID { return image.PartitionID{Topic: image.UUID{1}, Partition: p} }

func proposal(number uint64) *partition.Proposal {
	return &partition.Proposal{
		Number: number, Kind: partition.Shrink, LeaderEpoch: 5, PartitionEpoch: 7,
		ISR: []partition.Member{{ID: 1, Epoch: 101}, {ID: 2, Epoch: image.NoBrokerEpoch}}, Changed: []image.BrokerID{3},
	}
}

// submit queues an item whose answer is noted.
func (d *desk) submit(p int32) error {
	return d.manager.Submit(alterpartition.Item{Partition: id(p), Proposal: proposal(uint64(p)), Done: d.note(p)})
}

func (d *desk) note(p int32) func(partition.AlterPartitionAnswered) {
	return func(a partition.AlterPartitionAnswered) {
		d.answers = append(d.answers, fmt.Sprintf("%d:%s", p, a.Code.KafkaName()))
	}
}

func (d *desk) mustSubmit(partitions ...int32) {
	d.t.Helper()
	for _, p := range partitions {
		if err := d.submit(p); err != nil {
			d.t.Fatal(err)
		}
	}
}

// expect takes the next request and checks which partitions it carries.
func (d *desk) expect(partitions ...int32) call {
	d.t.Helper()
	c := <-d.calls
	var got []int32
	for _, topic := range c.request.GetTopics() {
		for _, p := range topic.GetPartitions() {
			got = append(got, p.GetPartition())
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(partitions) {
		d.t.Fatalf("request carries %v, want %v", got, partitions)
	}
	return c
}

// answer replies with a code for each partition named.
func (c call) answer(codes map[int32]controllerpb.ErrorCode) {
	topic := &controllerpb.AlterPartitionTopicResult{TopicId: image.UUID{1}.Bytes()}
	for _, t := range c.request.GetTopics() {
		for _, p := range t.GetPartitions() {
			code, named := codes[p.GetPartition()]
			if !named {
				continue
			}
			r := &controllerpb.AlterPartitionResult{Partition: p.GetPartition()}
			if code != none {
				r.Error = controllerpb.NewError(code, "refused")
			} else {
				r.LeaderEpoch, r.PartitionEpoch, r.Isr = 5, 8, []int32{1, 2}
				r.LeaderRecoveryState = metadatapb.LeaderRecoveryState_LEADER_RECOVERY_STATE_RECOVERED
			}
			topic.Partitions = append(topic.Partitions, r)
		}
	}
	c.reply <- reply{response: &controllerpb.AlterPartitionResponse{Topics: []*controllerpb.AlterPartitionTopicResult{topic}}}
}

const (
	none          = controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED
	notController = controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER
	ineligible    = controllerpb.ErrorCode_ERROR_CODE_INELIGIBLE_REPLICA
)

func (d *desk) want(answers ...string) {
	d.t.Helper()
	synctest.Wait()
	if got := strings.Join(d.answers, " "); got != strings.Join(answers, " ") {
		d.t.Fatalf("answers %q, want %q", got, answers)
	}
	d.answers = nil
}

func TestLoneChangeIsSentAtOnce(t *testing.T) {
	run(t, nil, func(d *desk) {
		d.mustSubmit(0)
		c := d.expect(0)
		if c.at != 0 {
			t.Errorf("sent after %v", c.at)
		}
		r := c.request
		if r.GetBrokerId() != 1 || r.GetBrokerEpoch() != 101 {
			t.Errorf("sent by broker %d with epoch %d", r.GetBrokerId(), r.GetBrokerEpoch())
		}
		c.answer(map[int32]controllerpb.ErrorCode{0: none})
		d.want("0:NONE")
	})
}

// TestOnePendingChangeAPartition: p0 is in flight, a second item of it is not attempted; after the answer one is sent.
func TestOnePendingChangeAPartition(t *testing.T) {
	run(t, nil, func(d *desk) {
		d.mustSubmit(0)
		c := d.expect(0)
		if err := d.submit(0); !errors.Is(err, alterpartition.ErrNotAttempted) {
			t.Errorf("second item: %v", err)
		}
		c.answer(map[int32]controllerpb.ErrorCode{0: none})
		d.want("0:NONE")
		d.mustSubmit(0)
		d.expect(0).answer(map[int32]controllerpb.ErrorCode{0: none})
		d.want("0:NONE")
	})
}

// TestEverythingQueuedRidesAlong: p0 in flight, p1 to p9 queued; an empty answer; the second request carries all ten, at once.
func TestEverythingQueuedRidesAlong(t *testing.T) {
	run(t, nil, func(d *desk) {
		d.mustSubmit(0)
		c := d.expect(0)
		d.mustSubmit(1, 2, 3, 4, 5, 6, 7, 8, 9)
		c.answer(nil)
		c = d.expect(1, 2, 3, 4, 5, 6, 7, 8, 9, 0)
		if c.at != 0 {
			t.Errorf("second request after %v", c.at)
		}
		all := map[int32]controllerpb.ErrorCode{}
		for p := range int32(10) {
			all[p] = none
		}
		c.answer(all)
		synctest.Wait()
		if len(d.answers) != 10 || d.manager.Pending() != 0 {
			t.Errorf("%d answers, %d pending", len(d.answers), d.manager.Pending())
		}
	})
}

// TestTopLevelErrorsRetryTheBatch: the item stays and goes again after the backoff, with the broker epoch of then.
func TestTopLevelErrorsRetryTheBatch(t *testing.T) {
	for _, err := range []error{
		&client.Refusal{Code: controllerpb.ErrorCode_ERROR_CODE_STALE_BROKER_EPOCH},
		&client.Refusal{Code: controllerpb.ErrorCode_ERROR_CODE_CLUSTER_AUTHORIZATION_FAILED},
		&client.Refusal{Code: controllerpb.ErrorCode_ERROR_CODE_UNSUPPORTED_VERSION},
		client.ErrNoController,
		errors.New("broken pipe"),
	} {
		run(t, nil, func(d *desk) {
			d.mustSubmit(0)
			c := d.expect(0)
			d.epoch = 140
			c.reply <- reply{err: err}
			synctest.Wait()
			d.mustSubmit(1) // does not shorten the wait
			c = d.expect(0, 1)
			if c.at != 50*time.Millisecond || c.request.GetBrokerEpoch() != 140 {
				t.Errorf("%v: sent again after %v with epoch %d", err, c.at, c.request.GetBrokerEpoch())
			}
			c.answer(map[int32]controllerpb.ErrorCode{0: none, 1: none})
			d.want("0:NONE", "1:NONE")
		})
	}
}

// TestPartitionErrorsSettleTheItem: the owner is told, and the place is free.
func TestPartitionErrorsSettleTheItem(t *testing.T) {
	for _, code := range []controllerpb.ErrorCode{
		controllerpb.ErrorCode_ERROR_CODE_INVALID_UPDATE_VERSION,
		controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION,
		controllerpb.ErrorCode_ERROR_CODE_NOT_LEADER_OR_FOLLOWER,
		controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST,
		ineligible,
	} {
		run(t, nil, func(d *desk) {
			d.mustSubmit(0, 1)
			c := <-d.calls
			if len(c.request.GetTopics()[0].GetPartitions()) == 1 {
				c.answer(map[int32]controllerpb.ErrorCode{0: code})
				d.want("0:" + code.KafkaName())
				d.mustSubmit(0)
				c = d.expect(1)
			}
			c.answer(map[int32]controllerpb.ErrorCode{0: code, 1: none})
		})
	}
}

// TestDoneMaySubmit: the owner submits again out of Done, and the item is sent in a second request.
func TestDoneMaySubmit(t *testing.T) {
	run(t, nil, func(d *desk) {
		again := func(a partition.AlterPartitionAnswered) {
			if err := d.manager.Submit(alterpartition.Item{Partition: id(0), Proposal: a.Proposal, Repeat: true, Done: d.note(0)}); err != nil {
				t.Error(err)
			}
		}
		if err := d.manager.Submit(alterpartition.Item{Partition: id(0), Proposal: proposal(0), Done: again}); err != nil {
			t.Fatal(err)
		}
		d.expect(0).answer(map[int32]controllerpb.ErrorCode{0: controllerpb.ErrorCode_ERROR_CODE_NOT_LEADER_OR_FOLLOWER})
		c := d.expect(0)
		if c.at != 50*time.Millisecond {
			t.Errorf("a repetition alone was sent after %v", c.at)
		}
		c.answer(map[int32]controllerpb.ErrorCode{0: none})
		d.want("0:NONE")
	})
}

// TestNewItemEndsTheWaitOfRepetitions: and takes them along.
func TestNewItemEndsTheWaitOfRepetitions(t *testing.T) {
	run(t, nil, func(d *desk) {
		if err := d.manager.Submit(alterpartition.Item{Partition: id(0), Proposal: proposal(0), Repeat: true, Done: d.note(0)}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.AfterFunc(10*time.Millisecond, func() { d.mustSubmit(1) })
		c := d.expect(0, 1)
		if c.at != 10*time.Millisecond {
			t.Errorf("sent after %v", c.at)
		}
		c.answer(map[int32]controllerpb.ErrorCode{0: none, 1: none})
		d.want("0:NONE", "1:NONE")
	})
}

// TestNotControllerKeepsTheRest: a controller that is behind cannot refuse; what it committed counts.
func TestNotControllerKeepsTheRest(t *testing.T) {
	run(t, nil, func(d *desk) {
		d.mustSubmit(9)
		c := d.expect(9)
		d.mustSubmit(0, 1, 2)
		c.answer(map[int32]controllerpb.ErrorCode{9: none})
		d.expect(0, 1, 2).answer(map[int32]controllerpb.ErrorCode{0: none, 1: notController, 2: controllerpb.ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH})
		d.want("9:NONE", "0:NONE")
		d.expect(1, 2).answer(map[int32]controllerpb.ErrorCode{1: none, 2: none})
		d.want("1:NONE", "2:NONE")
	})
}

// TestNoAnswerInTime: after 2 s the same item goes to whoever is active then. INELIGIBLE_REPLICA proves nothing as long
// as the lost request may still arrive.
func TestIneligibleNeedsNoRival(t *testing.T) {
	run(t, nil, func(d *desk) {
		d.mustSubmit(0)
		d.expect(0) // no answer
		c := d.expect(0)
		if c.at != 2050*time.Millisecond {
			t.Errorf("sent again after %v", c.at)
		}
		sendings := 0
		for d.answers == nil {
			c.answer(map[int32]controllerpb.ErrorCode{0: ineligible})
			synctest.Wait()
			if d.answers == nil {
				c = d.expect(0)
				sendings++
			}
		}
		d.want("0:INELIGIBLE_REPLICA")
		if c.at < 6*time.Second || sendings > 100 {
			t.Errorf("passed on after %v and %d repetitions", c.at, sendings)
		}
	})
}

// A refusal that was on its way for long is no newer than its request: the lost copy may have been applied meanwhile.
func TestIneligibleCountsFromItsSending(t *testing.T) {
	run(t, nil, func(d *desk) {
		d.mustSubmit(0)
		d.expect(0) // no answer in 2 s; it may arrive until 6 s
		c := d.expect(0)
		for c.at < 4500*time.Millisecond {
			time.Sleep(500 * time.Millisecond)
			c.answer(map[int32]controllerpb.ErrorCode{0: ineligible})
			c = d.expect(0)
		}
		time.Sleep(1600 * time.Millisecond)
		c.answer(map[int32]controllerpb.ErrorCode{0: ineligible})
		synctest.Wait()
		if d.answers != nil {
			t.Fatalf("sent after %v and passed on after %v", c.at, time.Since(d.start))
		}
		c = d.expect(0)
		c.answer(map[int32]controllerpb.ErrorCode{0: ineligible})
		synctest.Wait()
		d.want("0:INELIGIBLE_REPLICA")
		if c.at < 6*time.Second {
			t.Errorf("passed on what was sent after %v", c.at)
		}
	})
}

// A proposal that is submitted again, for its answer settled nothing, may still have a rival: the copy that was lost before.
func TestRepeatedItemKeepsItsRival(t *testing.T) {
	run(t, nil, func(d *desk) {
		again := func(a partition.AlterPartitionAnswered) {
			if err := d.manager.Submit(alterpartition.Item{Partition: id(0), Proposal: a.Proposal, Repeat: true, Done: d.note(0)}); err != nil {
				t.Error(err)
			}
		}
		if err := d.manager.Submit(alterpartition.Item{Partition: id(0), Proposal: proposal(0), Done: again}); err != nil {
			t.Fatal(err)
		}
		d.expect(0) // no answer in 2 s; it may arrive until 6 s
		d.expect(0).answer(map[int32]controllerpb.ErrorCode{0: controllerpb.ErrorCode_ERROR_CODE_NOT_LEADER_OR_FOLLOWER})
		c := d.expect(0)
		for c.at < 6*time.Second {
			c.answer(map[int32]controllerpb.ErrorCode{0: ineligible})
			synctest.Wait()
			if d.answers != nil {
				t.Fatalf("passed on what was sent after %v", c.at)
			}
			c = d.expect(0)
		}
		c.answer(map[int32]controllerpb.ErrorCode{0: ineligible})
		d.want("0:INELIGIBLE_REPLICA")
		d.mustSubmit(0) // another proposal has none
		d.expect(0).answer(map[int32]controllerpb.ErrorCode{0: ineligible})
		d.want("0:INELIGIBLE_REPLICA")
	})
}

// TestThousandPartitions: as many changes at once go in two requests.
func TestThousandPartitions(t *testing.T) {
	run(t, nil, func(d *desk) {
		for p := range int32(1000) {
			d.mustSubmit(p)
		}
		requests, answered := 0, 0
		for answered < 1000 {
			c := <-d.calls
			requests++
			codes := map[int32]controllerpb.ErrorCode{}
			for _, p := range c.request.GetTopics()[0].GetPartitions() {
				codes[p.GetPartition()] = none
			}
			answered += len(codes)
			c.answer(codes)
		}
		synctest.Wait()
		if requests > 2 || len(d.answers) != 1000 {
			t.Errorf("%d requests, %d answers", requests, len(d.answers))
		}
	})
}

// TestItemsPerRequest: a request is bounded, and items that no answer names do not hold up the others.
func TestItemsPerRequest(t *testing.T) {
	run(t, func(c *alterpartition.Config) { c.ItemsPerRequestMax, c.ItemsMax = 2, 5 }, func(d *desk) {
		d.mustSubmit(9)
		c := d.expect(9)
		d.mustSubmit(0, 1, 2, 3)
		if err := d.submit(4); !errors.Is(err, alterpartition.ErrNotAttempted) {
			t.Errorf("a sixth item: %v", err)
		}
		c.answer(map[int32]controllerpb.ErrorCode{9: none})
		d.expect(0, 1).answer(nil)
		d.expect(2, 3).answer(map[int32]controllerpb.ErrorCode{2: none, 3: none})
		d.expect(0, 1).answer(map[int32]controllerpb.ErrorCode{0: none, 1: none})
		d.want("9:NONE", "2:NONE", "3:NONE", "0:NONE", "1:NONE")
	})
}

func TestConfigValidate(t *testing.T) {
	good := alterpartition.DefaultConfig(1, func() image.BrokerEpoch { return 1 })
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for field, change := range map[string]func(*alterpartition.Config){
		"BrokerID":           func(c *alterpartition.Config) { c.BrokerID = -1 },
		"BrokerEpoch":        func(c *alterpartition.Config) { c.BrokerEpoch = nil },
		"RequestTimeout":     func(c *alterpartition.Config) { c.RequestTimeout = 0 },
		"RetryBackoff":       func(c *alterpartition.Config) { c.RetryBackoff = 0 },
		"ProofDelay":         func(c *alterpartition.Config) { c.ProofDelay = time.Second },
		"ItemsPerRequestMax": func(c *alterpartition.Config) { c.ItemsPerRequestMax = 0 },
		"ItemsMax":           func(c *alterpartition.Config) { c.ItemsMax = 1 },
	} {
		c := good
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
