package raftnode

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"github.com/quorate/quorate/quorum/env/envtest"
)

var (
	one   = ServerID{1, directoryID("one")}
	two   = ServerID{2, directoryID("two")}
	three = ServerID{3, directoryID("three")}
	anew  = ServerID{1, directoryID("one, formatted anew")}
)

// testLayer is a listening stream layer of a server at its host.
func testLayer(t *testing.T, network *envtest.Network, host string, id ServerID, log io.Writer) *streamLayer {
	t.Helper()
	l := &streamLayer{
		clusterID: testCluster, self: peerAddress{host + ":9292", id}, network: network.Host(host),
		handshakeTimeout: time.Second, judge: judge, metrics: new(Metrics),
		refusals: newRefusalLog(slog.New(slog.NewTextHandler(log, nil)), envtest.NewClock()),
	}
	if err := l.listen(t.Context(), host+":9292"); err != nil {
		t.Fatal(err)
	}
	return l
}

func mustHello(t *testing.T, h hello) []byte {
	t.Helper()
	b, err := h.encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What the listener does with the first bytes of a connection.
func TestListenerJudgesEachConnection(t *testing.T) {
	good := hello{clusterID: testCluster, from: two.String(), to: one.String()}
	with := func(change func(*hello)) []byte {
		h := good
		change(&h)
		return mustHello(t, h)
	}
	for name, at := range map[string]struct {
		say  []byte
		want verdict
		log  string // what a line must hold
	}{
		"good":                  {mustHello(t, good), accepted, ""},
		"other cluster":         {with(func(h *hello) { h.clusterID = "cluster-B" }), wrongCluster, "different clusters"},
		"other node":            {with(func(h *hello) { h.to = three.String() }), wrongNode, "another node listens"},
		"other directory":       {with(func(h *hello) { h.to = anew.String() }), wrongDirectory, "quorate quorum add"},
		"our own id":            {with(func(h *hello) { h.from = one.String() }), ownID, "copy of the data directory"},
		"sender is no id":       {with(func(h *hello) { h.from = "x" }), malformed, "not a raft handshake"},
		"addressed is no id":    {with(func(h *hello) { h.to = "" }), malformed, "not a raft handshake"},
		"a browser":             {[]byte("GET / HTTP/1.1\r\nHost: n1\r\n\r\n"), malformed, "not a raft handshake"},
		"raft without a hello":  {bytes.Repeat([]byte{0}, 4096), malformed, "not a raft handshake"},
		"a megabyte of garbage": {bytes.Repeat([]byte("QRT1"), 1<<18), malformed, "not a raft handshake"},
		"the first half only":   {mustHello(t, good)[:30], tooSlow, "too_slow"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := envtest.NewNetwork()
				defer network.Close()
				var log logBuffer
				l := testLayer(t, network, "n1", one, &log)
				defer l.Close()
				conn, err := network.Host("n2").Dial(t.Context(), "n1:9292")
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				go conn.Write(at.say)
				if at.want == accepted {
					if _, err := l.Accept(); err != nil {
						t.Fatal(err)
					}
					said, err := readAnswer(conn)
					if said.verdict != accepted || said.listener != one.String() || err != nil {
						t.Errorf("answer: %+v, %v", said, err)
					}
				} else {
					start := time.Now()
					answer, _ := io.ReadAll(conn) // ends when the listener closes
					if took := time.Since(start); took > 1100*time.Millisecond {
						t.Errorf("closed after %v", took)
					}
					if len(answer) > 0 && verdict(answer[0]) != at.want {
						t.Errorf("answer: %v", verdict(answer[0]))
					}
				}
				synctest.Wait()
				for v := range verdicts {
					want := uint64(0)
					if v == at.want {
						want = 1
					}
					if got := l.metrics.Handshakes[v].Load(); got != want {
						t.Errorf("%v counted %d times, want %d", v, got, want)
					}
				}
				if !strings.Contains(log.String(), at.log) {
					t.Errorf("log lacks %q:\n%s", at.log, log.String())
				}
			})
		})
	}
}

