package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/alterpartition"
	"github.com/quorate/quorate/broker/kafka"
	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/fsm/image"
	brokerpb "github.com/quorate/quorate/proto/broker/v1"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/env"
)

// Broker is one broker process. New makes it, Run does everything.
type Broker struct {
	cfg  Config
	env  *env.Env
	log  *slog.Logger
	grpc struct {
		broker   controllerpb.BrokerApiClient
		operator controllerpb.OperatorApiClient
	}

	metrics      *metrics
	kafkaMetrics *prometheus.Registry // of the KAFKA listener
	connections  client.Connections   // of the GRPC listener
	client       *client.Client
	follower     *follower
	lifecycle    *lifecycleLoop
	kept         *keptOffset
	used         *usedLogs
	logs         *log.Manager
	replicas     *replicas
	alter        *alterpartition.Manager
	fetcher      *fetcher
	producerIDs  *producerIDs
	kafka        *kafka.Server
	server       *server

	// newest is the newest image followed, applied the newest acted on.
	newest, applied *imageCell

	incarnation image.UUID
	// judgedIn is the lineage of the metadata by which the last registration sent has judged the logs, registeredIn that of the last
	// one that a controller took.
	judgedIn, registeredIn atomic.Int32
	stopped                log.Stop                       // how the former life ended
	onDisk                 map[image.PartitionID]struct{} // logs at the start
	reported               image.BrokerEpoch              // the lifecycle's: a controller knows of that end, by this registration

	running  atomic.Bool
	keptAt   atomic.Pointer[image.Position] // the kept position as the former life left it
	serving  atomic.Bool                    // the first image has been acted on
	recovery oneShot                        // the lifecycle has come to RECOVERY
	begun    oneShot                        // the first image has been acted on
	failed   oneShot
	done     chan struct{} // closed when Run returns

	failure struct {
		sync.Mutex
		err error
	}
}

// ErrRunning says that Run was called twice.
var ErrRunning = errors.New("broker: already running")

