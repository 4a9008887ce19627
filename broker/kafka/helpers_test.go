package kafka_test

import (
	"runtime"
	"testing"
	"time"
)

// waitFor waits for a condition that another goroutine brings about.
func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatal("the condition did not come true within 10 s")
		}
		runtime.Gosched()
	}
}
