package node

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
)

// Limits of the HTTP listener.
const (
	httpHeaderTimeout   = 5 * time.Second
	httpReadTimeout     = 10 * time.Second
	httpWriteTimeout    = 60 * time.Second // a CPU profile takes 30 s
	httpIdleTimeout     = time.Minute
	httpHeaderBytesMax  = 16 << 10
	httpConnectionsMax  = 64
	httpShutdownTimeout = time.Second
	metricsRequestsMax  = 4
	readinessBytesMax   = 4096
)

// Readiness says why a node is not ready, "" if it is, and then what an operator should know all the same.
type Readiness func() (why, notice string)

// httpHandler serves liveness, readiness with its reason, metrics, and profiles if they are enabled.
func httpHandler(ready Readiness, registry *prometheus.Registry, profiles bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		why, notice := ready()
		if why == "" {
			if fmt.Fprintln(w, "ok"); notice != "" {
				fmt.Fprintln(w, notice)
			}
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, why[:min(len(why), readinessBytesMax)])
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: metricsRequestsMax}))
	if profiles {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// unserved counts connections that ended without a request that could be read.
type unserved struct {
	count atomic.Int64
	open  sync.Map // net.Conn -> nil, until its first request
}

func (u *unserved) collector() prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "quorate_http_connections_unserved_total", Help: "Connections of the HTTP listener that ended without a request that could be read.",
	}, func() float64 { return float64(u.count.Load()) })
}

// state is the server's ConnState.
func (u *unserved) state(c net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		u.open.Store(c, nil)
	case http.StateClosed, http.StateHijacked:
		if _, never := u.open.LoadAndDelete(c); never {
			u.count.Add(1)
		}
	}
}

type connKey struct{}

// served wraps a handler, which only sees requests that could be read.
func (u *unserved) served(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.open.Delete(r.Context().Value(connKey{}))
		h.ServeHTTP(w, r)
	})
}

// serveHTTP serves until the context ends, then gives answers under way a moment.
func serveHTTP(ctx context.Context, listener net.Listener, handler http.Handler, bad *unserved, logger *slog.Logger) error {
	server := &http.Server{
		Handler: bad.served(handler), ConnState: bad.state,
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ReadHeaderTimeout: httpHeaderTimeout, ReadTimeout: httpReadTimeout,
		WriteTimeout: httpWriteTimeout, IdleTimeout: httpIdleTimeout, MaxHeaderBytes: httpHeaderBytesMax,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), httpShutdownTimeout)
		defer cancel()
		if server.Shutdown(bounded) != nil {
			_ = server.Close()
		}
	}()
	err := server.Serve(netutil.LimitListener(listener, httpConnectionsMax))
	if ctx.Err() == nil {
		return err
	}
	<-stopped
	return nil
}