// New makes a broker and does no work: nothing is opened, read or sent before Run. The error names the field at fault.
func New(cfg Config, e *env.Env, logger *slog.Logger) (*Broker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	b := &Broker{
		cfg: cfg, env: e, log: logger.With("broker", int32(cfg.ID)), metrics: newMetrics(),
		kafkaMetrics: prometheus.NewRegistry(), reported: image.NoBrokerEpoch,
		newest: newImageCell(), applied: newImageCell(),
		recovery: newOneShot(), begun: newOneShot(), failed: newOneShot(), done: make(chan struct{}),
	}
	c, err := client.New(client.Config{Network: e.Network, Controllers: cfg.Controllers, ClusterID: cfg.ClusterID, TLS: cfg.TLS, Logger: b.log})
	if err != nil {
		return nil, err
	}
	b.client = c
	b.grpc.broker, b.grpc.operator = controllerpb.NewBrokerApiClient(c), controllerpb.NewOperatorApiClient(c)
	if err := b.makeParts(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return b, nil
}

// makeParts makes the parts and ties them together.
func (b *Broker) makeParts() error {
	b.kept = newKeptOffset(b.env, b.cfg.LogDir, b.log)
	b.used = newUsedLogs(b.env, b.cfg.LogDir, b.cfg.DirectoryID, b.log)
	b.follower = newFollower(&b.cfg, openVia(b.client), b.metrics, b.env.Now, b.log)
	b.follower.taken = b.newest.set
	b.lifecycle = newLifecycleLoop(&b.cfg, b.lifecycleInputs(), b.env.Now, b.log)
	b.follower.caughtUp = b.lifecycle.judgeable.fire
	if err := b.makeReplicas(); err != nil {
		return err
	}
	b.producerIDs = newProducerIDs(b.allocateProducerIDs, b.log)
	b.kafka = kafka.NewServer(b.cfg.Kafka, kafka.Backend{
		Metadata: clusterView{b}, Configs: settingsOf(b.cfg.Settings), Partitions: b.replicas,
		Admin: &admin{
			id: b.cfg.ID, operator: b.grpc.operator, reader: controllerpb.NewReaderApiClient(b.client), now: b.env.Now, applied: b.applied, newest: b.newest.image,
			connect: func(address string) (grpc.ClientConnInterface, error) { return b.client.Conn(address) },
		},
		ProducerIDs: b.producerIDs,
	}, b.env.Clock, b.log, kafka.NewMetrics(b.kafkaMetrics))
	b.server = newServer(reads{b}, b.RegisterServices, b.cfg.TLS)
	return nil
}

// makeReplicas makes the replica manager and what serves it.
func (b *Broker) makeReplicas() error {
	alter, err := alterpartition.New(alterpartition.DefaultConfig(b.cfg.ID, b.epoch), b.env.Clock, alterpartition.Via(b.client), b.log)
	if err != nil {
		return err
	}
	b.alter = alter
	rs := &replicas{
		self: b.cfg.ID, base: b.cfg.Log, kept: b.kept, used: b.used, applied: b.applied, metrics: b.metrics, log: b.log,
		deletions: newDeletions(), fail: b.fail, at: b.env.At,
		hosted: make(map[image.PartitionID]*hostedReplica), offline: make(map[image.PartitionID]error),
	}
	rs.taken.Store(image.Empty())
	logs := b.cfg.Logs
	logs.Dir, logs.Log, logs.StrayDelay = b.cfg.LogDir, b.cfg.Log, b.cfg.StrayDelay
	logs.OnFailure = func(name log.Name, err error) { b.fail("log "+name.String(), err) }
	logs.OnRemoved, logs.Decompress = rs.removed, decompress
	if b.logs, err = log.NewManager(b.env, b.log, logs); err != nil {
		return err
	}
	rs.logs, rs.disown = b.logs, b.disown
	rs.registeredIn = func() image.LineageNumber { return image.LineageNumber(b.registeredIn.Load()) }
	b.replicas = rs
	if b.fetcher, err = newFetcher(b); err != nil {
		return err
	}
	rs.fetches = b.fetcher
	rs.deps = &replicaDeps{
		self: b.cfg.ID, lagTimeMax: b.cfg.LagTimeMax, epoch: b.epoch, brokers: b.newest.image, now: b.env.Now,
		submit:  b.alter.Submit,
		changed: func(id image.PartitionID) { b.kafka.Notify(id); b.fetcher.changed(id) },
		appended: func(id image.PartitionID) {
			b.fetcher.changed(id)
		},
		metrics: b.metrics, slog: b.log,
	}
	return nil
}

// epoch is that of the present registration.
func (b *Broker) epoch() image.BrokerEpoch { return b.lifecycle.current().epoch }

// fail ends the broker: its leaderships are handed over if the controller can be reached, then Run returns the error.
// Any goroutine may call it, under any lock; the first failure counts.
func (b *Broker) fail(what string, err error) {
	b.failure.Lock()
	if b.failure.err == nil {
		b.failure.err = fmt.Errorf("broker: %s: %w", what, err)
	}
	b.failure.Unlock()
	b.failed.fire()
}

// Register registers the metrics of the broker and of its Kafka listener.
func (b *Broker) Register(reg prometheus.Registerer) error {
	var errs []error
	all := append(b.metrics.collectors(), newPartitionCollector(b.replicas, b.fetcher.manager), b.kafkaMetrics)
	if !b.cfg.Attached {
		all = append(all, b.connections.Collectors()...)
	}
	for _, c := range all {
		errs = append(errs, reg.Register(c))
	}
	return errors.Join(errs...)
}

// RegisterServices adds what only a broker serves to a GRPC server: its own, or for an attached broker another one of the
// same process.
func (b *Broker) RegisterServices(r grpc.ServiceRegistrar) {
	b.fetcher.register(r)
	brokerpb.RegisterReplicaStatusApiServer(r, replicaStatus{b: b})
}

// WaitMetadata returns when this broker has acted on the offset and holds nothing more of the deleted topics that the request
// names; it gives the offset that the broker has acted on. It may be called from any goroutine.
func (b *Broker) WaitMetadata(ctx context.Context, r *controllerpb.WaitMetadataRequest) (image.MetadataOffset, error) {
	return reads{b}.Wait(ctx, r)
}

// listen binds both listeners, so that a taken port is told before anything has changed.
func (b *Broker) listen(ctx context.Context) (kafkaLn, grpcLn net.Listener, err error) {
	if kafkaLn, err = b.env.Network.Listen(ctx, b.cfg.KafkaAddress); err != nil {
		return nil, nil, fmt.Errorf("broker: KAFKA listener on %s: %w; free the port or set listeners", b.cfg.KafkaAddress, err)
	}
	if b.cfg.Attached {
		return kafkaLn, nil, nil
	}
	if grpcLn, err = b.env.Network.Listen(ctx, b.cfg.GRPCAddress); err != nil {
		err = fmt.Errorf("broker: GRPC listener on %s: %w; free the port or set listeners", b.cfg.GRPCAddress, err)
		return nil, nil, errors.Join(err, kafkaLn.Close())
	}
	return kafkaLn, b.connections.Count(grpcLn, b.cfg.TLS), nil
}

// newIncarnation draws the id of this life.
func newIncarnation() (id image.UUID, err error) {
	if _, err = rand.Read(id[:]); err != nil {
		return id, fmt.Errorf("broker: no random bytes for the incarnation id: %w", err)
	}
	return id, nil
}

// clusterView is the metadata as clients see it.
type clusterView struct{ b *Broker }

func (v clusterView) Image() *image.Image      { return v.b.replicas.image() }
func (v clusterView) BrokerID() image.BrokerID { return v.b.cfg.ID }
func (v clusterView) ClusterID() string        { return v.b.cfg.ClusterID }

// noSettings knows no values.
type noSettings struct{}

func (noSettings) Default(string) (string, bool) { return "", false }
func (noSettings) Static(string) (string, bool)  { return "", false }

func settingsOf(s kafka.Configs) kafka.Configs {
	if s == nil {
		return noSettings{}
	}
	return s
}
