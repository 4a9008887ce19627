package replica_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/broker/replica"
	"github.com/quorate/quorate/fsm/image"
	brokerpb "github.com/quorate/quorate/proto/broker/v1"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
)

// peer speaks the protocol by hand.
type peer struct {
	r      *rig
	conn   *grpc.ClientConn
	stream brokerpb.ReplicaApi_FetchClient
	cancel context.CancelFunc
	number int64
}

func (r *rig) peer() *peer {
	conn, err := grpc.NewClient(client.Target(leaderAddress), client.DialOptions(r.network.Host("n4"), nil)...)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	stream, err := brokerpb.NewReplicaApiClient(conn).Fetch(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return &peer{r: r, conn: conn, stream: stream, cancel: cancel}
}

func (p *peer) close() {
	p.cancel()
	p.conn.Close()
}

// ask sends a request of broker 4 with epoch 104 for the positions named.
func (p *peer) ask(change func(*brokerpb.ReplicaFetchRequest), positions ...*brokerpb.FetchPartition) {
	p.r.t.Helper()
	p.number++
	request := &brokerpb.ReplicaFetchRequest{
		RequestId: p.number, ReplicaId: 4, ReplicaBrokerEpoch: 104, LeaderId: 1, MaxWaitMs: 500, MaxBytes: 1 << 20, Partitions: positions,
	}
	if change != nil {
		change(request)
	}
	if err := p.stream.Send(request); err != nil {
		p.r.t.Fatal(err)
	}
}

// answer receives and prints one answer, with the time since the rig began.
func (p *peer) answer() string {
	r, err := p.stream.Recv()
	if err != nil {
		return "ended: " + err.Error()
	}
	out := fmt.Sprintf("#%d at %v", r.GetRequestId(), time.Since(p.r.start))
	if e := r.GetError(); e != nil {
		return out + " " + e.GetCode().KafkaName()
	}
	for _, e := range r.GetPartitions() {
		out += fmt.Sprintf(" %d{hw=%d bytes=%d", e.GetPartition(), e.GetHighWatermark(), len(e.GetRecords()))
		if e.GetError() != nil {
			out += " " + e.GetError().GetCode().KafkaName()
		}
		out += "}"
	}
	return out
}

func (p *peer) want(answer string) {
	p.r.t.Helper()
	if got := p.answer(); got != answer {
		p.r.t.Errorf("answer %q, want %q", got, answer)
	}
}

func at(p int32, offset int64) *brokerpb.FetchPartition {
	return &brokerpb.FetchPartition{TopicId: image.UUID{7}.Bytes(), Partition: p, FetchOffset: offset, CurrentLeaderEpoch: 1, MaxBytes: 1 << 20}
}

// TestSession: positions stay, answers hold news only, and a partition that was answered waits for its new position.
func TestSession(t *testing.T) {
	bubble(t, tune{}, func(r *rig) {
		r.host(1, 0, 1)
		p := r.peer()
		defer p.close()
		p.ask(nil, at(0, 0), at(1, 1)) // counting 1 moves its watermark, which is looked at again
		p.want("#1 at 0s 0{hw=0 bytes=16} 1{hw=1 bytes=0}")
		p.ask(nil) // 0 has not said where it is now
		p.want("#2 at 500ms")
		p.ask(nil, at(0, 1))
		p.want("#3 at 510ms 0{hw=1 bytes=0}")
		p.ask(func(q *brokerpb.ReplicaFetchRequest) {
			q.Forgotten = []*brokerpb.ForgottenPartition{{TopicId: image.UUID{7}.Bytes(), Partition: 0}, {TopicId: []byte("x")}}
		})
		r.after(time.Millisecond)
		r.leader.write(pid(0), 1, 0)
		p.want("#4 at 1.01s")
	})
}

// TestWatermarkRidesWithRecords: offsets alone are held back for a moment, and records that come then ride along.
func TestWatermarkRidesWithRecords(t *testing.T) {
	bubble(t, tune{}, func(r *rig) {
		r.host(1, 0)
		p := r.peer()
		defer p.close()
		p.ask(nil, at(0, 0))
		p.want("#1 at 0s 0{hw=0 bytes=16}")
		p.ask(nil, at(0, 1))
		r.after(4 * time.Millisecond)
		r.leader.write(pid(0), 1, 0)
		p.want("#2 at 4ms 0{hw=1 bytes=16}")
	})
}

// TestNextRequestEndsTheWait: of the one before it, whose answer comes first.
func TestNextRequestEndsTheWait(t *testing.T) {
	bubble(t, tune{}, func(r *rig) {
		r.host(1, 0, 1)
		p := r.peer()
		defer p.close()
		p.ask(nil, at(0, 1))
		p.want("#1 at 10ms 0{hw=1 bytes=0}")
		p.ask(nil)
		r.after(100 * time.Millisecond)
		p.ask(nil, at(1, 0))
		p.want("#2 at 110ms")
		p.want("#3 at 110ms 1{hw=0 bytes=16}")
	})
}

// TestErrorIsAnsweredAtOnce: and the partition waits until it is named again, with its offsets in any case then.
func TestErrorIsAnsweredAtOnce(t *testing.T) {
	bubble(t, tune{}, func(r *rig) {
		r.host(1, 0)
		r.leader.partitions[pid(0)].refuse = []controllerpb.ErrorCode{controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_LEADER_EPOCH}
		p := r.peer()
		defer p.close()
		p.ask(nil, at(0, 1))
		p.want("#1 at 0s 0{hw=0 bytes=0 UNKNOWN_LEADER_EPOCH}")
		p.ask(nil)
		p.want("#2 at 500ms")
		p.ask(nil, at(0, 1))
		p.want("#3 at 510ms 0{hw=1 bytes=0}")
	})
}

// TestWholeRefusals: a request that cannot be meant for this session ends the stream.
func TestWholeRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*brokerpb.ReplicaFetchRequest)
		code   string
	}{
		"another leader":  {func(q *brokerpb.ReplicaFetchRequest) { q.LeaderId = 3 }, "NOT_LEADER_OR_FOLLOWER"},
		"another life":    {func(q *brokerpb.ReplicaFetchRequest) { q.ReplicaBrokerEpoch = 105 }, "STALE_BROKER_EPOCH"},
		"another replica": {func(q *brokerpb.ReplicaFetchRequest) { q.ReplicaId = 5 }, "INVALID_REQUEST"},
		"too many partitions": {func(q *brokerpb.ReplicaFetchRequest) {
			q.Partitions = append(q.Partitions, at(1, 0), at(2, 0), at(3, 0))
		}, "INVALID_REQUEST"},
		"a broken topic id": {func(q *brokerpb.ReplicaFetchRequest) {
			q.Partitions = append(q.Partitions, &brokerpb.FetchPartition{TopicId: []byte("x")})
		}, "INVALID_REQUEST"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, tune{server: func(s *replica.ServerConfig) { s.PartitionsMax = 3 }}, func(r *rig) {
				r.host(1, 0, 1, 2, 3)
				p := r.peer()
				defer p.close()
				p.ask(nil, at(0, 1))
				p.want("#1 at 10ms 0{hw=1 bytes=0}")
				p.ask(c.change)
				p.want("#2 at 10ms " + c.code)
				p.want("ended: EOF")
				synctest.Wait()
				if n := r.leader.server.Sessions(); n != 0 {
					t.Errorf("%d sessions", n)
				}
			})
		})
	}
	bubble(t, tune{}, func(r *rig) {
		p := r.peer()
		defer p.close()
		p.ask(func(q *brokerpb.ReplicaFetchRequest) { q.ReplicaId = -1 }, at(0, 0))
		p.want("#1 at 0s INVALID_REQUEST")
	})
}

