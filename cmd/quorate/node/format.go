package node

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

// raftDir is the folder of Raft's stores in a data directory.
const raftDir = "raft"

// formattingSuffix marks the temporary directories that Format works in.
const formattingSuffix = ".formatting-"

// InitialController is a voter of a new cluster's first Raft configuration.
type InitialController struct {
	NodeID image.BrokerID
	// RaftAddress is host:port as Raft's configuration will hold it.
	RaftAddress string
	DirectoryID image.UUID
}

// FormatOptions say how a data directory is prepared.
type FormatOptions struct {
	Config    *Config
	ClusterID image.UUID
	// DirectoryID is the directory's id; zero: the one that InitialControllers gives this node, else a fresh one.
	DirectoryID image.UUID
	// InitialControllers are the first voters. Only controllers take them, and they take them or NoInitialControllers.
	InitialControllers []InitialController
	// NoInitialControllers: the node is added to a running quorum later.
	NoInitialControllers bool
	// Bootstrap writes Raft's stores with the first configuration into an empty directory, synced. Nil: the real one.
	Bootstrap func(e *env.Env, dir string, initial []InitialController) error
}

// OptionsError says that the options contradict each other or the configuration: nothing was looked at on disk.
type OptionsError struct{ Err error }

func (e *OptionsError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *OptionsError) Unwrap() error { return e.Err }

// RandomUUID draws an id. It never begins with a dash, so that it can stand on a command line, as in Kafka.
func RandomUUID() image.UUID {
	for {
		var id image.UUID
		_, _ = rand.Read(id[:]) // never fails
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if !strings.HasPrefix(id.String(), "-") {
			return id
		}
	}
}

// ParseInitialControllers parses NODE@host:port:DIRECTORYID,…
func ParseInitialControllers(v string) ([]InitialController, error) {
	var out []InitialController
	for _, part := range splitList(v) {
		node, rest, ok := strings.Cut(part, "@")
		at := strings.LastIndex(rest, ":")
		if !ok || at < 0 {
			return nil, fmt.Errorf("%q is not NODE@host:port:DIRECTORYID", part)
		}
		id, err := strconv.ParseInt(node, 10, 32)
		if err != nil || id < 0 {
			return nil, fmt.Errorf("%q: node %q is not a number from 0", part, node)
		}
		host, _, err := splitAddress(rest[:at])
		if err != nil || host == "" {
			return nil, fmt.Errorf("%q: %q is not host:port", part, rest[:at])
		}
		directory, err := image.ParseUUID(rest[at+1:])
		if err != nil {
			return nil, fmt.Errorf("%q: directory id: %w", part, err)
		}
		for _, other := range out {
			if other.NodeID == image.BrokerID(id) || other.RaftAddress == rest[:at] || other.DirectoryID == directory {
				return nil, fmt.Errorf("%q shares its node, address or directory id with node %d", part, other.NodeID)
			}
		}
		out = append(out, InitialController{NodeID: image.BrokerID(id), RaftAddress: rest[:at], DirectoryID: directory})
	}
	return out, nil
}

// Format prepares the configured data directory and returns its identity. It works in a temporary directory beside it,
// which is renamed at the end: after a crash at any moment the data directory is formatted or not, and Format can run again.
func Format(e *env.Env, o FormatOptions) (Identity, error) {
	id, err := o.identity()
	if err != nil {
		return id, &OptionsError{err}
	}
	if o.Bootstrap == nil {
		o.Bootstrap = bootstrapRaft
	}
	dir := filepath.Clean(o.Config.DataDir)
	if err := checkUnformatted(e.FS, dir); err != nil {
		return id, &DirectoryError{err}
	}
	parent := filepath.Dir(dir)
	if err := e.FS.MkdirAll(parent, 0o755); err != nil {
		return id, &DirectoryError{fmt.Errorf("cannot make %s: %w", parent, err)}
	}
	if err := removeLeftovers(e.FS, dir); err != nil {
		return id, err
	}
	e.At("format.begin")
	tmp := dir + formattingSuffix + RandomUUID().String()
	if err := o.fill(e, tmp, id, modeOf(e, dir)); err != nil {
		return id, &DirectoryError{errors.Join(fmt.Errorf("cannot format %s: %w", dir, err), e.FS.RemoveAll(tmp))}
	}
	e.At("format.filled")
	if err := replaceEmpty(e, tmp, dir); err != nil {
		return id, &DirectoryError{errors.Join(fmt.Errorf("cannot put the new directory in place: %w; if %s is a mount point or a link, use a folder in it", err, dir), e.FS.RemoveAll(tmp))}
	}
	e.At("format.renamed")
	if err := e.FS.SyncDir(parent); err != nil {
		return id, err
	}
	e.At("format.done")
	return id, nil
}

