package client

import (
	"context"
	"fmt"
	"unicode/utf8"

	"google.golang.org/grpc/metadata"
)

const (
	// principalKey is the gRPC metadata in which a broker names the client that it forwards for. The suffix lets the
	// value be any text, which a header of gRPC may not be.
	principalKey = "quorate-principal-bin"
	// principalBytesMax bounds a principal.
	principalBytesMax = 256
)

// WithPrincipal makes the requests sent under the context name who asked, so that the metadata log can tell (KIP-590).
// An empty principal names nobody.
func WithPrincipal(ctx context.Context, principal string) context.Context {
	if principal == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, principalKey, principal)
}

// ForwardedPrincipal returns whom the caller of a gRPC method forwards for, empty if it speaks for itself. Whoever serves
// the method decides whether the caller may do so. The error says what is wrong with the name.
func ForwardedPrincipal(ctx context.Context) (string, error) {
	values := metadata.ValueFromIncomingContext(ctx, principalKey)
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", fmt.Errorf("%d principals are named, one is taken", len(values))
	case len(values[0]) == 0 || len(values[0]) > principalBytesMax:
		return "", fmt.Errorf("the principal has %d bytes, 1 to %d are taken", len(values[0]), principalBytesMax)
	case !utf8.ValidString(values[0]): // the metadata log holds text
		return "", fmt.Errorf("the principal %q is no UTF-8: name one that is", values[0])
	}
	return values[0], nil
}
