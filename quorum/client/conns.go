package client

import (
	"context"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// conns holds one lazy connection an address.
type conns struct {
	options []grpc.DialOption

	mu     sync.Mutex
	open   map[string]*grpc.ClientConn
	order  []string // by last use, oldest first
	closed bool
}

// get returns the connection to an address; it connects when it is first used.
func (cs *conns) get(address string) (*grpc.ClientConn, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.closed {
		return nil, ErrClosed
	}
	if cc, ok := cs.open[address]; ok {
		cs.touch(address)
		return cc, nil
	}
	if len(cs.open) >= connectionsMax {
		oldest := cs.order[0]
		cs.order = cs.order[1:]
		cs.open[oldest].Close()
		delete(cs.open, oldest)
	}
	cc, err := grpc.NewClient(Target(address), cs.options...)
	if err != nil {
		return nil, err
	}
	cs.open[address] = cc
	cs.order = append(cs.order, address)
	return cc, nil
}

func (cs *conns) touch(address string) {
	for i, a := range cs.order {
		if a == address {
			cs.order = append(append(cs.order[:i:i], cs.order[i+1:]...), address)
			return
		}
	}
}

func (cs *conns) close() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.closed = true
	for _, cc := range cs.open {
		cc.Close()
	}
	cs.open = nil
}

// sentKey marks the context of a request with a flag that is set when its first byte may have left.
type sentKey struct{}

// sentMark watches calls for the moment from which their outcome may be unknown.
type sentMark struct{}

func (sentMark) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (sentMark) HandleRPC(ctx context.Context, s stats.RPCStats) {
	switch s.(type) {
	case *stats.OutHeader, *stats.OutPayload:
		if sent, ok := ctx.Value(sentKey{}).(*atomic.Bool); ok {
			sent.Store(true)
		}
	}
}

func (sentMark) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (sentMark) HandleConn(context.Context, stats.ConnStats)                       {}
