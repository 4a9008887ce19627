package node

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHTTPHandler(t *testing.T) {
	why := "offline: no metadata stream"
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "quorate_test"}, func() float64 { return 7 }))
	for _, c := range []struct {
		path     string
		profiles bool
		why      string
		notice   string
		code     int
		body     string
	}{
		{"/livez", false, why, "", 200, "ok"},
		{"/readyz", false, why, "", 503, why},
		{"/readyz", false, "", "", 200, "ok"},
		{"/readyz", false, "", "lineage 1 waits", 200, "ok\nlineage 1 waits\n"},
		{"/readyz", false, why, "lineage 1 waits", 503, why},
		{"/metrics", false, why, "", 200, "quorate_test 7"},
		{"/debug/pprof/", false, "", "", 404, "not found"},
		{"/debug/pprof/", true, "", "", 200, "goroutine"},
	} {
		w := httptest.NewRecorder()
		httpHandler(func() (string, string) { return c.why, c.notice }, registry, c.profiles).ServeHTTP(w, httptest.NewRequest(http.MethodGet, c.path, nil))
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.body) {
			t.Errorf("%s (profiles %v, why %q): %d %q", c.path, c.profiles, c.why, w.Code, w.Body.String())
		}
	}
}

func TestServeHTTPEndsWithItsContext(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serveHTTP(ctx, listener, httpHandler(func() (string, string) { return "", "" }, prometheus.NewRegistry(), false), new(unserved), slog.New(slog.DiscardHandler))
	}()
	client := &http.Client{Transport: &http.Transport{}}
	resp, err := client.Get("http://" + listener.Addr().String() + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	client.CloseIdleConnections()
	if string(body) != "ok\n" {
		t.Errorf("%q", body)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A connection without a request that can be read is closed and counted; the requests beside it are served and are not.
func TestUnservedConnectionsAreCounted(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended, bad := make(chan error, 1), new(unserved)
	go func() {
		ended <- serveHTTP(ctx, listener, httpHandler(func() (string, string) { return "", "" }, prometheus.NewRegistry(), false), bad, slog.New(slog.DiscardHandler))
	}()
	for _, sent := range []string{"\x00\xff\x00\r\n\r\n", "GET /livez HTTP/9.9\r\n\r\n", strings.Repeat("x", 2*httpHeaderBytesMax) + "\r\n", "GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"} {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(sent)) // the server may hang up first
		_, _ = io.Copy(io.Discard, conn)
		conn.Close()
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	left := 0
	bad.open.Range(func(any, any) bool { left++; return true })
	if got := bad.count.Load(); got != 3 || left != 0 {
		t.Errorf("%d counted, want 3; %d are forgotten", got, left)
	}
}

// The watch sees the end of the pipe, and stops without one.
func TestParentWatch(t *testing.T) {
	pipe := func() (fd int, w *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		fd, err = syscall.Dup(int(r.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		return fd, w
	}
	fd, w := pipe()
	watch, err := watchParent(strconv.Itoa(fd))
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	<-watch.gone
	watch.stop()

	fd, w = pipe()
	if watch, err = watchParent(strconv.Itoa(fd)); err != nil {
		t.Fatal(err)
	}
	watch.stop()
	select {
	case <-watch.gone:
		t.Error("stopped, and says that the parent is gone")
	default:
	}
	w.Close()

	for _, bad := range []string{"x", "1", "9999"} {
		if _, err := watchParent(bad); err == nil {
			t.Errorf("accepted %s", bad)
		}
	}
	none, err := watchParent("")
	if err != nil || none.gone != nil {
		t.Error(none, err)
	}
	none.stop()
}
