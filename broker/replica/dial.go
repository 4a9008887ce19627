package replica

import (
	"crypto/tls"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/quorum/client"
	"github.com/quorate/quorate/quorum/env"
)

// Dialer opens connections to other brokers.
type Dialer interface {
	// Dial returns a connection that is made when it is first used. The caller closes it.
	Dial(address string) (Conn, error)
}

// Conn is a connection to a broker.
type Conn interface {
	grpc.ClientConnInterface
	Close() error
}

// GRPC dials with the options that all nodes share. A nil tlsConfig means plain.
func GRPC(network env.Network, tlsConfig *tls.Config) Dialer {
	return grpcDialer{client.DialOptions(network, tlsConfig)}
}

type grpcDialer struct{ options []grpc.DialOption }

func (d grpcDialer) Dial(address string) (Conn, error) {
	return grpc.NewClient(client.Target(address), d.options...)
}
