package recovery

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/env/envtest"
	"github.com/quorate/quorate/quorum/raftnode"
)

const clusterID = "cluster"

func serverID(n int) raftnode.ServerID {
	return raftnode.ServerID{NodeID: int32(1000 + n), DirectoryID: base64.RawURLEncoding.EncodeToString([]byte(fmt.Sprintf("directory-%06d", n)))}
}

func server(n int) raftnode.Server {
	return raftnode.Server{ID: serverID(n), Address: fmt.Sprintf("c%d:9292", n), Voter: true}
}

// history writes the log of a quorum of three: a claim, topics, a claim again, more topics.
type history struct {
	t     *testing.T
	state fsm.State
	index uint64
	term  uint64
	logs  []*raft.Log
}

func (h *history) add(data []byte) *raft.Log {
	h.index++
	l := &raft.Log{Index: h.index, Term: h.term, Type: raft.LogCommand, Data: data}
	h.logs = append(h.logs, l)
	return l
}

func (h *history) claim(term uint64) {
	h.term = term
	data, err := record.EncodeClaim(&metadatapb.Claim{NodeId: 1001, TimeMs: 5})
	if err != nil {
		h.t.Fatal(err)
	}
	l := h.add(data)
	h.state = h.state.AfterClaim(l.Index, l.Term, 5)
}

func (h *history) topic(name string) {
	id := image.UUID([]byte(fmt.Sprintf("topic-%010s", name)))
	h.put(&metadatapb.Record{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: name, TopicId: id.Bytes()}}})
}

func (h *history) put(r *metadatapb.Record) {
	d, err := record.EncodeDecision(&metadatapb.Decision{Records: []*metadatapb.Record{r}})
	if err != nil {
		h.t.Fatal(err)
	}
	data, _ := record.EncodeEntry(record.EntryHeader{ClaimIndex: h.state.ClaimIndex, Term: h.state.ClaimTerm, Sequence: h.state.ExpectedSequence,
		BaseOffset: h.state.Offset + 1, Chain: h.state.Chain, TimeMs: 6}, [][]byte{d})
	l := h.add(data)
	c, err := record.DecodeCommand(l.Data)
	if err != nil {
		h.t.Fatal(err)
	}
	h.state = h.state.AfterEntry(l.Index, c.Entry)
}

// world is a quorum of three whose processes have all ended.
type world struct {
	t       *testing.T
	network *envtest.Network
	env     *env.Env
	logs    []*raft.Log
	history *history
}

func newWorld(t *testing.T) *world {
	network := envtest.NewNetwork()
	t.Cleanup(func() { network.Close() })
	h := &history{t: t, state: fsm.InitialState(), index: 1}
	h.claim(2)
	for _, name := range []string{"a", "b", "c"} {
		h.topic(name)
	}
	h.claim(4)
	h.topic("d")
	h.topic("e")
	return &world{t: t, network: network, env: &env.Env{Network: network.Host("operator"), FS: env.OS("").FS, Clock: envtest.NewClock()}, logs: h.logs, history: h}
}

