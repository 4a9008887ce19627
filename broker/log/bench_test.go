package log_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/broker/log/logtest"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/env"
)

func benchLog(b *testing.B) (*log.Manager, *log.Log) {
	b.Helper()
	config := log.DefaultConfig(b.TempDir())
	m, err := log.NewManager(env.OS(""), slog.New(slog.DiscardHandler), config)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := m.Start(); err != nil {
		b.Fatal(err)
	}
	l, err := m.Open(foo0, config.Log)
	if err != nil {
		b.Fatal(err)
	}
	return m, l
}

// BenchmarkAppend is one batch of 16 KiB from the client's bytes into the file, with and without the test of its
// checksum; the reference is the bare write of the same bytes.
func BenchmarkAppend(b *testing.B) {
	batch := logtest.Batch{Values: logtest.Records(16, 1000)}.Bytes()
	run := func(name string, do func(b *testing.B)) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			do(b)
		})
	}
	run("leader", func(b *testing.B) {
		_, l := benchLog(b)
		for b.Loop() {
			log.Batch(batch).SetBaseOffset(0)
			p, err := log.ParseProduce(batch, 1<<20)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := l.Append(p, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
	run("follower", func(b *testing.B) {
		_, l := benchLog(b)
		log.Batch(batch).SetLeaderEpoch(1)
		for b.Loop() {
			log.Batch(batch).SetBaseOffset(l.LogEndOffset())
			if _, err := l.AppendAsFollower(batch, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
	run("bare write", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "bare"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		at := int64(0)
		for b.Loop() {
			if _, err := f.WriteAt(batch, at); err != nil {
				b.Fatal(err)
			}
			if at += int64(len(batch)); at > 1<<30 {
				at = 0
			}
		}
	})
}

// BenchmarkRead is a fetch of 1 MiB at the tail and at a drawn place.
func BenchmarkRead(b *testing.B) {
	_, l := benchLog(b)
	batch := logtest.Batch{Values: logtest.Records(16, 1000)}.Bytes()
	const n = 4000
	for range n {
		log.Batch(batch).SetBaseOffset(0)
		p, err := log.ParseProduce(batch, 1<<20)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := l.Append(p, 1); err != nil {
			b.Fatal(err)
		}
	}
	end := l.LogEndOffset()
	for _, c := range []struct {
		name   string
		bytes  int
		offset func(i int64) int64
	}{
		{"newest batch", 1 << 20, func(int64) int64 { return end - 16 }},
		{"1 MiB anywhere", 1 << 20, func(i int64) int64 { return (i * 7919) % (end - 2000) }},
		{"16 KiB anywhere", 16 << 10, func(i int64) int64 { return (i * 7919) % (end - 2000) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			i, total := int64(0), int64(0)
			for b.Loop() {
				p, err := l.Read(log.ReadRequest{Offset: c.offset(i), UpperBound: end, BytesMax: c.bytes, AtLeastOne: true})
				if err != nil || len(p) == 0 {
					b.Fatal(err)
				}
				total += int64(len(p))
				i++
			}
			b.SetBytes(total / i)
		})
	}
}

// BenchmarkLoad is the loading of one log of 64 MiB, after a clean stop and after a kill.
func BenchmarkLoad(b *testing.B) {
	for _, clean := range []bool{true, false} {
		b.Run(fmt.Sprintf("clean=%v", clean), func(b *testing.B) {
			m, l := benchLog(b)
			batch := logtest.Batch{Values: logtest.Records(16, 1000)}.Bytes()
			for range 4000 {
				log.Batch(batch).SetBaseOffset(0)
				p, err := log.ParseProduce(batch, 1<<20)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := l.Append(p, 1); err != nil {
					b.Fatal(err)
				}
			}
			dir := filepath.Dir(log.DirOf(l))
			m.FinishLoading()
			if err := m.Shutdown(1); err != nil {
				b.Fatal(err)
			}
			marker, err := os.ReadFile(filepath.Join(dir, ".kafka_cleanshutdown"))
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(4000 * int64(len(batch)))
			for b.Loop() {
				b.StopTimer()
				if clean {
					if err := os.WriteFile(filepath.Join(dir, ".kafka_cleanshutdown"), marker, 0o644); err != nil {
						b.Fatal(err)
					}
				} else if err := os.RemoveAll(filepath.Join(dir, "recovery-point-offset-checkpoint")); err != nil {
					b.Fatal(err)
				}
				m, err := log.NewManager(env.OS(""), slog.New(slog.DiscardHandler), log.DefaultConfig(dir))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := m.Start(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if _, err := m.Open(foo0, log.DefaultLogConfig()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOpenIdle is the making of empty logs, and what each costs in memory.
func BenchmarkOpenIdle(b *testing.B) {
	m, _ := benchLog(b)
	b.ReportAllocs()
	i := int32(0)
	for b.Loop() {
		i++
		if _, err := m.Open(log.Replica{Name: log.Name{Topic: "idle", Partition: i}, TopicID: image.UUID{1}}, log.DefaultLogConfig()); err != nil {
			b.Fatal(err)
		}
	}
}
