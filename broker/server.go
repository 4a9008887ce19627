package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/reader"
)

// server is the GRPC listener: replica fetches of other brokers, reads of the own image and logs, health and reflection.
type server struct {
	grpc   *grpc.Server
	health *health.Server
}

func newServer(source reader.Source, register func(grpc.ServiceRegistrar), tlsConfig *tls.Config) *server {
	s := &server{grpc: grpc.NewServer(append(client.ServerOptions(tlsConfig), grpc.WaitForHandlers(true))...), health: health.NewServer()}
	controllerpb.RegisterReaderApiServer(s.grpc, reader.New(source))
	register(s.grpc)
	healthpb.RegisterHealthServer(s.grpc, s.health)
	s.health.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	reflection.Register(s.grpc)
	return s
}

// setReady is what the health service answers.
func (s *server) setReady(ready bool) {
	status := healthpb.HealthCheckResponse_NOT_SERVING
	if ready {
		status = healthpb.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus("", status)
}

// run serves until ctx ends. Streams and long polls are cut off: their callers go elsewhere.
func (s *server) run(ctx context.Context, ln net.Listener) error {
	stop := context.AfterFunc(ctx, s.grpc.Stop)
	defer stop()
	err := s.grpc.Serve(ln)
	if errors.Is(err, grpc.ErrServerStopped) || ctx.Err() != nil {
		return nil
	}
	return err
}
