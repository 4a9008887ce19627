// Package log keeps partition logs on disk.
//
// # Purpose
//
// A [Log] is one replica of one partition: segments of record batches as the client sent them, with offset and time
// index, leader epochs, the state of idempotent producers, and the offsets that replication needs. A [Manager] has all
// logs of one log directory: it finds, loads, makes and deletes them, keeps the checkpoints, and knows how the former
// life of the broker ended. Every file is Kafka's, by name and by format, so that Kafka's tools read it.
//
// # Usage
//
// [NewManager], then [Manager.Start], which tells how the last stop was; [Manager.Scan] lists what is on disk;
// whoever knows the metadata judges the list and calls [Manager.Load], [Manager.SetAside] and [Manager.Delete];
// [Manager.FinishLoading] when that is done. [Manager.Run] does the background work. [Manager.Open] returns the log of
// a replica. [Manager.Shutdown] ends it with a marker of a clean stop.
//
// A leader tests what a client sent with [ParseProduce], outside every lock, and appends it with [Log.Append]; a
// follower copies with [Log.AppendAsFollower] and truncates by leader epoch with [Log.TruncateTo]. [Log.Read] serves
// both followers and consumers; the upper bound makes the difference.
//
// # Guarantees
//
// A batch is written in one call and not synced: it is durable by its copies on other brokers. What is synced before
// the call returns: a leader epoch before the first record under it, the topic id before the first record of a log, a
// truncation before anything is appended in its place, the checkpoints, the marker of a clean stop. After a stop without
// that marker every segment from the recovery point on is read and tested, and the log ends before the first batch that
// does not pass. Nothing that came from before a truncation or a deletion is ever served again.
//
// log start ≤ high watermark ≤ log end, at every moment.
//
// A failure of the disk takes the log offline until the process starts again: a [StorageError]. A refusal is an [Error]
// with Kafka's code and changes nothing. [CodeOf] gives the code of either.
//
// At each step of what takes several steps on disk the environment's hook is called: log.append.before-write,
// log.append.written, log.append.identified, log.roll.begin, log.roll.indexes-written, log.roll.snapshot-taken,
// log.roll.segment-created, log.epoch.before-assign, log.epoch.assigned, log.truncate.begin,
// log.truncate.segments-removed, log.truncate.file-cut, log.truncate.restarted, log.retention.begin,
// log.retention.renamed, log.flush.synced, log.create.begin, log.create.directory-made, log.create.identified,
// log.delete.before-rename, log.delete.renamed, log.delete.synced, log.delete.files-removed, log.delete.removed,
// log.stray.before-rename, log.stray.renamed, log.stray.synced, log.checkpoint.before-write, log.checkpoint.written,
// log.recovery.begin, log.recovery.before-cut, log.recovery.cut, log.recovery.segments-removed, log.start.life-written,
// log.start.marker-removed, log.shutdown.flushed, log.shutdown.checkpoints-written, log.shutdown.marked.
//
// # Goroutines
//
// [Manager.Run] works on the goroutine it is called on. [Manager.Load] and [Manager.Shutdown] start LoadsMax goroutines
// and wait for them. An idle log has no goroutine, no timer and no open file: all files of all logs share one cache
// of OpenFilesMax handles. All methods may be called from any goroutine.
package log