// TestOneStreamAReplica: a new stream takes over; one of a former life of the broker does not.
func TestOneStreamAReplica(t *testing.T) {
	bubble(t, tune{}, func(r *rig) {
		r.host(1, 0)
		first := r.peer()
		defer first.close()
		first.ask(nil, at(0, 1))
		first.want("#1 at 10ms 0{hw=1 bytes=0}")
		first.ask(nil)
		second := r.peer()
		defer second.close()
		second.ask(nil, at(0, 1))
		if got := first.answer(); !strings.HasPrefix(got, "ended: ") {
			t.Errorf("the first stream got %q", got)
		}
		second.want("#1 at 20ms 0{hw=1 bytes=0}")
		stale := r.peer()
		defer stale.close()
		stale.ask(func(q *brokerpb.ReplicaFetchRequest) { q.ReplicaBrokerEpoch = 103 }, at(0, 1))
		stale.want("#1 at 20ms STALE_BROKER_EPOCH")
		if n := r.leader.server.Sessions(); n != 1 {
			t.Errorf("%d sessions", n)
		}
	})
}

// TestWaitIsBounded: a request may not ask for more than the server's limit, and 0 means no wait.
func TestWaitIsBounded(t *testing.T) {
	bubble(t, tune{server: func(s *replica.ServerConfig) { s.WaitMax = time.Second }}, func(r *rig) {
		p := r.peer()
		defer p.close()
		p.ask(func(q *brokerpb.ReplicaFetchRequest) { q.MaxWaitMs = 3_600_000 })
		p.want("#1 at 1s")
		p.ask(func(q *brokerpb.ReplicaFetchRequest) { q.MaxWaitMs = 0 })
		p.want("#2 at 1s")
	})
}

