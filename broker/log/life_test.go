package log_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/quorum/env"
)

// A damaged life file is not taken for that of a process that stopped well; what to do is said, and then it is a crash of the machine's kind.
func TestDamagedLifeIsRefused(t *testing.T) {
	r := newRig(t)
	r.start()
	r.must(r.StopReported(5))
	r.disk.Restart()
	r.must(env.WriteFileAtomic(r.disk, dataDir+"/.quorate_life", []byte(`{"version":0,"bootId":"bo`), 0o644))
	e := &env.Env{FS: r.disk, Clock: r.clock}
	m, err := log.NewManager(e, nil, r.config)
	r.must(err)
	if _, err := m.Start(); !errors.Is(err, log.ErrMalformed) || !strings.Contains(err.Error(), "remove the file") || !errors.As(err, new(*log.StorageError)) {
		t.Errorf("started: %v", err)
	}
}
