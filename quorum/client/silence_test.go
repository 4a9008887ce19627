package client_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/quorum/client"
)

// accept answers every connection by f and returns the address.
func accept(t *testing.T, f func(net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f(c)
			c.Close()
		}
	}()
	return l.Addr().String()
}

// A search that found nobody says what is wrong with each address: whether anything listens there, and whether it is a controller.
func TestWhatAnswersInsteadIsTold(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	other := grpc.NewServer()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go other.Serve(l)
	t.Cleanup(other.Stop)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := closed.Addr().String()
	closed.Close()
	for name, c := range map[string]struct{ address, want string }{
		"nothing":          {free, "nothing listens there"},
		"an HTTP listener": {strings.TrimPrefix(web.URL, "http://"), "takes connections, but"},
		"a RAFT listener":  {accept(t, func(c net.Conn) {}), "takes connections, but"},
		"bytes of a stranger": {accept(t, func(c net.Conn) {
			io.WriteString(c, "\x00\x01hello, who are you? and some more bytes")
			c.Read(make([]byte, 1))
		}), "takes connections, but"},
		"another service": {l.Addr().String(), "knows no question of a node"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 3*client.ProbeTimeout)
			defer cancel()
			_, err := newClient(t, c.address).Active(ctx)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
