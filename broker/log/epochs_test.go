package log

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

func newEpochs(t *testing.T, entries ...EpochEntry) *epochCache {
	t.Helper()
	c := &epochCache{env: env.OS(""), dir: t.TempDir()}
	if err := c.replace(entries); err != nil {
		t.Fatal(err)
	}
	return c
}

func wantEpochs(t *testing.T, c *epochCache, want ...EpochEntry) {
	t.Helper()
	if diff := cmp.Diff(want, c.all(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("in memory: %s", diff)
	}
	onDisk, err := readEpochs(c.env.FS, c.dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, onDisk, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("on disk: %s", diff)
	}
}

func TestEpochAssign(t *testing.T) {
	for _, c := range []struct {
		name   string
		before []EpochEntry
		assign EpochEntry
		want   []EpochEntry
	}{
		{"first", nil, EpochEntry{2, 11}, []EpochEntry{{2, 11}}},
		{"the same epoch later", []EpochEntry{{2, 11}}, EpochEntry{2, 12}, []EpochEntry{{2, 11}}},
		{"the same epoch at the same offset", []EpochEntry{{2, 11}}, EpochEntry{2, 11}, []EpochEntry{{2, 11}}},
		{"the same epoch earlier", []EpochEntry{{1, 4}, {2, 11}}, EpochEntry{2, 9}, []EpochEntry{{1, 4}, {2, 9}}},
		{"a new epoch at the same offset", []EpochEntry{{2, 9}}, EpochEntry{3, 9}, []EpochEntry{{3, 9}}},
		{"a new epoch before the old one", []EpochEntry{{2, 6}}, EpochEntry{3, 5}, []EpochEntry{{3, 5}}},
		{"an old epoch after newer ones", []EpochEntry{{1, 5}, {2, 6}}, EpochEntry{1, 7}, []EpochEntry{{1, 7}}},
		{"a new epoch further on", []EpochEntry{{1, 5}, {2, 6}}, EpochEntry{4, 9}, []EpochEntry{{1, 5}, {2, 6}, {4, 9}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cache := newEpochs(t, c.before...)
			if err := cache.assign(c.assign.Epoch, c.assign.StartOffset); err != nil {
				t.Fatal(err)
			}
			wantEpochs(t, cache, c.want...)
		})
	}
	cache := newEpochs(t, EpochEntry{2, 11})
	for _, e := range []EpochEntry{{-1, 12}, {3, -1}} {
		if err := cache.assign(e.Epoch, e.StartOffset); err == nil {
			t.Errorf("%v was accepted", e)
		}
	}
	wantEpochs(t, cache, EpochEntry{2, 11})
}

func TestEpochEndOffset(t *testing.T) {
	type answer struct {
		asked image.LeaderEpoch
		want  EpochEnd
		ok    bool
	}
	for _, c := range []struct {
		name    string
		entries []EpochEntry
		logEnd  int64
		answers []answer
	}{
		{"one epoch", []EpochEntry{{2, 11}}, 14, []answer{{2, EpochEnd{2, 14}, true}, {1, EpochEnd{1, 11}, true}, {3, EpochEnd{}, false}}},
		{"below the first", []EpochEntry{{5, 11}, {6, 12}, {7, 13}}, 20, []answer{{4, EpochEnd{4, 11}, true}}},
		{"between two", []EpochEntry{{0, 10}, {2, 13}, {4, 17}}, 20, []answer{
			{1, EpochEnd{0, 13}, true}, {2, EpochEnd{2, 17}, true}, {3, EpochEnd{2, 17}, true}, {4, EpochEnd{4, 20}, true},
		}},
		{"above the last", []EpochEntry{{2, 100}}, 101, []answer{{3, EpochEnd{}, false}}},
		{"undefined", []EpochEntry{{2, 100}}, 101, []answer{{-1, EpochEnd{}, false}}},
		{"empty", nil, 101, []answer{{0, EpochEnd{}, false}}},
		{"elected without data", []EpochEntry{{0, 0}, {5, 2}, {8, 4}}, 4, []answer{{8, EpochEnd{8, 4}, true}, {5, EpochEnd{5, 4}, true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cache := newEpochs(t, c.entries...)
			for _, a := range c.answers {
				if got, ok := cache.end(a.asked, c.logEnd); got != a.want || ok != a.ok {
					t.Errorf("end of %d: %v %v, want %v %v", a.asked, got, ok, a.want, a.ok)
				}
			}
		})
	}
}

func TestEpochTruncate(t *testing.T) {
	all := []EpochEntry{{2, 6}, {3, 8}, {4, 11}}
	for _, c := range []struct {
		name string
		do   func(*epochCache) error
		want []EpochEntry
	}{
		{"from the end at 8", func(c *epochCache) error { return c.truncateFromEnd(8) }, []EpochEntry{{2, 6}}},
		{"from the end at 9", func(c *epochCache) error { return c.truncateFromEnd(9) }, []EpochEntry{{2, 6}, {3, 8}}},
		{"from the end at 12", func(c *epochCache) error { return c.truncateFromEnd(12) }, all},
		{"from the end at 0", func(c *epochCache) error { return c.truncateFromEnd(0) }, nil},
		{"from the start at 5", func(c *epochCache) error { return c.truncateFromStart(5) }, all},
		{"from the start at 8", func(c *epochCache) error { return c.truncateFromStart(8) }, []EpochEntry{{3, 8}, {4, 11}}},
		{"from the start at 9", func(c *epochCache) error { return c.truncateFromStart(9) }, []EpochEntry{{3, 9}, {4, 11}}},
		{"from the start at 20", func(c *epochCache) error { return c.truncateFromStart(20) }, []EpochEntry{{4, 20}}},
		{"clear", (*epochCache).clear, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			cache := newEpochs(t, all...)
			if err := c.do(cache); err != nil {
				t.Fatal(err)
			}
			wantEpochs(t, cache, c.want...)
		})
	}
}

func TestEpochFileFormat(t *testing.T) {
	c := newEpochs(t, EpochEntry{0, 0}, EpochEntry{7, 123})
	got, err := os.ReadFile(filepath.Join(c.dir, "leader-epoch-checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "0\n2\n0 0\n7 123\n"; string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, bad := range []string{"", "1\n0\n", "0\n2\n0 0\n", "0\n1\n0\n", "0\n1\nx 0\n", "0\n2\n3 0\n3 5\n", "0\n2\n3 5\n4 5\n", "0\n1\n-1 0\n"} {
		if err := os.WriteFile(filepath.Join(c.dir, epochFile), []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readEpochs(c.env.FS, c.dir); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// An epoch without records does not count, one whose records were removed does.
func TestLastRecordEpoch(t *testing.T) {
	for _, c := range []struct {
		name    string
		entries []EpochEntry
		end     int64
		want    image.LeaderEpoch
		ok      bool
	}{
		{"never a record", nil, 0, 0, false},
		{"a leader that has appended nothing", []EpochEntry{{4, 0}}, 0, 0, false},
		{"records", []EpochEntry{{1, 0}, {4, 7}}, 9, 4, true},
		{"a newer leader that has appended nothing", []EpochEntry{{1, 0}, {4, 9}}, 9, 1, true},
		{"all records were removed", []EpochEntry{{3, 9}}, 9, 3, true},
		{"the epochs are lost", nil, 9, 0, false},
	} {
		if got, ok := lastRecordEpoch(c.entries, c.end); got != c.want || ok != c.ok {
			t.Errorf("%s: %d %v, want %d %v", c.name, got, ok, c.want, c.ok)
		}
	}
}
