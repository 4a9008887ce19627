package client

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// Controller is the active controller as it said of itself.
type Controller struct {
	ID int32
	// Address is host:port of its GRPC listener.
	Address string
	// ControllerEpoch is the Raft term of its claim.
	ControllerEpoch uint64
	// Lineage is that of its log.
	Lineage int32
}

// Client talks to the active controller, whoever it is.
type Client struct {
	cfg    Config
	logger *slog.Logger
	conns  conns

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // rounds

	// newest is the newest lineage that any controller has told of.
	newest atomic.Int32

	mu      sync.Mutex
	learned []string    // addresses that answers named, newest answers first
	active  *Controller // nil while nobody is known
	epoch   rank        // highest ever followed
	round   *round      // the search under way
	closed  bool
}

// New returns a client that has connected to nobody yet.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Controllers = slices.Clone(cfg.Controllers)
	logger := cfg.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	options := append(DialOptions(cfg.Network, cfg.TLS), grpc.WithStatsHandler(sentMark{}))
	ctx, cancel := context.WithCancel(context.Background())
	c := &Client{cfg: cfg, logger: logger, ctx: ctx, cancel: cancel}
	c.conns = conns{options: append(options, c.lineageOptions()...), open: make(map[string]*grpc.ClientConn)}
	return c, nil
}

// Close ends all connections and waits for the client's goroutines. Requests under way fail.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.wg.Wait()
	c.conns.close()
	return nil
}

// Conn is the connection to one node's GRPC address. It belongs to the client and is made when first used.
func (c *Client) Conn(address string) (*grpc.ClientConn, error) { return c.conns.get(address) }

// Known lists the addresses of controllers: those configured, then those that answers named.
func (c *Client) Known() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(c.cfg.Controllers)
	for _, a := range c.learned {
		if len(all) < controllersMax && !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}

// Observe teaches the client who is active, as a heartbeat's answer or a metadata stream told. An older lineage,
// or a lower controller epoch in the same one, is ignored. A higher one is not followed blindly: the next request asks all controllers.
func (c *Client) Observe(a *controllerpb.ActiveController) {
	c.see(a.GetLineage())
	if a.GetAddress() == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.learn(a.GetAddress())
	if c.active != nil && rankOf(a).above(c.active.rank()) {
		c.active = nil
	}
}

// learn keeps an address, newest first. The caller holds the lock.
func (c *Client) learn(addresses ...string) {
	for _, a := range addresses {
		if a == "" || slices.Contains(c.cfg.Controllers, a) {
			continue
		}
		if i := slices.Index(c.learned, a); i >= 0 {
			c.learned = slices.Delete(c.learned, i, i+1)
		}
		c.learned = slices.Insert(c.learned, 0, a)
	}
	c.learned = c.learned[:min(len(c.learned), controllersMax)]
}

// Cached is the active controller followed now, if any, without asking.
func (c *Client) Cached() (Controller, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active == nil {
		return Controller{}, false
	}
	return *c.active, true
}

// Active is the active controller: the one followed now, or one found by asking until the context ends
// ([ErrNoController], with what each said in the last round that was finished).
func (c *Client) Active(ctx context.Context) (Controller, error) {
	var said error
	wait := roundWaitMin
	for rounds := 0; ; rounds++ {
		if a, ok := c.Cached(); ok {
			return a, nil
		}
		a, err := c.locate(ctx, rounds)
		if err == nil || errors.Is(err, ErrClosed) {
			return a, err
		}
		if said == nil || ctx.Err() == nil {
			said = err
		}
		if !sleep(ctx, wait) {
			return Controller{}, said
		}
		wait = min(2*wait, roundWaitMax)
	}
}

// follow makes a controller the one that requests go to.
func (c *Client) follow(a Controller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active == nil || *c.active != a {
		c.logger.Debug("following the active controller", "id", a.ID, "address", a.Address, "controllerEpoch", a.ControllerEpoch)
	}
	c.active = &a
	c.epoch = c.epoch.orHigher(a.rank())
}

// forget stops following a controller that refused or did not answer.
func (c *Client) forget(a Controller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active != nil && *c.active == a {
		c.active = nil
	}
}