// directory makes the data directory of controller n with the log up to an index.
func (w *world) directory(n int, upTo uint64) Directory {
	w.t.Helper()
	d := Directory{Path: filepath.Join(w.t.TempDir(), fmt.Sprint("c", n)), ID: serverID(n)}
	d.Raft = filepath.Join(d.Path, "raft")
	if err := os.MkdirAll(d.Raft, 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := raftnode.Bootstrap(w.env, d.Raft, []raftnode.Server{server(1), server(2), server(3)}); err != nil {
		w.t.Fatal(err)
	}
	store, err := raftboltdb.New(raftboltdb.Options{Path: filepath.Join(d.Raft, "log.bolt")})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, l := range w.logs {
		if l.Index <= upTo {
			err = errors.Join(err, store.StoreLog(l))
		}
	}
	if err = errors.Join(err, store.Close()); err != nil {
		w.t.Fatal(err)
	}
	return d
}

// runs lets a controller listen at its RAFT address, under a directory id, as far as its handshake.
func (w *world) runs(n int, id raftnode.ServerID) {
	w.t.Helper()
	node := raftnode.New(raftnode.Config{
		Env: &env.Env{Network: w.network.Host(fmt.Sprint("c", n)), FS: env.OS("").FS, Clock: envtest.NewClock()}, Logger: discard(),
		FSM: nothing{}, ClusterID: clusterID, ID: id, Dir: filepath.Join(w.t.TempDir(), "raft"), ListenAddress: fmt.Sprintf("c%d:9292", n),
		Fatal: func(error) {},
	})
	if err := node.Open(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { node.Close() })
}

func (w *world) prepare(o Options) (*Plan, error) {
	o.Env, o.ClusterID = w.env, clusterID
	if o.Self == (raftnode.Server{}) {
		o.Self = server(1)
	}
	return Prepare(context.Background(), o)
}

func names(im *image.Image) string {
	var out []string
	for topic := range im.Topics() {
		out = append(out, topic.Name())
	}
	return strings.Join(out, "")
}

// The furthest of the directories is taken as a vote would, whichever node goes on, and what is written is loaded again.
func TestRecoverFromTheFurthest(t *testing.T) {
	w := newWorld(t)
	last := w.logs[len(w.logs)-1].Index
	for _, c := range []struct {
		name     string
		upTo     [3]uint64 // 0: the directory is gone
		want     string
		furthest int
		certain  image.MetadataOffset
	}{
		{"only the own one", [3]uint64{last, 0, 0}, "abcde", 1, 2},
		{"another one is further", [3]uint64{3, last, 4}, "abcde", 2, 2},
		{"a higher term goes before a higher index", [3]uint64{5, 6, 0}, "abc", 2, -1},
		{"equal logs: the own one", [3]uint64{last, last, last}, "abcde", 1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.t = t
			var given []Directory
			for i, upTo := range c.upTo {
				if upTo > 0 {
					given = append(given, w.directory(i+1, upTo))
				}
			}
			p, err := w.prepare(Options{Directories: given, Force: true})
			if err != nil {
				t.Fatal(err)
			}
			if names(p.Before.Image) != c.want || p.Furthest.ID != serverID(c.furthest) || p.Certain.Offset != c.certain {
				t.Errorf("topics %s from %v, certain %v", names(p.Before.Image), p.Furthest.ID, p.Certain)
			}
			made := Directory{Path: t.TempDir(), ID: serverID(1)}
			made.Raft = filepath.Join(made.Path, "raft")
			if err := p.Write(w.env, made.Raft); err != nil {
				t.Fatal(err)
			}
			at, fresh, err := Fresh(w.env, made, clusterID)
			if err != nil || !fresh || at.Image.Fingerprint() != p.After.Image.Fingerprint() || at.State.Offset != p.After.State.Offset {
				t.Errorf("written %v, read %v, fresh %v, %v", p.After.State, at.State, fresh, err)
			}
			if l := at.Image.Lineage(); l.Number != 1 || !at.Image.IsRemovedController(1002, mustUUID(t, serverID(2))) {
				t.Errorf("lineage %v", l)
			}
			o, err := raftnode.OpenOffline(w.env, made.Raft)
			if err != nil {
				t.Fatal(err)
			}
			defer o.Close()
			if o.Term <= 1000 || o.LastIndex <= last && slices.Contains(c.upTo[:], last) || len(o.Configuration.Servers) != 1 {
				t.Errorf("term %d, index %d, configuration %v", o.Term, o.LastIndex, o.Configuration)
			}
		})
	}
}

func mustUUID(t *testing.T, id raftnode.ServerID) image.UUID {
	u, err := image.ParseUUID(id.DirectoryID)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// A quorum that lives, or may live, is not recovered.
func TestRefusals(t *testing.T) {
	w := newWorld(t)
	own, second := w.directory(1, 7), w.directory(2, 7)
	refuse := func(o Options, words string, forcible bool) {
		t.Helper()
		_, err := w.prepare(o)
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Forcible != forcible || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, want %q, forcible %v", err, words, forcible)
		}
	}
	refuse(Options{Directories: []Directory{own}}, "cannot be told", true)
	refuse(Options{Directories: []Directory{own, second}}, serverID(3).String(), true)
	if _, err := w.prepare(Options{Directories: []Directory{own, second, w.directory(3, 2)}}); err != nil {
		t.Errorf("all directories given: %v", err)
	}
	if _, err := w.prepare(Options{Directories: []Directory{own, second}, Force: true}); err != nil {
		t.Errorf("forced: %v", err)
	}
	w.runs(2, serverID(2))
	refuse(Options{Directories: []Directory{own}}, "answers", true)
	w.runs(3, serverID(3))
	refuse(Options{Directories: []Directory{own}, Force: true}, "a majority", false)
}

// A member that was formatted anew does not answer for the one that it was.
func TestMemberOfAnotherDirectoryDoesNotAnswer(t *testing.T) {
	w := newWorld(t)
	own := w.directory(1, 7)
	w.runs(2, serverID(2002))
	w.runs(3, serverID(2003))
	if _, err := w.prepare(Options{Directories: []Directory{own}}); err == nil || !strings.Contains(err.Error(), "cannot be told") {
		t.Errorf("%v", err)
	}
}

