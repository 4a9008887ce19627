package client_test

import (
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/quorate/quorate/quorum/client"
)

// What does not speak HTTP/2 is closed and counted; who does is served beside it and not counted.
func TestForeignConnectionsAreCounted(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var counts client.Connections
	server := grpc.NewServer(client.ServerOptions(nil)...)
	healthpb.RegisterHealthServer(server, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- server.Serve(counts.Count(listener, nil)) }()
	conn, err := grpc.NewClient(client.Target(listener.Addr().String()), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
			t.Error(err)
		}
	}
	check()
	for name, sent := range map[string]string{"garbage": "\x00\xff garbage that is no preface", "http": "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "half": "PRI * HTTP/2.0\r\n", "port check": ""} {
		before := counts.Foreign()
		bad, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bad.Write([]byte(sent)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name == "half" || name == "port check" {
			_ = bad.(*net.TCPConn).CloseWrite()
		}
		_ = bad.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.Copy(io.Discard, bad); err != nil {
			if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
				t.Errorf("%s: not closed", name)
			}
		}
		bad.Close()
		check()
		if got := counts.Foreign() - before; got != 1 {
			t.Errorf("%s: counted %v times", name, got)
		}
	}
	if counts.Open() != 1 {
		t.Errorf("%v connections are open, want the good one", counts.Open())
	}
	conn.Close()
	server.Stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if counts.Open() != 0 || counts.Refused() != 0 || counts.Foreign() != 4 {
		t.Errorf("open %v, refused %v, foreign %v", counts.Open(), counts.Refused(), counts.Foreign())
	}
}
