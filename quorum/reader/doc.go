// Package reader answers reads from a node's committed image.
//
// # Purpose
//
// Controllers and brokers serve the same reads, each from its own image. What differs, which image answers and what
// the node has heard of others, is a [Source]; everything else is here once.
//
// # Usage
//
//	controllerpb.RegisterReaderApiServer(server, reader.New(source))
//
// # Guarantees
//
// Each answer is made from one image and names its metadata offset. Large answers are streamed in pieces of at
// most [pieceBytesMax], so that no message of the transport grows with the cluster.
//
// # Goroutines
//
// The package starts none; methods run on gRPC's and may be called from any goroutine.
package reader
