package client_test

import (
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/env"
)

// A request of exactly the limit is taken. One byte more is refused before it is sent, naming limit and size, and a server does not
// take it from a client that sends it all the same.
func TestRequestBytesAreBounded(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(client.ServerOptions(nil)...)
	healthpb.RegisterHealthServer(server, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() { server.Stop(); <-served }()
	ask := func(bytes int, options ...grpc.DialOption) error {
		conn, err := grpc.NewClient(client.Target(listener.Addr().String()), options...)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		frame := proto.Size(&healthpb.HealthCheckRequest{Service: strings.Repeat("x", bytes)}) - bytes
		_, err = healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: strings.Repeat("x", bytes-frame)})
		return err
	}
	ours := client.DialOptions(env.OS("").Network, nil)
	if err := ask(client.RequestBytesMax, ours...); status.Code(err) != codes.NotFound {
		t.Errorf("exactly the limit: %v", err)
	}
	err = ask(client.RequestBytesMax+1, ours...)
	if r, ok := client.AsRefusal(err); !ok || r.Code != controllerpb.ErrorCode_ERROR_CODE_POLICY_VIOLATION ||
		!strings.Contains(r.Message, "has 8388609 bytes, at most 8388608 are taken") {
		t.Errorf("one byte more: %v", err)
	}
	err = ask(client.RequestBytesMax+1, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one byte more from another client: %v", err)
	}
}
