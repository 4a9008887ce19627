package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/env"
)

// Settings that both ends of a gRPC connection agree on.
const (
	// AnswerBytesMax is the largest gRPC message of a server: a replica fetch answer, a snapshot part or an entry all fit well.
	AnswerBytesMax = 64 << 20
	// RequestBytesMax is the largest gRPC message of a client. An item of a request takes some 100 bytes, so that of one that
	// names ten times as many as a batch may have the controller still says so. Package quorum bounds the bytes of
	// all the requests that wait to be decided.
	RequestBytesMax = 8 << 20
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
			grpc.MaxCallRecvMsgSize(AnswerBytesMax), grpc.MaxCallSendMsgSize(RequestBytesMax)),
		grpc.WithChainUnaryInterceptor(checkRequestSize),
		grpc.WithDisableServiceConfig(),
		grpc.WithNoProxy(),
	}
}

// Target is the name under which gRPC dials a host:port as it is, without resolving it itself.
func Target(address string) string { return "passthrough:///" + address }

// ServerOptions are the options of every gRPC server: the other end of [DialOptions].
func ServerOptions(tlsConfig *tls.Config) []grpc.ServerOption {
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(RequestBytesMax),
		grpc.MaxSendMsgSize(AnswerBytesMax),
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

// checkRequestSize refuses a request that no server takes, in the words of a refusal.
func checkRequestSize(ctx context.Context, method string, request, answer any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	if m, ok := request.(proto.Message); ok {
		if n := proto.Size(m); n > RequestBytesMax {
			return &Refusal{
				Code:    controllerpb.ErrorCode_ERROR_CODE_POLICY_VIOLATION,
				Message: fmt.Sprintf("the request has %d bytes, at most %d are taken: split it", n, RequestBytesMax),
			}
		}
	}
	return invoke(ctx, method, request, answer, cc, options...)
}