// A node that was removed with its directory would be refused by every controller that is added to it.
func TestRemovedControllerDoesNotGoOn(t *testing.T) {
	w := newWorld(t)
	removed := image.RemovedController{ID: 1001, DirectoryID: mustUUID(t, serverID(1)), RemovedAtMs: 7}
	w.history.put(&metadatapb.Record{Kind: &metadatapb.Record_RemovedController{RemovedController: removed.Record()}})
	w.logs = w.history.logs
	own := w.directory(1, w.history.index)
	_, err := w.prepare(Options{Directories: []Directory{own}, Force: true})
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Forcible || !strings.Contains(err.Error(), "format a new directory") {
		t.Errorf("%v", err)
	}
	anew := server(9)
	anew.ID.NodeID = 1001
	if _, err := w.prepare(Options{Self: anew, Directories: []Directory{own}, Force: true}); err != nil {
		t.Errorf("with a new directory: %v", err)
	}
}

// What cannot be read is named, and nothing is guessed.
func TestUnreadableDirectories(t *testing.T) {
	w := newWorld(t)
	own := w.directory(1, 7)
	blank := Directory{Path: "blank", Raft: filepath.Join(t.TempDir(), "raft"), ID: serverID(1)}
	if _, err := w.prepare(Options{Directories: []Directory{blank}, Force: true}); err == nil || !strings.Contains(err.Error(), "nothing to recover from") {
		t.Errorf("blank: %v", err)
	}
	if p, err := w.prepare(Options{Directories: []Directory{blank, own}, Force: true}); err != nil || names(p.Before.Image) == "" {
		t.Errorf("a blank directory of its own: %v", err)
	}
	empty := w.directory(2, 0)
	if _, err := w.prepare(Options{Directories: []Directory{empty}, Force: true}); err == nil || !strings.Contains(err.Error(), "no metadata") {
		t.Errorf("a log without metadata: %v", err)
	}
	if err := os.Truncate(filepath.Join(own.Raft, "log.bolt"), 9000); err != nil {
		t.Fatal(err)
	}
	if _, err := w.prepare(Options{Directories: []Directory{own, empty}, Force: true}); err == nil || !strings.Contains(err.Error(), own.Raft) || !strings.Contains(err.Error(), "leave this one out") {
		t.Errorf("cut: %v", err)
	}
}

// Stores that are beside the meta.properties of another server do not count as that server's.
func TestStoresOfAnotherServerAreNotRecoveredFrom(t *testing.T) {
	w := newWorld(t)
	own, second := w.directory(1, 7), w.directory(2, 0)
	node := raftnode.New(raftnode.Config{
		Env: &env.Env{Network: w.network.Host("c3"), FS: env.OS("").FS, Clock: envtest.NewClock()}, Logger: discard(),
		FSM: nothing{}, ClusterID: clusterID, ID: serverID(3), Dir: second.Raft, ListenAddress: "c3:9292", Fatal: func(error) {},
	})
	if err := errors.Join(node.Open(t.Context()), node.Close()); err != nil {
		t.Fatal(err)
	}
	_, err := w.prepare(Options{Directories: []Directory{own, second}, Force: true})
	if !errors.Is(err, raftnode.ErrForeignState) || !strings.Contains(err.Error(), second.Raft) || !strings.Contains(err.Error(), serverID(3).String()) ||
		!strings.Contains(err.Error(), "leave this one out") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
	second.ID = serverID(3)
	if p, err := w.prepare(Options{Directories: []Directory{own, second}, Force: true}); err != nil || !p.IsComplete() {
		t.Errorf("with what belongs to it: %v", err)
	}
}

