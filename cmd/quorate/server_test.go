package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestServer(t *testing.T) {
	w := newWorld(t)
	text := "process.roles=broker\nnode.id=1\nlog.dirs=" + filepath.Join(w.files, "b") + "\nlisteners=KAFKA://127.0.0.1:9092,GRPC://127.0.0.1:9195\n" +
		"controller.quorum.bootstrap.servers=127.0.0.1:9192\n"
	if err := os.WriteFile(filepath.Join(w.files, "broker.properties"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	w.golden(t, "server.txt", nil)
}