// modeOf is who may use an empty directory that is there already, or what a new one gets.
func modeOf(e *env.Env, dir string) fs.FileMode {
	if info, err := e.FS.Stat(dir); err == nil {
		return info.Mode().Perm()
	}
	return 0o755
}

// replaceEmpty renames a directory to where nothing is, or an empty directory. The slash keeps a symbolic link from being
// removed: the data would end up on another disk than its owner chose.
func replaceEmpty(e *env.Env, tmp, dir string) error {
	if err := e.FS.Remove(dir + string(filepath.Separator)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	e.At("format.empty-removed")
	return e.FS.Rename(tmp, dir)
}

// identity checks the options and settles the directory id.
func (o FormatOptions) identity() (Identity, error) {
	c := o.Config
	given := len(o.InitialControllers) > 0
	id := Identity{ClusterID: o.ClusterID.String(), NodeID: c.NodeID, DirectoryID: o.DirectoryID, RaftBegun: given}
	switch {
	case o.ClusterID.IsZero():
		return id, errors.New("the cluster id is zero; take one from quorate random-uuid")
	case c.Has(Controller) && given == o.NoInitialControllers:
		return id, errors.New("a controller is formatted with --initial-controllers or with --no-initial-controllers, not with both or none")
	case !c.Has(Controller) && (given || o.NoInitialControllers):
		return id, errors.New("only nodes with the controller role take --initial-controllers or --no-initial-controllers")
	}
	if given {
		own, err := o.own()
		if err != nil {
			return id, err
		}
		id.DirectoryID = own.DirectoryID
	}
	if id.DirectoryID.IsZero() {
		id.DirectoryID = RandomUUID()
	}
	return id, nil
}

// own finds this node among the initial controllers.
func (o FormatOptions) own() (InitialController, error) {
	raft, _ := o.Config.Advertised(RaftListener)
	for _, ic := range o.InitialControllers {
		if ic.NodeID != o.Config.NodeID {
			continue
		}
		if !o.DirectoryID.IsZero() && ic.DirectoryID != o.DirectoryID {
			return ic, fmt.Errorf("--initial-controllers gives node %d the directory id %s, --directory-id is %s", ic.NodeID, ic.DirectoryID, o.DirectoryID)
		}
		if ic.RaftAddress != Address(raft) {
			return ic, fmt.Errorf("--initial-controllers gives node %d the address %s, its advertised RAFT listener is %s", ic.NodeID, ic.RaftAddress, Address(raft))
		}
		return ic, nil
	}
	return InitialController{}, fmt.Errorf("node %d is not among --initial-controllers; a controller that joins later is formatted with --no-initial-controllers", o.Config.NodeID)
}

// fill writes a whole data directory.
func (o FormatOptions) fill(e *env.Env, dir string, id Identity, mode fs.FileMode) (err error) {
	if err := e.FS.MkdirAll(dir, mode); err != nil {
		return err
	}
	lock, err := e.FS.Lock(filepath.Join(dir, lockFile))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	e.At("format.temporary-directory")
	if len(o.InitialControllers) > 0 {
		raft := filepath.Join(dir, raftDir)
		if err := e.FS.MkdirAll(raft, 0o755); err != nil {
			return err
		}
		if err := o.Bootstrap(e, raft, o.InitialControllers); err != nil {
			return fmt.Errorf("write the first Raft configuration: %w", err)
		}
		e.At("format.raft-bootstrapped")
	}
	if err := env.WriteFileAtomic(e.FS, filepath.Join(dir, metaFile), id.text(), 0o644); err != nil {
		return err
	}
	e.At("format.identity-written")
	return e.FS.SyncDir(dir)
}

// checkUnformatted refuses a directory that is formatted or holds anything else.
func checkUnformatted(files env.FS, dir string) error {
	id, err := ReadIdentity(files, dir)
	if err == nil {
		return fmt.Errorf("%s is formatted already, for node %d of cluster %s; to begin anew, remove the directory", dir, id.NodeID, id.ClusterID)
	}
	if !errors.Is(err, ErrNotFormatted) {
		return err
	}
	entries, err := files.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read the data directory: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty (it holds %s) and was not formatted by quorate; name an empty or a new directory in log.dirs", dir, entries[0].Name())
	}
	return nil
}

// removeLeftovers removes temporary directories that formats of the same directory left when they were killed.
func removeLeftovers(files env.FS, dir string) error {
	entries, err := files.ReadDir(filepath.Dir(dir))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), filepath.Base(dir)+formattingSuffix) {
			continue
		}
		left := filepath.Join(filepath.Dir(dir), entry.Name())
		lock, err := files.Lock(filepath.Join(left, lockFile))
		if errors.Is(err, env.ErrLocked) {
			return fmt.Errorf("another process is formatting %s", dir)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := files.RemoveAll(left); err != nil {
			return fmt.Errorf("cannot remove what an earlier format left: %w", err)
		}
		if lock != nil {
			lock.Close()
		}
	}
	return nil
}
