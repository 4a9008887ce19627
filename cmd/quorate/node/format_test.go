package node_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/cmd/quorate/node"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/env/envtest"
)

func controllerConfig(t *testing.T, dir string) *node.Config {
	t.Helper()
	text := "process.roles=controller\nnode.id=1001\nlog.dirs=" + dir + "\nlisteners=GRPC://h:9192,RAFT://h:9292\n"
	c, _, err := load(t, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func bootstrap(e *env.Env, dir string, initial []node.InitialController) error {
	return env.WriteFileAtomic(e.FS, filepath.Join(dir, "raft.db"), fmt.Appendf(nil, "%d voters", len(initial)), 0o644)
}

func options(t *testing.T, dir string) node.FormatOptions {
	own := node.InitialController{NodeID: 1001, RaftAddress: "h:9292", DirectoryID: node.RandomUUID()}
	return node.FormatOptions{
		Config: controllerConfig(t, dir), ClusterID: node.RandomUUID(), InitialControllers: []node.InitialController{own}, Bootstrap: bootstrap,
	}
}

func TestFormatWritesIdentity(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "data")
	o := options(t, dir)
	id, err := node.Format(env.OS(""), o)
	if err != nil {
		t.Fatal(err)
	}
	read, err := node.CheckIdentity(env.OS("").FS, o.Config, o.ClusterID.String())
	if err != nil || read != id || id.DirectoryID != o.InitialControllers[0].DirectoryID {
		t.Fatalf("%+v, wrote %+v: %v", read, id, err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "raft", "raft.db")); err != nil || string(data) != "1 voters" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := node.Format(env.OS(""), o); err == nil || !strings.Contains(err.Error(), "is formatted already, for node 1001 of cluster") {
		t.Errorf("second format: %v", err)
	}
}

// An empty directory that somebody made is taken, with its mode; a link to one is left alone.
func TestFormatTakesAnEmptyDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	o := options(t, dir)
	if _, err := node.Format(env.OS(""), o); err != nil {
		t.Fatal(err)
	}
	if _, err := node.CheckIdentity(env.OS("").FS, o.Config, ""); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}

	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	if _, err := node.Format(env.OS(""), options(t, link)); err == nil || !strings.Contains(err.Error(), "use a folder in it") {
		t.Errorf("through a link: %v", err)
	}
	if _, err := os.Readlink(link); err != nil {
		t.Errorf("the link is gone: %v", err)
	}
}

// An operator may make the directory before format does.
func TestFormatIntoEmptyDirectory(t *testing.T) {
	dir := t.TempDir()
	o := options(t, dir)
	if _, err := node.Format(env.OS(""), o); err != nil {
		t.Fatal(err)
	}
	if _, err := node.CheckIdentity(env.OS("").FS, o.Config, o.ClusterID.String()); err != nil {
		t.Error(err)
	}
}

type death struct{}

// A format that dies at any point leaves a directory that the next one formats, or that is formatted whole.
func TestFormatDiesAnywhere(t *testing.T) {
	var points []string
	e := env.OS("")
	e.Hook = func(p string) { points = append(points, p) }
	if _, err := node.Format(e, options(t, filepath.Join(t.TempDir(), "data"))); err != nil {
		t.Fatal(err)
	}
	if len(points) < 7 {
		t.Fatalf("points: %v", points)
	}
	for _, at := range points {
		t.Run(at, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			o := options(t, dir)
			e := env.OS("")
			e.Hook = func(p string) {
				if p == at {
					panic(death{})
				}
			}
			func() {
				defer func() {
					if r := recover(); r != (death{}) {
						t.Fatal(r)
					}
				}()
				_, err := node.Format(e, o)
				t.Fatal("lived", err)
			}()
			_, err := node.CheckIdentity(e.FS, o.Config, "")
			done := err == nil
			if _, err := node.Format(env.OS(""), o); done != (err != nil) {
				t.Fatalf("formatted before: %v, then: %v", done, err)
			}
			if _, err := node.CheckIdentity(e.FS, o.Config, o.ClusterID.String()); err != nil {
				t.Error(err)
			}
			entries, _ := os.ReadDir(filepath.Dir(dir))
			if len(entries) != 1 {
				t.Errorf("left behind: %v", entries)
			}
		})
	}
}

// A disk that fails at any call leaves nothing formatted and nothing behind that hinders the next format.
func TestFormatOnFailingDisk(t *testing.T) {
	full := errors.New("no space left on device")
	for nth := 1; ; nth++ {
		dir := filepath.Join(t.TempDir(), "data")
		o := options(t, dir)
		faults := envtest.NewFaults()
		faults.Add(envtest.Rule{Nth: nth, Err: full})
		e := env.OS("")
		e.FS = envtest.NewFS(e.FS, faults)
		_, err := node.Format(e, o)
		if faults.Hits() == 0 {
			if err != nil || nth < 8 {
				t.Fatalf("call %d: %v", nth, err)
			}
			return
		}
		if err == nil {
			t.Fatalf("call %d failed and format did not", nth)
		}
		if _, err := node.CheckIdentity(env.OS("").FS, o.Config, ""); err == nil {
			continue // only the last sync failed: formatted, and said to be uncertain
		}
		if _, err := node.Format(env.OS(""), o); err != nil {
			t.Fatalf("after a failure at call %d: %v", nth, err)
		}
	}
}

