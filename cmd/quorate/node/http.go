package node

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
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

// Readiness says why a node is not ready, "" if it is.
type Readiness func() string

// httpHandler serves liveness, readiness with its reason, metrics, and profiles if they are enabled.
func httpHandler(ready Readiness, registry *prometheus.Registry, profiles bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		why := ready()
		if why == "" {
			fmt.Fprintln(w, "ok")
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

// serveHTTP serves until the context ends, then gives answers under way a moment.
func serveHTTP(ctx context.Context, listener net.Listener, handler http.Handler, logger *slog.Logger) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: httpHeaderTimeout, ReadTimeout: httpReadTimeout,
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
