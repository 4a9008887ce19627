package raftnode

import (
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/quorum/env/envtest"
)

// The store decodes into the bytes that the caller's variable holds when their length fits. A caller that reads into one
// variable, first from the cache, then from the store, must not make it write into the cache: two entries of equal length
// would become one, on this replica only.
func TestReadsIntoOneVariableDoNotWriteIntoTheCache(t *testing.T) {
	st := testStores(t, envtest.NewFaults(), noFatal(t))
	cache := newLogCache(st.log, 1, 1<<20, new(Metrics)) // room for one entry
	for index, data := range []string{"first", "other"} {
		if err := cache.StoreLog(&raft.Log{Index: uint64(index + 1), Term: 1, Data: []byte(data)}); err != nil {
			t.Fatal(err)
		}
	}
	var entry raft.Log
	for _, index := range []uint64{2, 1, 2} {
		if err := cache.GetLog(index, &entry); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(entry.Data); got != "other" {
		t.Errorf("entry 2 is %q after entry 1 was read into the same variable, want %q", got, "other")
	}
}
