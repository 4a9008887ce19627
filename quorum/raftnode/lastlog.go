package raftnode

import (
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/hashicorp/raft"
)

const (
	// raftModule and raftChecked are the library, and the release of it whose code was read for setLastLog.
	raftModule  = "github.com/hashicorp/raft"
	raftChecked = "v1.8.0"
	// raftStateChecked are the fields of its raftState there, all of them, in their order.
	raftStateChecked = "currentTerm uint64, commitIndex uint64, lastApplied uint64, lastLock sync.Mutex, lastSnapshotIndex uint64, " +
		"lastSnapshotTerm uint64, lastLogIndex uint64, lastLogTerm uint64, routinesGroup sync.WaitGroup, state raft.RaftState"
)

// errLibraryChanged says that the library is not the one whose memory setLastLog knows. Nothing was written.
var errLibraryChanged = errors.New("raftnode: another release of hashicorp/raft")

// setLastLog tells the library where the log now ends: at the snapshot, with nothing in the store, as after a restore by the
// user. The library keeps the last entry's index and term in memory beside the store and has no call for it. With the old
// ones it would look for deleted entries, and could take the old end for entries that the leader's commit index covers.
//
// It writes unexported fields under the library's own mutex. It does so only in the release that was checked, if every field of
// that struct is what it was, and if the two fields say what the library itself says of them; else it refuses with
// errLibraryChanged, the process ends, and the next start reads the end from the store.
func setLastLog(r *raft.Raft, index, term uint64) error {
	if err := checkRelease(linkedRaft()); err != nil {
		return err
	}
	state := reflect.ValueOf(r).Elem().FieldByName("raftState")
	if err := checkFields(state); err != nil {
		return err
	}
	stats := r.Stats()
	lock, lastIndex, lastTerm := state.FieldByName("lastLock"), state.FieldByName("lastLogIndex"), state.FieldByName("lastLogTerm")
	mu := (*sync.Mutex)(lock.Addr().UnsafePointer())
	mu.Lock()
	defer mu.Unlock()
	if at, of := fmt.Sprint(lastIndex.Uint()), fmt.Sprint(lastTerm.Uint()); at != stats["last_log_index"] || of != stats["last_log_term"] {
		return fmt.Errorf("%w: its log ends at %s of term %s, and the fields say %s of term %s", errLibraryChanged,
			stats["last_log_index"], stats["last_log_term"], at, of)
	}
	*(*uint64)(lastIndex.Addr().UnsafePointer()) = index
	*(*uint64)(lastTerm.Addr().UnsafePointer()) = term
	return nil
}

// linkedRaft is the release that this program was built with; empty if the program does not tell, as test programs do not.
func linkedRaft() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path != raftModule {
			continue
		}
		if m.Replace != nil {
			return m.Replace.Path + " " + m.Replace.Version
		}
		return m.Version
	}
	return ""
}

func checkRelease(linked string) error {
	if linked != "" && linked != raftChecked {
		return fmt.Errorf("%w: %s is linked, %s was checked", errLibraryChanged, linked, raftChecked)
	}
	return nil
}

// checkFields compares a raftState with the one that was checked.
func checkFields(state reflect.Value) error {
	if !state.IsValid() || state.Kind() != reflect.Struct || !state.CanAddr() {
		return fmt.Errorf("%w: it has no raftState", errLibraryChanged)
	}
	var fields []string
	for f := range state.Type().Fields() {
		fields = append(fields, f.Name+" "+f.Type.String())
	}
	if got := strings.Join(fields, ", "); got != raftStateChecked {
		return fmt.Errorf("%w: its state has the fields %s", errLibraryChanged, got)
	}
	return nil
}
