package client

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/quorate/quorate/quorum/env"
)

// Settings that both ends of a gRPC connection agree on.
const (
	// MessageBytesMax is the largest gRPC message: a replica fetch answer, a snapshot part or an entry all fit well.
	MessageBytesMax = 64 << 20
	// KeepaliveTime is how long a connection in use may be silent before it is asked for a sign of life.
	KeepaliveTime = 10 * time.Second
	// KeepaliveTimeout is how long the sign may take; then the connection is closed.
	KeepaliveTimeout = 2 * time.Second
	// keepaliveTimeMin is what a server accepts; above it a client would be turned away for pinging too often.
	keepaliveTimeMin = 5 * time.Second
	// HandshakeTimeout bounds the time a server gives a new connection to begin to speak HTTP/2.
	HandshakeTimeout = 5 * time.Second
	// StreamsMax bounds the concurrent calls of one connection.
	StreamsMax = 1024

	connectTimeout = time.Second
	redialWaitMin  = 50 * time.Millisecond
	redialWaitMax  = time.Second
)

// DialOptions are the options of every outgoing gRPC connection of a node or a command. A nil tlsConfig means plain.
func DialOptions(network env.Network, tlsConfig *tls.Config) []grpc.DialOption {
	creds := insecure.NewCredentials()
	if tlsConfig != nil {
		creds = credentials.NewTLS(tlsConfig)
	}
	return []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return network.Dial(ctx, address)
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: KeepaliveTime, Timeout: KeepaliveTimeout}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: redialWaitMin, Multiplier: 1.6, Jitter: 0.2, MaxDelay: redialWaitMax},
			MinConnectTimeout: connectTimeout,
		}),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(MessageBytesMax), grpc.MaxCallSendMsgSize(MessageBytesMax)),
		grpc.WithDisableServiceConfig(),
		grpc.WithNoProxy(),
	}
}

// Target is the name under which gRPC dials a host:port as it is, without resolving it itself.
func Target(address string) string { return "passthrough:///" + address }

// ServerOptions are the options of every gRPC server: the other end of [DialOptions].
func ServerOptions(tlsConfig *tls.Config) []grpc.ServerOption {
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MessageBytesMax),
		grpc.MaxSendMsgSize(MessageBytesMax),
		grpc.MaxConcurrentStreams(StreamsMax),
		grpc.ConnectionTimeout(HandshakeTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTimeMin, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: KeepaliveTime, Timeout: KeepaliveTimeout}),
	}
	if tlsConfig != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(tlsConfig)))
	}
	return options
}