// TestEntriesMax: an answer is bounded by entries too; the rest follows.
func TestEntriesMax(t *testing.T) {
	bubble(t, tune{server: func(s *replica.ServerConfig) { s.EntriesMax = 2 }}, func(r *rig) {
		r.host(0, 0, 1, 2)
		p := r.peer()
		defer p.close()
		p.ask(nil, at(0, 0), at(1, 0), at(2, 0))
		p.want("#1 at 0s 0{hw=0 bytes=0} 1{hw=0 bytes=0}")
		p.ask(nil)
		p.want("#2 at 10ms 2{hw=0 bytes=0}")
	})
}

func TestConfigsValidate(t *testing.T) {
	server := replica.DefaultServerConfig(1)
	if err := server.Validate(); err != nil {
		t.Error(err)
	}
	for field, change := range map[string]func(*replica.ServerConfig){
		"BrokerID":       func(c *replica.ServerConfig) { c.BrokerID = -1 },
		"AnswerBytesMax": func(c *replica.ServerConfig) { c.AnswerBytesMax = 0 },
		"EntriesMax":     func(c *replica.ServerConfig) { c.EntriesMax = 0 },
		"PartitionsMax":  func(c *replica.ServerConfig) { c.PartitionsMax = 0 },
		"WaitMax":        func(c *replica.ServerConfig) { c.WaitMax = 0 },
		"WatermarkDelay": func(c *replica.ServerConfig) { c.WatermarkDelay = 0 },
		"SweepInterval":  func(c *replica.ServerConfig) { c.SweepInterval = 0 },
	} {
		c := server
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	good := replica.DefaultConfig(1, func() image.BrokerEpoch { return 1 })
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for field, change := range map[string]func(*replica.Config){
		"BrokerID":                func(c *replica.Config) { c.BrokerID = -1 },
		"BrokerEpoch":             func(c *replica.Config) { c.BrokerEpoch = nil },
		"Wait":                    func(c *replica.Config) { c.Wait = 0 },
		"AnswerMargin":            func(c *replica.Config) { c.AnswerMargin = 0 },
		"AnswerBytesMax":          func(c *replica.Config) { c.AnswerBytesMax = 0 },
		"PartitionBytesMax":       func(c *replica.Config) { c.PartitionBytesMax = 0 },
		"PartitionsPerRequestMax": func(c *replica.Config) { c.PartitionsPerRequestMax = 0 },
		"BackoffMin":              func(c *replica.Config) { c.BackoffMin = 0 },
		"BackoffMax":              func(c *replica.Config) { c.BackoffMax = 0 },
		"ReconnectMin":            func(c *replica.Config) { c.ReconnectMin = 0 },
		"ReconnectMax":            func(c *replica.Config) { c.ReconnectMax = 0 },
		"IdleTimeout":             func(c *replica.Config) { c.IdleTimeout = 0 },
	} {
		c := good
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
