package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/raftnode"
	"github.com/quorate/quorate/quorum/recovery"
)

// Folders of a recovery in a data directory. The rename of recoveringDir to recoveredDir is what counts: before it the old state is
// in force, after it the new one, which takes the place of raftDir at once or at the next start.
const (
	recoveringDir = raftDir + ".recovering"
	recoveredDir  = raftDir + ".recovered"
	copyingDir    = "lineage.copying"
)

// copyDir is the folder that keeps the state of a lineage that a recovery left.
func copyDir(lineage image.LineageNumber, attempt int) string {
	if attempt == 0 {
		return fmt.Sprintf("lineage-%d.copy", lineage)
	}
	return fmt.Sprintf("lineage-%d.%d.copy", lineage, attempt)
}

// RecoverOptions say what a recovery is to do.
type RecoverOptions struct {
	Config *Config
	// Directories are data directories of other controllers, or copies of them.
	Directories []string
	// WithoutOwn leaves the node's own log out, because it is damaged.
	WithoutOwn bool
	// Force goes on when it cannot be told whether the quorum is lost.
	Force bool
	// DryRun only says what would be done.
	DryRun bool
}

// RecoverResult is what became of a recovery.
type RecoverResult struct {
	Identity Identity
	// Plan is what was found and written; nil if Repeated.
	Plan *recovery.Plan
	// Copy is where the state before is kept; empty if there was none.
	Copy string
	// Repeated tells that an earlier recovery had done it, or had been cut off at its end, and that nothing else was done.
	Repeated bool
	// Lineage is the one that begins.
	Lineage image.Lineage
	// MetadataOffset is the last one of the new lineage.
	MetadataOffset image.MetadataOffset
}

// Recover makes the configured node the only voter of a new lineage, from the furthest of the directories. Nothing of the
// cluster may run that could be a majority. A crash at any moment leaves the old state or the new, and Recover can run again.
func Recover(ctx context.Context, e *env.Env, o RecoverOptions) (r RecoverResult, err error) {
	dir := filepath.Clean(o.Config.DataDir)
	if !o.Config.Has(Controller) {
		return r, &ConfigError{fmt.Errorf("process.roles of node %d names no controller: only a controller has a log to recover", o.Config.NodeID)}
	}
	if r.Identity, err = CheckIdentity(e.FS, o.Config, ""); err != nil {
		return r, &DirectoryError{err}
	}
	lock, err := AcquireLock(e, dir)
	if err != nil {
		return r, &DirectoryError{err}
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	own := directoryOf(dir, r.Identity)
	if done, err := r.finishEarlier(e, own, o); done || err != nil {
		return r, err
	}
	directories, err := o.directories(e.FS, own)
	if err != nil {
		return r, &DirectoryError{err}
	}
	listener, _ := o.Config.Advertised(RaftListener)
	r.Plan, err = recovery.Prepare(ctx, recovery.Options{
		Env: e, ClusterID: r.Identity.ClusterID, Directories: directories, Force: o.Force, WithoutOwn: o.WithoutOwn,
		Self: raftnode.Server{ID: own.ID, Address: Address(listener), Voter: true},
	})
	if err != nil {
		return r, recoverError(err)
	}
	r.Lineage, r.MetadataOffset = r.Plan.After.Image.Lineage(), r.Plan.After.State.Offset
	if o.DryRun {
		return r, nil
	}
	if err := r.write(e, dir); err != nil {
		return r, &DirectoryError{err}
	}
	return r, nil
}

// recoverError keeps refusals as they are; everything else is about a directory.
func recoverError(err error) error {
	var refused *recovery.RefusedError
	if errors.As(err, &refused) {
		return err
	}
	return &DirectoryError{err}
}

func directoryOf(dir string, id Identity) recovery.Directory {
	return recovery.Directory{
		Path: dir, Raft: filepath.Join(dir, raftDir),
		ID: raftnode.ServerID{NodeID: int32(id.NodeID), DirectoryID: id.DirectoryID.String()},
	}
}

// finishEarlier ends a recovery that was cut off, and tells of one that was done and not started since.
func (r *RecoverResult) finishEarlier(e *env.Env, own recovery.Directory, o RecoverOptions) (done bool, err error) {
	pending, err := env.Exists(e.FS, filepath.Join(own.Path, recoveredDir))
	if err != nil {
		return false, &DirectoryError{err}
	}
	look := own
	if pending {
		if look.Raft = filepath.Join(own.Path, recoveredDir); !o.DryRun {
			if err := FinishRecovery(e, own.Path); err != nil {
				return false, &DirectoryError{err}
			}
			look = own
		}
	}
	at, fresh, err := recovery.Fresh(e, look, r.Identity.ClusterID)
	if err != nil || !fresh {
		return false, nil // what is wrong is told when the directories are read
	}
	r.Repeated, r.Lineage, r.MetadataOffset = true, at.Image.Lineage(), at.State.Offset
	return true, nil
}

// directories checks the directories that were given and puts the node's own first.
func (o RecoverOptions) directories(files env.FS, own recovery.Directory) ([]recovery.Directory, error) {
	id, err := ReadIdentity(files, own.Path)
	if err != nil {
		return nil, err
	}
	out := []recovery.Directory{own}
	seen := map[string]bool{own.Path: true}
	for _, given := range o.Directories {
		dir := filepath.Clean(given)
		if seen[dir] {
			return nil, fmt.Errorf("--directory %s is given twice, or is the node's own", given)
		}
		seen[dir] = true
		other, err := ReadIdentity(files, dir)
		switch {
		case errors.Is(err, ErrNotFormatted):
			return nil, fmt.Errorf("--directory %s is no data directory of a controller: it has no %s", given, metaFile)
		case err != nil:
			return nil, err
		case other.ClusterID != id.ClusterID:
			return nil, fmt.Errorf("--directory %s belongs to cluster %s, this node to %s; leave it out", given, other.ClusterID, id.ClusterID)
		}
		pid, err := RunningPid(files, dir)
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return nil, fmt.Errorf("--directory %s: %w", given, err)
		}
		if pid != 0 {
			return nil, fmt.Errorf("--directory %s is in use by process %d; stop it first", given, pid)
		}
		d := directoryOf(dir, other)
		if there, err := env.Exists(files, filepath.Join(dir, recoveredDir)); err == nil && there {
			d.Raft = filepath.Join(dir, recoveredDir)
		}
		if there, err := env.Exists(files, d.Raft); err != nil || !there {
			return nil, errors.Join(err, fmt.Errorf("--directory %s holds no folder %s: it is no controller's, or its log is gone; leave it out", given, raftDir))
		}
		out = append(out, d)
	}
	return out, nil
}