// A damaged snapshot is told, and one that the furthest log does not reach holds a recovery up.
func TestDamagedSnapshotMetaHoldsARecoveryUp(t *testing.T) {
	w := newWorld(t)
	damage := func(d Directory, name string) {
		t.Helper()
		path := filepath.Join(d.Raft, "snapshots", name)
		if err := errors.Join(os.MkdirAll(path, 0o755), os.WriteFile(filepath.Join(path, "meta.json"), []byte("{"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	last := w.logs[len(w.logs)-1]
	for name, holds := range map[string]bool{
		"4-5-1700000000000": false, fmt.Sprintf("%d-%d-1", last.Term, last.Index): false, fmt.Sprintf("%d-%d-1", last.Term, last.Index+20): true, "odd": true,
	} {
		own := w.directory(1, last.Index)
		damage(own, name)
		_, err := w.prepare(Options{Directories: []Directory{own, w.directory(2, 3), w.directory(3, 3)}})
		var refused *RefusedError
		if got := errors.As(err, &refused); got != holds || !got && err != nil || holds && (!refused.Forcible || !strings.Contains(err.Error(), name)) {
			t.Errorf("%s: %v", name, err)
		}
		p, err := w.prepare(Options{Directories: []Directory{own}, Force: true})
		if err != nil || len(p.Sources[0].Damaged) != 1 || p.Index <= p.Sources[0].Damaged[0].Index {
			t.Errorf("%s, forced: %+v, %v", name, p, err)
		}
	}
	only := Directory{Path: "only", Raft: filepath.Join(t.TempDir(), "raft"), ID: serverID(1)}
	p, err := w.prepare(Options{Directories: []Directory{w.directory(1, 5)}, Force: true})
	if err = errors.Join(err, p.Write(w.env, only.Raft)); err != nil {
		t.Fatal(err)
	}
	metas, _ := filepath.Glob(filepath.Join(only.Raft, "snapshots", "*", "meta.json"))
	if err := os.WriteFile(metas[0], []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := w.prepare(Options{Directories: []Directory{only, w.directory(2, 3)}, Force: true}); err == nil || !strings.Contains(err.Error(), metas[0]) {
		t.Errorf("nothing but a damaged snapshot: %v", err)
	}
}

// Who can tell that nothing is lost: the directories of a majority were given, whichever is the furthest.
func TestNothingIsLostWithAMajorityOfTheDirectories(t *testing.T) {
	w := newWorld(t)
	own, second, third := w.directory(1, 7), w.directory(2, 3), w.directory(3, 5)
	for _, c := range []struct {
		o    Options
		want bool
	}{
		{Options{Directories: []Directory{own}}, false},
		{Options{Directories: []Directory{own, second}}, true},
		{Options{Directories: []Directory{own, second, third}}, true},
		{Options{Directories: []Directory{own, second}, WithoutOwn: true}, false},
		{Options{Directories: []Directory{own, second, third}, WithoutOwn: true}, true},
	} {
		c.o.Force = true
		p, err := w.prepare(c.o)
		if err != nil || p.IsComplete() != c.want {
			t.Errorf("%d directories, without the own one %v: %+v, %v", len(c.o.Directories), c.o.WithoutOwn, p, err)
		}
	}
}

// A damaged directory of the node's own can be left out: the others' are enough if they are a majority, else that has to be forced.
func TestOwnDamagedDirectoryIsLeftOut(t *testing.T) {
	w := newWorld(t)
	own, second, third := w.directory(1, 7), w.directory(2, 6), w.directory(3, 5)
	if err := os.Truncate(filepath.Join(own.Raft, "log.bolt"), 9000); err != nil {
		t.Fatal(err)
	}
	if _, err := w.prepare(Options{Directories: []Directory{own, second, third}}); err == nil || !strings.Contains(err.Error(), "--without-own") {
		t.Errorf("%v", err)
	}
	p, err := w.prepare(Options{Directories: []Directory{own, second, third}, WithoutOwn: true})
	if err != nil || p.Furthest.ID != second.ID || p.After.Image.Lineage().Controller != 1001 {
		t.Errorf("%+v, %v", p, err)
	}
	var refused *RefusedError
	if _, err := w.prepare(Options{Directories: []Directory{own, second}, WithoutOwn: true}); !errors.As(err, &refused) || !refused.Forcible || !strings.Contains(err.Error(), "no majority") {
		t.Errorf("%v", err)
	}
}

// A recovery that was done elsewhere is not done again beside it: not while a controller of that lineage answers, and only by force when a
// directory is known to be left from before. The lineage that begins then goes before that one too.
func TestRecoveryBesideAnotherLineage(t *testing.T) {
	w := newWorld(t)
	own := w.directory(1, 7)
	marker := `{"lineage":4,"ownLineage":0,"removed":false,"saidBy":"controller 1003"}`
	if err := os.WriteFile(filepath.Join(own.Raft, "superseded.json"), []byte(marker), 0o600); err != nil {
		t.Fatal(err)
	}
	var refused *RefusedError
	all := []Directory{own, w.directory(2, 3), w.directory(3, 3)}
	if _, err := w.prepare(Options{Directories: all}); !errors.As(err, &refused) || !refused.Forcible || !strings.Contains(err.Error(), "lineage 4") {
		t.Errorf("%v", err)
	}
	p, err := w.prepare(Options{Directories: all, Force: true})
	if err != nil || p.After.Image.Lineage().Number != 5 {
		t.Errorf("forced: %+v, %v", p, err)
	}
	members := []Member{{Server: server(3), Found: Answers, Lineage: 1}}
	if _, err := judgeLineages(0, members, nil); !errors.As(err, &refused) || refused.Forcible || !strings.Contains(err.Error(), "quorum add") {
		t.Errorf("one of the newer lineage answers: %v", err)
	}
	if above, err := judgeLineages(1, members, nil); err != nil || above != 0 {
		t.Errorf("of the same lineage: %d, %v", above, err)
	}
}

// nothing is an FSM that holds nothing.
type nothing struct{}

func (nothing) Apply(*raft.Log) any                 { return nil }
func (nothing) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.New("nothing") }
func (nothing) Restore(rc io.ReadCloser) error      { return rc.Close() }

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
