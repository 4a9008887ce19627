package partition

import "github.com/quorate/quorate/fsm/image"

// EpochEnd is where a leader epoch ends in a log: the offset after its last record.
type EpochEnd struct {
	// Epoch is [NoLeaderEpoch] if undefined.
	Epoch image.LeaderEpoch
	// EndOffset is [UnknownOffset] if undefined.
	EndOffset int64
}

// Epochs answers from a log's leader epoch cache.
type Epochs interface {
	// EndOffsetForEpoch returns the largest known epoch that is not above the one asked for, and where it ends: at the
	// start of the next, or at the log end for the newest. Below the first known epoch it returns the epoch asked for
	// and the start of the first. It returns false when the cache is empty or every known epoch is lower than the one
	// asked for (KIP-101, KIP-279; Kafka: LeaderEpochFileCache.endOffsetFor).
	EndOffsetForEpoch(image.LeaderEpoch) (EpochEnd, bool)
}

// Agreement is a leader's judgement of a follower's position.
type Agreement uint8

// The judgements.
const (
	// Agreed: the log of the follower is a prefix of the leader's, as far as both can tell.
	Agreed Agreement = iota
	// Diverging: the follower has to cut its log.
	Diverging
	// OutOfRange: the leader cannot tell, or no longer has what is asked for.
	OutOfRange
)

// JudgePosition compares a follower's fetch offset and the epoch of its last record with the leader's log (KIP-595). On
// [Diverging] the epoch end tells the follower where to look; nothing may be read and the fetch must not be counted.
// Without a last fetched epoch ([NoLeaderEpoch]) there is nothing to compare. Whether the offset lies within the log is
// for the read to tell.
func JudgePosition(log Epochs, lastFetched image.LeaderEpoch, fetchOffset, logStartOffset int64) (Agreement, EpochEnd) {
	if lastFetched == NoLeaderEpoch {
		return Agreed, EpochEnd{}
	}
	end, ok := log.EndOffsetForEpoch(lastFetched)
	switch {
	case !ok || fetchOffset < logStartOffset:
		return OutOfRange, EpochEnd{}
	case end.Epoch < lastFetched || end.EndOffset < fetchOffset:
		return Diverging, end
	default:
		return Agreed, EpochEnd{}
	}
}

// TruncationOffset is where a follower cuts its log when a leader has answered its fetch with a divergence. Fetching
// goes on from there; if the logs still part, the next answer leads further back, until both agree.
func TruncationOffset(log Epochs, leader EpochEnd, fetchOffset, logEndOffset int64) int64 {
	switch {
	case leader.EndOffset == UnknownOffset:
		return min(fetchOffset, logEndOffset)
	case leader.Epoch == NoLeaderEpoch:
		return min(leader.EndOffset, logEndOffset)
	}
	own, ok := log.EndOffsetForEpoch(leader.Epoch)
	switch {
	case !ok:
		return min(leader.EndOffset, logEndOffset)
	case own.Epoch == leader.Epoch:
		return min(own.EndOffset, leader.EndOffset, logEndOffset)
	default:
		return min(own.EndOffset, logEndOffset)
	}
}

// Recovery is what a follower does whose fetch offset the leader's log does not hold.
type Recovery struct {
	// Restart: the whole log is discarded and begins again at Offset. Otherwise it is cut to Offset, which may be its end.
	Restart bool
	// Offset is where fetching goes on.
	Offset int64
}

// RecoverOutOfRange decides by the bounds of the leader's log, told under the present leader epoch. A log that goes
// beyond the leader's is cut to the leader's end; one that ends before the leader's begins is discarded; any other
// fetches on from its end.
func RecoverOutOfRange(logStartOffset, logEndOffset, leaderLogStartOffset, leaderLogEndOffset int64) Recovery {
	switch {
	case leaderLogEndOffset < logEndOffset:
		return Recovery{Restart: leaderLogEndOffset < logStartOffset, Offset: leaderLogEndOffset}
	case leaderLogStartOffset > logEndOffset:
		return Recovery{Restart: true, Offset: leaderLogStartOffset}
	default:
		return Recovery{Offset: logEndOffset}
	}
}
