package broker

import "errors"

// Failures of the metadata stream. Each ends the stream; the follower goes on at another controller.
var (
	// ErrStreamSilent says that a stream brought nothing for a second.
	ErrStreamSilent = errors.New("broker: metadata stream is silent")
	// ErrStreamBehind says that a stream stayed behind the committed offset that a heartbeat told.
	ErrStreamBehind = errors.New("broker: metadata stream stays behind the committed offset")
	// ErrStreamGap says that an entry does not follow the image.
	ErrStreamGap = errors.New("broker: metadata entry does not follow the image")
	// ErrDiverged says that two nodes hold different metadata at one offset. It must never happen.
	ErrDiverged = errors.New("broker: metadata diverged: equal offset and unequal chain")
	// ErrOldLineage: a controller left from before an offline recovery of the quorum sends metadata.
	ErrOldLineage = errors.New("broker: metadata of an older lineage")
	// ErrSnapshotOld says that a controller sent a snapshot that is older than the image.
	ErrSnapshotOld = errors.New("broker: metadata snapshot is older than the image")
	// ErrLogBroken says that a committed entry could not be replayed.
	ErrLogBroken = errors.New("broker: a committed metadata entry cannot be replayed")
)

// ErrForeignCluster says that every controller that the broker was told of serves another cluster than the one that its
// data directory was formatted for.
var ErrForeignCluster = errors.New("broker: the controllers serve another cluster")

// ErrNewLineage says that an offline recovery of the quorum began a lineage after the one in which this life of the broker has
// registered. Its logs were judged by metadata that is gone, so it neither makes, leads, follows nor deletes anything by the new
// one: the next life judges them anew, before a controller counts on any.
var ErrNewLineage = errors.New("broker: the quorum was recovered offline while this broker ran: start it again, so that it judges its logs by the recovered metadata")

// ErrStopped says that the broker is stopping.
var ErrStopped = errors.New("broker: stopped")