func TestDialing(t *testing.T) {
	for name, at := range map[string]struct {
		address string
		want    error
		log     string
	}{
		"good":                {peerAddress{"n1:9292", one}.String(), nil, ""},
		"plain":               {"n1:9292", ErrPlainAddress, ""},
		"nobody there":        {peerAddress{"n9:9292", one}.String(), errors.New("refused"), ""},
		"another directory":   {peerAddress{"n1:9292", anew}.String(), &HandshakeRefusedError{Reason: "wrong_directory"}, "quorate quorum remove"},
		"another node":        {peerAddress{"n1:9292", three}.String(), &HandshakeRefusedError{Reason: "wrong_node"}, "another node listens"},
		"no server id":        {"n1:9292/x", errors.New("server id"), ""},
		"a listener, no peer": {peerAddress{"silent:1", one}.String(), errors.New("handshake"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := envtest.NewNetwork()
				defer network.Close()
				var log logBuffer
				l1, l2 := testLayer(t, network, "n1", one, io.Discard), testLayer(t, network, "n2", two, &log)
				defer l1.Close()
				defer l2.Close()
				silent, err := network.Host("silent").Listen(t.Context(), "silent:1")
				if err != nil {
					t.Fatal(err)
				}
				defer silent.Close()
				go func() {
					for {
						c, err := l1.Accept()
						if err != nil {
							return
						}
						io.WriteString(c, "hi")
					}
				}()
				start := time.Now()
				conn, err := l2.Dial(raft.ServerAddress(at.address), 2*time.Second)
				if took := time.Since(start); took > 2*time.Second {
					t.Errorf("took %v", took)
				}
				var refused, wantRefused *HandshakeRefusedError
				switch {
				case at.want == nil:
					if err != nil {
						t.Fatal(err)
					}
					<-time.After(time.Minute) // the time limit of the handshake has gone
					buf := make([]byte, 2)
					if _, err := io.ReadFull(conn, buf); err != nil || string(buf) != "hi" {
						t.Errorf("read %q, %v", buf, err)
					}
				case err == nil:
					t.Error("connected")
				case errors.As(at.want, &wantRefused):
					if !errors.As(err, &refused) || refused.Reason != wantRefused.Reason {
						t.Errorf("error: %v", err)
					}
				case !errors.Is(err, at.want) && !strings.Contains(err.Error(), at.want.Error()):
					t.Errorf("error: %v, want %v", err, at.want)
				}
				if !strings.Contains(log.String(), at.log) {
					t.Errorf("log lacks %q:\n%s", at.log, log.String())
				}
			})
		})
	}
}

// Silent connections, as many as come: a member still gets in at once, they are closed and counted.
func TestTooManyHandshakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := envtest.NewNetwork()
		defer network.Close()
		l1, l2 := testLayer(t, network, "n1", one, io.Discard), testLayer(t, network, "n2", two, io.Discard)
		defer l1.Close()
		defer l2.Close()
		for range 3 * handshakesOpenMax {
			if _, err := network.Host("bad").Dial(t.Context(), "n1:9292"); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		go l1.Accept()
		if _, err := l2.Dial(raft.ServerAddress(l1.self.String()), time.Second); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("the member waited %v", took)
		}
		l1.mu.Lock()
		open := len(l1.pending.conns)
		l1.mu.Unlock()
		if open > handshakesOpenMax {
			t.Errorf("%d open handshakes", open)
		}
		<-time.After(2 * time.Second)
		m := l1.metrics
		if out, slow := m.Handshakes[tooMany].Load(), m.Handshakes[tooSlow].Load(); out+slow != 3*handshakesOpenMax || out < 2*handshakesOpenMax {
			t.Errorf("%d pushed out, %d too slow", out, slow)
		}
	})
}

// Connections that were accepted are bounded, too, and the oldest gives way.
func TestAcceptedConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := envtest.NewNetwork()
		defer network.Close()
		l1, l2 := testLayer(t, network, "n1", one, io.Discard), testLayer(t, network, "n2", two, io.Discard)
		defer l1.Close()
		defer l2.Close()
		var first net.Conn
		for i := range acceptedMax + 10 {
			go l1.Accept()
			c, err := l2.Dial(raft.ServerAddress(l1.self.String()), time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				first = c
			}
		}
		synctest.Wait()
		if _, err := first.Read(make([]byte, 1)); err == nil {
			t.Error("the oldest connection lives")
		}
		l1.mu.Lock()
		defer l1.mu.Unlock()
		if got := len(l1.accepted.conns); got != acceptedMax {
			t.Errorf("%d connections", got)
		}
	})
}

// After the handshake, a message that claims gigabytes is not believed before they come.
func TestOversizedMessageBehindTheHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		defer c.close()
		c.start()
		m := c.leader()
		l2 := testLayer(t, c.network, "n2", two, io.Discard)
		defer l2.Close()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, say := range []string{
			"\x00\x81\xa7Entries\x91\x81\xa4Data\xc6\xff\xff\xff\xf0", // an entry of 4 GiB
			"\x00\x81\xa7Entries\xdd\xff\xff\xff\xf0",                 // 4 G entries
			"\x63garbage",
		} {
			conn, err := l2.Dial(raft.ServerAddress(peerAddress{m.address(), m.id}.String()), time.Second)
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(conn, say)
			<-time.After(10 * time.Millisecond)
			conn.Close()
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 {
			t.Errorf("%d MiB were allocated", got>>20)
		}
		c.commit(m, "served")
	})
}

func TestHandshakeOverTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := envtest.NewNetwork()
		defer network.Close()
		conf := selfSigned(t)
		l1, l2 := testLayer(t, network, "n1", one, io.Discard), testLayer(t, network, "n2", two, io.Discard)
		defer l1.Close()
		defer l2.Close()
		l1.tls, l2.tls = conf, conf
		go func() {
			if c, err := l1.Accept(); err == nil {
				io.WriteString(c, "secret")
			}
		}()
		conn, err := l2.Dial(raft.ServerAddress(l1.self.String()), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 6)
		if _, err := io.ReadFull(conn, buf); err != nil || string(buf) != "secret" {
			t.Errorf("read %q, %v", buf, err)
		}
		l2.tls = nil
		if _, err := l2.Dial(raft.ServerAddress(l1.self.String()), time.Second); err == nil {
			t.Error("a plain connection passed")
		}
	})
}

// selfSigned is a certificate for n1 that both sides show and trust.
func selfSigned(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"n1"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IsCA:        true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		RootCAs:      pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}
}

func TestHelloRoundTripAndGarbage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		short := rapid.StringN(0, 60, 255)
		h := hello{
			purpose: rapid.SampledFrom([]purpose{speakRaft, askOnly}).Draw(t, "purpose"), lineage: rapid.Int32Min(NoLineage).Draw(t, "lineage"),
			clusterID: short.Draw(t, "cluster"), from: short.Draw(t, "from"), to: short.Draw(t, "to"),
		}
		b, err := h.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := readHello(bytes.NewReader(b))
		if err != nil || got != h {
			t.Fatalf("%+v came back as %+v, %v", h, got, err)
		}
		if _, err := readHello(bytes.NewReader(b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")])); err == nil {
			t.Fatal("a cut hello was read")
		}
		a := answer{verdict(rapid.IntRange(0, int(verdicts)-1).Draw(t, "verdict")), h.lineage, h.from}
		if got, err := readAnswer(bytes.NewReader(a.encode())); err != nil || got != a {
			t.Fatalf("%+v came back as %+v, %v", a, got, err)
		}
		readHello(bytes.NewReader(rapid.SliceOf(rapid.Byte()).Draw(t, "garbage")))
	})
}

func TestServerIDs(t *testing.T) {
	for _, id := range []ServerID{one, {0, directoryID("x")}, {1<<31 - 1, directoryID("y")}} {
		got, err := ParseServerID(id.String())
		if err != nil || got != id {
			t.Errorf("%v came back as %v, %v", id, got, err)
		}
		peer, err := parsePeerAddress(peerAddress{"[::1]:9292", id}.String())
		if err != nil || peer.id != id || peer.hostPort != "[::1]:9292" {
			t.Errorf("peer address: %+v, %v", peer, err)
		}
	}
	good := directoryID("x")
	for _, bad := range []string{"", "1", ":" + good, "-1:" + good, "+1:" + good, "01:" + good, "2147483648:" + good, "1:" + good[:21], "1:" + good + "A", "1:" + good[:21] + "/", "1:" + strings.Repeat("_", 22)} {
		if id, err := ParseServerID(bad); err == nil {
			t.Errorf("%q was read as %v", bad, id)
		}
	}
}

func TestAddressProvider(t *testing.T) {
	conf := raft.Configuration{Servers: []raft.Server{{ID: two.Raft(), Address: "n2:1"}}}
	p := newAddressProvider(peerAddress{"n1:1", one}, func() raft.Configuration { return conf })
	want := func(id ServerID, address string) {
		t.Helper()
		got, err := p.ServerAddr(id.Raft())
		if string(got) != address || (err != nil) != (address == "") {
			t.Errorf("%v: %q, %v; want %q", id, got, err, address)
		}
	}
	want(one, "n1:1/"+one.String())
	want(two, "n2:1/"+two.String())
	want(three, "")
	conf = raft.Configuration{}
	want(two, "n2:1/"+two.String()) // removed a moment ago: it must still hear of it
}

func TestRefusalsAreLoggedOnceInAWhile(t *testing.T) {
	var log logBuffer
	clock := envtest.NewClock()
	l := newRefusalLog(slog.New(slog.NewTextHandler(&log, nil)), clock)
	for range 100 {
		l.warn("a", "refused")
	}
	l.warn("b", "refused")
	clock.Jump(repeatInterval)
	l.warn("a", "refused")
	if got := strings.Count(log.String(), "refused"); got != 3 || !strings.Contains(log.String(), "repeated=99") {
		t.Errorf("%d lines:\n%s", got, log.String())
	}
}

func TestAcceptEndsWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := envtest.NewNetwork()
		defer network.Close()
		l := testLayer(t, network, "n1", one, io.Discard)
		done := make(chan error)
		go func() { _, err := l.Accept(); done <- err }()
		synctest.Wait()
		l.Close()
		l.Close()
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := network.Host("n2").Dial(ctx, "n1:9292"); err == nil {
			t.Error("the listener still listens")
		}
	})
}
