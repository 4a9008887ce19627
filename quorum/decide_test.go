package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/quorumtest"
)

// A read sees what was acknowledged before it was asked, from whichever controller answers the client next.
func TestReadSeesWhatWasAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		c.RegisterBroker(t, 1)
		for i := range 20 {
			name := fmt.Sprintf("topic-%d", i)
			c.CreateTopic(t, name, 1, 1)
			var got map[string]*controllerpb.TopicDescription
			// A stream that meets a former active controller is asked for again, as the commands do.
			err := c.Client.Do(soon(t), client.RepeatAlways, func(context.Context, grpc.ClientConnInterface) (err error) {
				got, err = topics(t, c, nil)
				return err
			})
			if err != nil || got[name] == nil {
				t.Fatalf("after the create of %s was acknowledged: %v, %v", name, got[name], err)
			}
			if i == 10 {
				c.Kill(t, c.Active(t))
				for _, m := range c.Members {
					if !m.Running() {
						c.Run(t, m)
					}
				}
			}
		}
	})
}

// F23: the first records are written once, also when the controller that decided them is cut off before they commit.
func TestF23BootstrapIsWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *quorumtest.Cluster
		var once sync.Once
		var first atomic.Pointer[quorumtest.Member]
		ready := make(chan struct{})
		c = quorumtest.Start(t, quorumtest.Options{Configure: func(cfg *quorum.Config) {
			cfg.Env.Hook = func(point string) {
				if point != "controller.propose" {
					return
				}
				once.Do(func() {
					<-ready
					for _, m := range c.Members {
						if m.Config.NodeID == cfg.NodeID {
							first.Store(m)
							c.Isolate(m)
						}
					}
				})
			}
		}})
		close(ready)
		quorumtest.Eventually(t, "the first active controller is cut off", func() error {
			if first.Load() == nil {
				return errors.New("not yet")
			}
			return nil
		})
		c.Active(t, first.Load())
		c.Join(first.Load())
		c.RegisterBroker(t, 1)
		c.SameImages(t)
		var dump string
		stream, err := controllerpb.NewReaderApiClient(c.Client).DumpImage(soon(t), &controllerpb.DumpImageRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for {
			piece, err := stream.Recv()
			if err != nil {
				break
			}
			dump += string(piece.GetData())
		}
		for _, want := range []string{"eligible.leader.replicas.version", "min.insync.replicas"} {
			if !strings.Contains(dump, want) {
				t.Errorf("%s is not in %s", want, dump)
			}
		}
	})
}

// Many callers at once: each gets its own answer, in far fewer entries than calls.
func TestCallersShareEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		b := c.RegisterBroker(t, 1)
		m := c.Active(t)
		before := m.Node.Metrics().EntriesCommitted.Load()
		const callers = 200
		firsts := make(chan int64, callers)
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				r, err := controllerpb.NewBrokerApiClient(c.Client).AllocateProducerIds(context.Background(),
					&controllerpb.AllocateProducerIdsRequest{BrokerId: 1, BrokerEpoch: b.Epoch})
				if err != nil {
					t.Error(err)
					return
				}
				firsts <- r.GetFirstProducerId()
			})
		}
		all.Wait()
		close(firsts)
		seen := map[int64]bool{}
		for id := range firsts {
			if seen[id] {
				t.Errorf("block %d was handed out twice", id)
			}
			seen[id] = true
		}
		entries := m.Node.Metrics().EntriesCommitted.Load() - before
		t.Logf("%d calls in %d entries", callers, entries)
		if len(seen) != callers || entries > callers {
			t.Errorf("%d blocks in %d entries", len(seen), entries)
		}
	})
}

// An atomic request above the limits is refused whole, names limit and size, and leaves no record.
func TestAtomicRequestAboveTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{Controllers: 1})
		c.RegisterBroker(t, 1)
		<-time.After(3 * time.Second) // the controller's own registration
		before := offsetOf(c.Members[0])
		partitions, one := int32(10_001), int32(1)
		_, err := controllerpb.NewOperatorApiClient(c.Client).CreateTopics(soon(t), &controllerpb.CreateTopicsRequest{
			Topics: []*controllerpb.CreatableTopic{{Name: "huge", Partitions: &partitions, ReplicationFactor: &one}},
		})
		refused, ok := client.AsRefusal(err)
		if !ok || refused.Code != controllerpb.ErrorCode_ERROR_CODE_POLICY_VIOLATION || !strings.Contains(refused.Message, "10000") || !strings.Contains(refused.Message, "10002") {
			t.Errorf("refused with %v", err)
		}
		<-time.After(time.Second)
		if after := offsetOf(c.Members[0]); after != before {
			t.Errorf("the refused request moved the offset from %d to %d", before, after)
		}
	})
}

// A request whose caller has given up is not decided behind its back once it waited in the queue.
func TestStoppedNodeRefusesWithoutHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{Controllers: 1})
		c.RegisterBroker(t, 1)
		m := c.Members[0]
		outcomes := make(chan error, 50)
		for i := range 50 {
			go func() {
				one := int32(1)
				_, err := controllerpb.NewOperatorApiClient(c.Conn(t, m)).CreateTopics(soon(t), &controllerpb.CreateTopicsRequest{
					Topics: []*controllerpb.CreatableTopic{{Name: fmt.Sprint("t", i), Partitions: &one, ReplicationFactor: &one}},
				})
				outcomes <- err
			}()
		}
		if err := m.Stop(); err != nil {
			t.Fatal(err)
		}
		for range 50 {
			<-outcomes // each caller is answered, one way or the other
		}
	})
}
