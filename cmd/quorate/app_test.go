package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/quorum/env"
)

func TestHelpAndUnknownCommands(t *testing.T) { newWorld(t).golden(t, "app.txt", nil) }

func TestCompletionWorksOffline(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		var out, errs bytes.Buffer
		a := &app{stdout: &out, stderr: &errs, env: env.OS("")}
		if code := a.run(context.Background(), []string{"completion", shell}); code != 0 || out.Len() < 1000 || errs.Len() > 0 {
			t.Errorf("%s: exit %d, %d bytes, %s", shell, code, out.Len(), errs.String())
		}
	}
}

func TestWhereTheClusterIs(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cluster.json"), []byte(`{"controllers":["d:1"]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		a       app
		want    []string
		problem string
	}{
		{"default", app{}, []string{"localhost:9192", "localhost:9193", "localhost:9194"}, ""},
		{"environment", app{environ: []string{"QUORATE_CONTROLLERS=e:1,e:2"}}, []string{"e:1", "e:2"}, ""},
		{"flag over environment", app{controllers: []string{"f:1"}, environ: []string{"QUORATE_CONTROLLERS=e:1"}}, []string{"f:1"}, ""},
		{"cluster over environment", app{clusterDir: dir, environ: []string{"QUORATE_CONTROLLERS=e:1"}}, []string{"d:1"}, ""},
		{"both flags", app{clusterDir: dir, controllers: []string{"f:1"}}, nil, "give one"},
		{"no cluster there", app{clusterDir: t.TempDir()}, nil, "holds no cluster.json"},
	} {
		c.a.env = env.OS("")
		got, err := c.a.addresses()
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
		var f *failure
		if c.problem != "" && (!errors.As(err, &f) || f.exit != exitUsage || !strings.Contains(err.Error(), c.problem)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestJSONForms(t *testing.T) {
	got := string(appendJSON(nil, object{
		{"none", nil}, {"text", "a\"\\\n\t\x01é\xff"}, {"yes", true}, {"n", -5}, {"big", uint64(1) << 63}, {"empty", list{}}, {"ids", []int32{}}, {"more", []int32{1, 2}}, {"o", object{}},
	}))
	want := `{"none":null,"text":"a\"\\\n\t\u0001é�","yes":true,"n":-5,"big":9223372036854775808,"empty":[],"ids":[],"more":[1,2],"o":{}}`
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// What is refused by the system for the sake of a listener is a matter of configuration, not an unknown error.
func TestTakenPortIsAMatterOfConfiguration(t *testing.T) {
	f := explain(fmt.Errorf("broker: KAFKA listener: %w", syscall.EADDRINUSE))
	if f.code != "INVALID_CONFIG" || f.exit != exitRefused || f.retriable {
		t.Errorf("%+v", f)
	}
}

func TestMessagesArePlain(t *testing.T) {
	for message, want := range map[string]string{
		`--by-id: image: not a uuid: "x" is not 22 characters of base64url`:               `--by-id: "x" is not 22 characters of base64url`,
		"client: h:1 did not answer in time: rpc error: code = DeadlineExceeded desc = x": "h:1 did not answer in time",
	} {
		if got := plain(message); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// A disk that is full or broken is named as such, whoever met it and whatever was being done.
func TestFailuresOfTheDiskAreStorageErrors(t *testing.T) {
	for _, err := range []error{
		fmt.Errorf("raftnode: store: %w", &fs.PathError{Op: "write", Path: "raft/log.bolt", Err: syscall.ENOSPC}),
		&log.StorageError{Op: "append to", Path: "orders-0/0.log", Err: syscall.EIO},
		fmt.Errorf("history: %w", syscall.EROFS),
	} {
		f := explain(err)
		if f.code != "KAFKA_STORAGE_ERROR" || f.exit != exitRefused || !strings.HasPrefix(f.message, err.Error()) || !strings.Contains(f.message, "; ") {
			t.Errorf("%v: %+v", err, f)
		}
	}
}
