package cluster_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/quorate/quorate/test/cluster"
)

// text is a real text of at least 100,000 lines, none empty: the standard library's source.
func text(t *testing.T) []string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(root)), "src", "*", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimRight(line, "\r\n"); line != "" {
				lines = append(lines, line)
			}
		}
		if len(lines) > 120_000 {
			return lines
		}
	}
	if len(lines) < 100_000 {
		t.Fatalf("the standard library has only %d lines here", len(lines))
	}
	return lines
}

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func TestRealClientsRoundTrip(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{})
	lines := text(t)
	t.Run("franz-go", func(t *testing.T) {
		for name, codec := range codecs {
			one, twelve := "fgo-one-"+name, "fgo-twelve-"+name
			c.Must(t, "topic", "create", one, "--partitions", "1", "--replication-factor", "3")
			c.Must(t, "topic", "create", twelve, "--partitions", "12", "--replication-factor", "3")
			produce(t, c, one, codec, lines)
			produce(t, c, twelve, codec, lines)
			checkOne(t, c, one, lines)
			checkKeyed(t, c, twelve, lines)
		}
	})
	t.Run("kcat", func(t *testing.T) {
		if _, err := exec.LookPath("kcat"); err != nil {
			t.Skip("kcat is not installed; the Debian package kcat has it")
		}
		input := filepath.Join(t.TempDir(), "text")
		if err := os.WriteFile(input, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		for name := range codecs {
			topic := "kcat-" + name
			c.Must(t, "topic", "create", topic, "--partitions", "1", "--replication-factor", "3")
			kcat(t, "-b", c.Kafka[0], "-P", "-t", topic, "-X", "acks=all", "-z", name, "-l", input)
			for _, bootstrap := range c.Kafka {
				got := kcat(t, "-b", bootstrap, "-C", "-t", topic, "-e", "-q", "-o", "beginning", "-X", "check.crcs=true")
				want, _ := os.ReadFile(input)
				if !bytes.Equal(got, want) {
					t.Fatalf("%s from %s: %d bytes, want %d identical ones", topic, bootstrap, len(got), len(want))
				}
			}
		}
	})
}

func kcat(t *testing.T, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kcat", args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kcat %v: %v\n%s", args, err, errs.String())
	}
	return out
}

func produce(t *testing.T, c *cluster.Cluster, topic string, codec kgo.CompressionCodec, lines []string) {
	t.Helper()
	client := c.Client(t, kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic(topic))
	defer client.Close()
	var failed atomic.Value
	for i, line := range lines {
		r := &kgo.Record{Key: []byte(fmt.Sprintf("key%d", i%97)), Value: []byte(line)}
		client.Produce(context.Background(), r, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Store(err)
			}
		})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := client.Flush(ctx); err != nil {
		t.Fatalf("flush %s: %v", topic, err)
	}
	if err := failed.Load(); err != nil {
		t.Fatalf("produce to %s: %v", topic, err)
	}
}

// checkOne wants the lines of a topic with one partition in their order, whichever broker is asked first.
func checkOne(t *testing.T, c *cluster.Cluster, topic string, lines []string) {
	t.Helper()
	for _, bootstrap := range c.Kafka {
		records := c.ReadAll(t, topic, kgo.SeedBrokers(bootstrap))
		if len(records) != len(lines) {
			t.Fatalf("%s from %s: %d records, want %d", topic, bootstrap, len(records), len(lines))
		}
		for i, r := range records {
			if string(r.Value) != lines[i] {
				t.Fatalf("%s from %s: record %d is %q, want %q", topic, bootstrap, i, r.Value, lines[i])
			}
		}
	}
}

// checkKeyed wants every key's lines in their order.
func checkKeyed(t *testing.T, c *cluster.Cluster, topic string, lines []string) {
	t.Helper()
	want, got := map[string][]string{}, map[string][]string{}
	for i, line := range lines {
		key := fmt.Sprintf("key%d", i%97)
		want[key] = append(want[key], line)
	}
	for _, r := range c.ReadAll(t, topic) {
		got[string(r.Key)] = append(got[string(r.Key)], string(r.Value))
	}
	for key := range want {
		if !slices.Equal(want[key], got[key]) {
			t.Fatalf("%s: key %s has %d lines, want %d in order", topic, key, len(got[key]), len(want[key]))
		}
	}
}