// write keeps the state before and puts the new one in its place.
func (r *RecoverResult) write(e *env.Env, dir string) error {
	e.At("recover.begin")
	for _, left := range []string{recoveringDir, copyingDir} {
		if err := e.FS.RemoveAll(filepath.Join(dir, left)); err != nil {
			return err
		}
	}
	if err := r.keep(e, dir); err != nil {
		return fmt.Errorf("copy the state before the recovery: %w", err)
	}
	tmp := filepath.Join(dir, recoveringDir)
	if err := e.FS.MkdirAll(tmp, 0o755); err != nil {
		return err
	}
	e.At("recover.temporary-directory")
	if err := r.Plan.Write(e, tmp); err != nil {
		return fmt.Errorf("write the new state: %w", err)
	}
	e.At("recover.written")
	if err := e.FS.Rename(tmp, filepath.Join(dir, recoveredDir)); err != nil {
		return err
	}
	e.At("recover.renamed")
	if err := e.FS.SyncDir(dir); err != nil {
		return err
	}
	return FinishRecovery(e, dir)
}

// keep copies the Raft state and the identity.
func (r *RecoverResult) keep(e *env.Env, dir string) error {
	there, err := env.Exists(e.FS, filepath.Join(dir, raftDir))
	if err != nil || !there {
		return err
	}
	name := ""
	for attempt := 0; ; attempt++ {
		name = copyDir(r.Lineage.Number-1, attempt)
		taken, err := env.Exists(e.FS, filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if !taken {
			break
		}
	}
	tmp := filepath.Join(dir, copyingDir)
	if err := e.FS.MkdirAll(tmp, 0o755); err != nil {
		return err
	}
	for _, part := range []string{metaFile, raftDir} {
		if err := copyTree(e.FS, filepath.Join(dir, part), filepath.Join(tmp, part)); err != nil {
			return err
		}
	}
	if err := e.FS.SyncDir(tmp); err != nil {
		return err
	}
	e.At("recover.copied")
	if err := e.FS.Rename(tmp, filepath.Join(dir, name)); err != nil {
		return err
	}
	r.Copy = filepath.Join(dir, name)
	return e.FS.SyncDir(dir)
}

// FinishRecovery puts the state that a recovery made into its place, if it was cut off before it could. A controller calls it before it
// opens its stores; the data directory is locked.
func FinishRecovery(e *env.Env, dir string) error {
	made := filepath.Join(dir, recoveredDir)
	there, err := env.Exists(e.FS, made)
	if err != nil || !there {
		return err
	}
	if err := e.FS.RemoveAll(filepath.Join(dir, raftDir)); err != nil {
		return fmt.Errorf("finish the recovery of %s: %w", dir, err)
	}
	e.At("recover.old-removed")
	if err := e.FS.Rename(made, filepath.Join(dir, raftDir)); err != nil {
		return fmt.Errorf("finish the recovery of %s: %w", dir, err)
	}
	e.At("recover.done")
	return e.FS.SyncDir(dir)
}

// copyTree copies a file, or a folder with all that is in it, synced.
func copyTree(files env.FS, from, to string) error {
	info, err := files.Stat(from)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return copyFile(files, from, to, info.Mode().Perm())
	}
	if err := files.MkdirAll(to, info.Mode().Perm()); err != nil {
		return err
	}
	entries, err := files.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := copyTree(files, filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())); err != nil {
			return err
		}
	}
	return files.SyncDir(to)
}

func copyFile(files env.FS, from, to string, mode fs.FileMode) (err error) {
	in, err := files.OpenFile(from, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := files.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Sync()
}
