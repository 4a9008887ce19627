package envtest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/env/envtest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair connects n1 to n2.
func pair(t *testing.T, n *envtest.Network) (dialed, accepted net.Conn) {
	t.Helper()
	l, err := n.Host("n2").Listen(t.Context(), "n2:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	dialed, err = n.Host("n1").Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return dialed, accepted
}

func readN(t *testing.T, c net.Conn, n int) string {
	t.Helper()
	buf := make([]byte, n)
	if _, err := io.ReadFull(c, buf); err != nil {
		t.Fatalf("read: %v", err)
	}
	return string(buf)
}

func TestCutHoldsOneDirectionUpAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := envtest.NewNetwork()
		defer n.Close()
		a, b := pair(t, n)
		n.Cut("n1", "n2")
		if _, err := a.Write([]byte("held")); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Write([]byte("free")); err != nil {
			t.Fatal(err)
		}
		if got := readN(t, a, 4); got != "free" {
			t.Fatalf("other direction brought %q", got)
		}
		b.SetReadDeadline(time.Now().Add(time.Hour))
		if _, err := b.Read(make([]byte, 4)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read across a cut: %v", err)
		}
		b.SetReadDeadline(time.Time{})
		n.Heal("n1", "n2")
		if got := readN(t, b, 4); got != "held" {
			t.Fatalf("after the cut came %q", got)
		}
	})
}

func TestDialAcrossACutWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := envtest.NewNetwork()
		defer n.Close()
		l, _ := n.Host("n2").Listen(t.Context(), "n2:1")
		defer l.Close()
		n.Cut("n2", "n1") // the answer to a SYN would be lost
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if _, err := n.Host("n1").Dial(ctx, "n2:1"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
			t.Fatalf("dial: %v after %v", err, time.Since(start))
		}
		if _, err := n.Host("n1").Dial(t.Context(), "n2:2"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("dial without listener: %v", err)
		}
	})
}

func TestDelayAndCloseAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := envtest.NewNetwork()
		defer n.Close()
		a, b := pair(t, n)
		n.Delay("n1", "n2", 70*time.Millisecond)
		start := time.Now()
		a.Write([]byte("slow"))
		readN(t, b, 4)
		if got := time.Since(start); got != 70*time.Millisecond {
			t.Fatalf("took %v", got)
		}
		n.HealAll()
		n.CloseAfter("n1", "n2", 4+3)
		a.Write([]byte("broken"))
		if got, _ := io.ReadAll(b); string(got) != "bro" {
			t.Fatalf("got %q", got)
		}
		if _, err := a.Write([]byte("more")); err == nil {
			t.Fatal("the connection lives")
		}
	})
}

func TestHostDownAndUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := envtest.NewNetwork()
		defer n.Close()
		a, _ := pair(t, n)
		n.Down("n2")
		if _, err := a.Read(make([]byte, 1)); err == nil {
			t.Fatal("connection outlived its host")
		}
		if _, err := n.Host("n2").Listen(t.Context(), "n2:9"); err == nil {
			t.Fatal("a host that is down listens")
		}
		n.Up("n2")
		pair(t, n)
	})
}

func TestFaultyFS(t *testing.T) {
	dir := t.TempDir()
	faults := envtest.NewFaults()
	files := envtest.NewFS(env.OS("").FS, faults)
	f, err := files.OpenFile(filepath.Join(dir, "a.log"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	remove := faults.Add(envtest.Rule{Kind: "write", Name: "*.log", Nth: 2, Times: 1, Short: 2})
	for i, want := range []int{4, 2, 4} {
		n, err := f.Write([]byte("abcd"))
		if n != want || (err != nil) != (want == 2) {
			t.Fatalf("write %d: %d, %v", i, n, err)
		}
	}
	remove()

	hang := make(chan struct{})
	faults.Add(envtest.Rule{Kind: "sync", Hang: hang})
	done := make(chan error)
	go func() { done <- f.Sync() }()
	select {
	case <-done:
		t.Fatal("sync did not hang")
	case <-time.After(10 * time.Millisecond):
	}
	close(hang)
	if err := <-done; err != nil {
		t.Fatal(err)
	}

	files.SetSpace(3)
	if n, err := f.Write([]byte("abcd")); n != 3 || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("full disk: %d, %v", n, err)
	}
	files.Free()
	if _, err := f.Write([]byte("abcd")); err != nil {
		t.Fatal(err)
	}
}

func TestClock(t *testing.T) {
	t.Run("process", func(t *testing.T) { testClock(t, time.Second) }) // real time goes on meanwhile
	t.Run("bubble", func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testClock(t, 0) }) })
}

func testClock(t *testing.T, slack time.Duration) {
	near := func(got, want time.Duration) bool { return got >= want && got <= want+slack }
	c := envtest.NewClock()
	if d := time.Since(c.Now()); !near(d, 0) {
		t.Errorf("an unstepped clock is off by %v", d)
	}
	before := c.Now()
	c.StepWall(-time.Hour)
	after := c.Now()
	if got := after.Sub(before); !near(got, 0) {
		t.Errorf("a step of the time of day changed a duration by %v", got)
	}
	if got := time.UnixMilli(after.UnixMilli()).Sub(time.UnixMilli(before.UnixMilli())); !near(got, -time.Hour) {
		t.Errorf("time of day went by %v", got)
	}
	c.Jump(time.Minute)
	if got := c.Now().Sub(after); !near(got, time.Minute) {
		t.Errorf("a jump changed a duration by %v", got)
	}
}
