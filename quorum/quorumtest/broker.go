package quorumtest

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/client"
)

// heartbeatInterval is how often a test broker beats.
const heartbeatInterval = 500 * time.Millisecond

// Broker is what a controller sees of a broker: it registers, beats, and says that it has applied what is committed.
type Broker struct {
	ID    int32
	Epoch int64
	// Registration may be changed before Register.
	Registration *controllerpb.RegisterBrokerRequest

	// offset is what the broker says it has applied: everything that it has heard of.
	mu      sync.Mutex
	offset  int64
	cluster *Cluster
	api     controllerpb.BrokerApiClient
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

// NewBroker makes a broker that has not registered.
func (c *Cluster) NewBroker(id int32, life byte) *Broker {
	b := &Broker{ID: id, cluster: c, api: controllerpb.NewBrokerApiClient(c.Client)}
	b.Registration = &controllerpb.RegisterBrokerRequest{
		ClusterId: ClusterID, BrokerId: id, IncarnationId: idOf(10+life, byte(id)).Bytes(), DirectoryId: idOf(3, byte(id)).Bytes(),
		Listeners: []*metadatapb.Listener{{Name: "KAFKA", Host: "b" + strconv.Itoa(int(id)), Port: 9092}},
		StopKind:  metadatapb.StopKind_STOP_KIND_NEVER_RAN, JudgedOffset: 1 << 40,
		Features: image.DeclaredFeatures(),
	}
	return b
}

// RegisterBroker registers a broker, begins its heartbeats and waits until it is unfenced.
func (c *Cluster) RegisterBroker(t testing.TB, id int32) *Broker {
	t.Helper()
	b := c.NewBroker(id, 0)
	b.Register(t)
	b.Beat(t)
	return b
}

// Register registers until it is accepted, as a broker does.
func (b *Broker) Register(t testing.TB) {
	t.Helper()
	Eventually(t, "the broker is registered", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		r, err := b.api.RegisterBroker(ctx, b.Registration)
		if err == nil {
			b.Epoch, b.offset = r.GetBrokerEpoch(), r.GetRegistrationOffset()
		}
		return err
	})
}

// Beat begins the heartbeats and waits until the broker is unfenced.
func (b *Broker) Beat(t testing.TB) {
	t.Helper()
	Eventually(t, "the broker is unfenced", func() error {
		r, err := b.Heartbeat(false)
		if err == nil && r.GetIsFenced() {
			err = errors.New("fenced")
		}
		return err
	})
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	b.done.Go(func() {
		tick := time.NewTicker(heartbeatInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				_, _ = b.Heartbeat(false)
			}
		}
	})
	t.Cleanup(b.Silence)
}

// Heartbeat sends one heartbeat.
func (b *Broker) Heartbeat(wantShutDown bool) (*controllerpb.BrokerHeartbeatResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	r, err := b.api.BrokerHeartbeat(ctx, &controllerpb.BrokerHeartbeatRequest{
		BrokerId: b.ID, BrokerEpoch: b.Epoch, MetadataOffset: b.offset, WantShutDown: wantShutDown,
	})
	if err == nil {
		b.offset = max(b.offset, r.GetCommittedOffset())
	}
	return r, err
}

// Silence ends the heartbeats.
func (b *Broker) Silence() {
	if b.cancel != nil {
		b.cancel()
	}
	b.done.Wait()
}

// CreateTopic creates a topic, and repeats it as a caller who carries the topic's id may.
func (c *Cluster) CreateTopic(t testing.TB, name string, partitions, replicationFactor int32) image.TopicID {
	t.Helper()
	id := idOf(20, byte(len(name)))
	copy(id[4:], name)
	request := &controllerpb.CreateTopicsRequest{Topics: []*controllerpb.CreatableTopic{{
		Name: name, Partitions: &partitions, ReplicationFactor: &replicationFactor, TopicId: id.Bytes(),
	}}}
	Eventually(t, "create "+name, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		r, err := controllerpb.NewOperatorApiClient(c.Client).CreateTopics(ctx, request)
		if err != nil {
			return err
		}
		if e := r.GetTopics()[0].GetError(); e != nil {
			t.Fatalf("create %s: %v", name, e)
		}
		return nil
	})
	return id
}

// Conn is a connection to one member, leader or not.
func (c *Cluster) Conn(t testing.TB, m *Member) *grpc.ClientConn {
	t.Helper()
	conn, err := c.Client.Conn(m.Config.GRPCAddress)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// Refused tells whether an error is a refusal with the code.
func Refused(err error, code controllerpb.ErrorCode) bool {
	r, ok := client.AsRefusal(err)
	return ok && r.Code == code
}

func idOf(kind, n byte) image.UUID {
	return image.UUID{kind, n, 1, 1, 1, 1, 0x41, 1, 0x81, 1, 1, 1, 1, 1, 1, 1}
}

func listenerOf(name, address string) *metadatapb.Listener {
	host, port, _ := net.SplitHostPort(address)
	n, _ := strconv.Atoi(port)
	return &metadatapb.Listener{Name: name, Host: host, Port: uint32(n)}
}

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