func TestFormatRefuses(t *testing.T) {
	other := node.InitialController{NodeID: 1002, RaftAddress: "h:9293", DirectoryID: node.RandomUUID()}
	for _, c := range []struct {
		name   string
		change func(*node.FormatOptions)
		want   string
	}{
		{"no cluster id", func(o *node.FormatOptions) { o.ClusterID = image.UUID{} }, "cluster id is zero"},
		{"no voters", func(o *node.FormatOptions) { o.InitialControllers = nil }, "--initial-controllers or with --no-initial-controllers"},
		{"both", func(o *node.FormatOptions) { o.NoInitialControllers = true }, "not with both or none"},
		{"not among voters", func(o *node.FormatOptions) { o.InitialControllers = []node.InitialController{other} }, "node 1001 is not among --initial-controllers"},
		{"other directory id", func(o *node.FormatOptions) { o.DirectoryID = node.RandomUUID() }, "--directory-id is"},
		{"other address", func(o *node.FormatOptions) { o.InitialControllers[0].RaftAddress = "x:1" }, "its advertised RAFT listener is h:9292"},
		{"broker with voters", func(o *node.FormatOptions) {
			c, _, err := load(t, brokerFile, nil, "log.dirs="+o.Config.DataDir)
			if err != nil {
				t.Fatal(err)
			}
			o.Config = c
		}, "only nodes with the controller role"},
		{"foreign directory", func(o *node.FormatOptions) {
			if err := os.MkdirAll(filepath.Join(o.Config.DataDir, "mine"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, "is not empty (it holds mine)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options(t, filepath.Join(t.TempDir(), "data"))
			c.change(&o)
			if _, err := node.Format(env.OS(""), o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

func TestParseInitialControllers(t *testing.T) {
	id, id2 := "abcdefghijklmnopqrstuw", "bbcdefghijklmnopqrstuw"
	got, err := node.ParseInitialControllers("1001@h:9292:" + id + ",1002@[::1]:9293:" + id2)
	if err != nil || len(got) != 2 || got[1].RaftAddress != "[::1]:9293" || got[0].DirectoryID.String() != id {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, bad := range []string{"1001", "1001@h:9292", "x@h:1:" + id, "1@h:0:" + id, "1@:1:" + id, "1@h:1:short", "1@h:1:" + id + ",1@g:1:" + id2, "1@h:1:" + id + ",2@h:1:" + id2, "1@h:1:" + id + ",2@g:1:" + id} {
		if _, err := node.ParseInitialControllers(bad); err == nil {
			t.Errorf("accepted %s", bad)
		}
	}
}

func TestIdentityRefusals(t *testing.T) {
	files := env.OS("").FS
	dir := t.TempDir()
	c := controllerConfig(t, dir)
	meta := filepath.Join(dir, "meta.properties")
	uuid := node.RandomUUID().String()
	for _, x := range []struct{ name, text, cluster, want string }{
		{"unformatted", "", "", "is not formatted; run quorate format"},
		{"other node", "version=1\ncluster.id=c\nnode.id=7\ndirectory.id=" + uuid, "", "belongs to node 7, node.id is 1001"},
		{"other cluster", "version=1\ncluster.id=c\nnode.id=1001\ndirectory.id=" + uuid, "d", "belongs to cluster c, not to d"},
		{"later version", "version=2\ncluster.id=c\nnode.id=1001\ndirectory.id=" + uuid, "", `version is "2"`},
		{"no cluster", "version=1\nnode.id=1001\ndirectory.id=" + uuid, "", "cluster.id is missing"},
		{"torn", "version=1\ncluster.id=c\nnode.id=1001\ndirec", "", "directory.id:"},
	} {
		if x.text != "" {
			if err := os.WriteFile(meta, []byte(x.text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := node.CheckIdentity(files, c, x.cluster); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %s", x.name, err, x.want)
		}
	}
}

func TestSecondProcessIsRefusedByPid(t *testing.T) {
	dir := t.TempDir()
	e := env.OS("")
	if pid, err := node.RunningPid(e.FS, dir); pid != 0 || err != nil {
		t.Fatal(pid, err)
	}
	lock, err := node.AcquireLock(e, dir)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("in use by process %d; stop it first", os.Getpid())
	if _, err := node.AcquireLock(e, dir); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if pid, err := node.RunningPid(e.FS, dir); pid != os.Getpid() || err != nil {
		t.Error(pid, err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if pid, err := node.RunningPid(e.FS, dir); pid != 0 || err != nil {
		t.Error(pid, err)
	}
}
