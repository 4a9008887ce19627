package snapshot

import (
	"io"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// ReadHeader reads the header that a snapshot begins with, and checks no more than that.
func ReadHeader(r io.Reader) (*metadatapb.SnapshotHeader, error) {
	return (&blockReader{r: r}).header()
}
