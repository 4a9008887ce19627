package raftnode

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
)

// The library's fields for the end of the log are where setLastLog looks for them.
func TestLastLogCanBeSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		defer c.close()
		c.start()
		leader := c.leader()
		last := leader.node.LastIndex()
		if err := setLastLog(leader.node.running(), last+5, 7); err != nil {
			t.Fatalf("%v: read its state.go anew, then correct raftChecked and raftStateChecked", err)
		}
		stats := leader.node.Stats()
		if stats["last_log_index"] != fmt.Sprint(last+5) || stats["last_log_term"] != "7" {
			t.Errorf("%s, %s", stats["last_log_index"], stats["last_log_term"])
		}
	})
}

// The release that go.mod names is the one that was checked: a program tells the one that it is linked with, a test does not.
func TestLinkedRaftIsTheOneThatWasChecked(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for line := range strings.Lines(string(mod)) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && fields[0] == raftModule {
			found = true
			if fields[1] != raftChecked {
				t.Errorf("go.mod has %s %s, checked was %s: read its state.go and correct raftChecked", raftModule, fields[1], raftChecked)
			}
		}
	}
	if !found {
		t.Errorf("go.mod does not require %s", raftModule)
	}
	for linked, ok := range map[string]bool{raftChecked: true, "": true, "v1.8.1": false, "../raft ": false} {
		if err := checkRelease(linked); (err == nil) != ok || err != nil && !errors.Is(err, errLibraryChanged) {
			t.Errorf("%q: %v", linked, err)
		}
	}
}

// A state with a field more, less, elsewhere or of another type is refused; the one that was checked is not.
func TestOtherFieldsAreRefused(t *testing.T) {
	var same struct {
		currentTerm, commitIndex, lastApplied uint64
		lastLock                              sync.Mutex
		lastSnapshotIndex, lastSnapshotTerm   uint64
		lastLogIndex, lastLogTerm             uint64
		routinesGroup                         sync.WaitGroup
		state                                 raft.RaftState
	}
	if err := checkFields(reflect.ValueOf(&same).Elem()); err != nil {
		t.Errorf("the same fields: %v", err)
	}
	var swapped struct {
		currentTerm, commitIndex, lastApplied uint64
		lastLock                              sync.Mutex
		lastSnapshotIndex, lastSnapshotTerm   uint64
		lastLogTerm, lastLogIndex             uint64
		routinesGroup                         sync.WaitGroup
		state                                 raft.RaftState
	}
	var narrow struct {
		currentTerm, commitIndex, lastApplied uint64
		lastLock                              sync.Mutex
		lastSnapshotIndex, lastSnapshotTerm   uint64
		lastLogIndex, lastLogTerm             uint32
		routinesGroup                         sync.WaitGroup
		state                                 raft.RaftState
	}
	var shared struct {
		currentTerm, commitIndex, lastApplied uint64
		lastLock                              sync.RWMutex
		lastSnapshotIndex, lastSnapshotTerm   uint64
		lastLogIndex, lastLogTerm             uint64
		routinesGroup                         sync.WaitGroup
		state                                 raft.RaftState
	}
	var less struct{ lastLogIndex, lastLogTerm uint64 }
	for name, state := range map[string]reflect.Value{
		"swapped": reflect.ValueOf(&swapped).Elem(), "narrow": reflect.ValueOf(&narrow).Elem(), "another mutex": reflect.ValueOf(&shared).Elem(),
		"less": reflect.ValueOf(&less).Elem(), "none": reflect.ValueOf(&less).Elem().FieldByName("raftState"), "not in place": reflect.ValueOf(same.state),
	} {
		if err := checkFields(state); !errors.Is(err, errLibraryChanged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// With another library a node that meets the case ends its process and has written nothing; its next start follows.
func TestChangedLibraryEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		defer c.close()
		c.tweak = func(cfg *Config) { cfg.TrailingEntries = 1 }
		c.prepare = func(n *Node) {
			n.parts.lastLog = func(*raft.Raft, uint64, uint64) error { return checkRelease("v9.9.9") }
		}
		c.start()
		cut, _ := diverge(c, 60)
		c.network.HealAll()
		if err := <-cut.fatal; !errors.Is(err, errLibraryChanged) || !strings.Contains(err.Error(), "start the node again") {
			t.Fatalf("fatal: %v", err)
		}
		c.stop(cut)
		c.prepare = func(*Node) {}
		c.start(cut)
		c.commit(c.leader(), "end")
		c.everybodyHas("end", c.members...)
		sameEverywhere(c)
	})
}
