package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFormat(t *testing.T) {
	w := newWorld(t)
	for name, text := range map[string]string{
		"controller.properties": "process.roles=controller\nnode.id=1001\nlog.dirs=" + filepath.Join(w.files, "c") + "\nlisteners=GRPC://127.0.0.1:9192,RAFT://127.0.0.1:9292\n",
		"broker.properties": "process.roles=broker\nnode.id=1\nlog.dirs=" + filepath.Join(w.files, "b") + "\nlisteners=KAFKA://127.0.0.1:9092,GRPC://127.0.0.1:9195\n" +
			"controller.quorum.bootstrap.servers=127.0.0.1:9192\nnum.io.threads=8\n",
		"bad.properties": "process.roles=broker\nnum.partition=3\n",
	} {
		if err := os.WriteFile(filepath.Join(w.files, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w.golden(t, "format.txt", nil)
}
