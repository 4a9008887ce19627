package broker

import (
	"fmt"

	"github.com/quorate/quorate/fsm/image"
)

// Ready tells whether the broker serves, and if not, why. Any goroutine may call it at any time.
func (b *Broker) Ready() (ok bool, reason string) {
	v := b.lifecycle.current()
	if alarm := b.follower.alarm(); alarm != "" {
		return false, alarm
	}
	switch v.state {
	case StateRunning:
		if v.fenced {
			return false, withError("the broker is fenced", v.lastError)
		}
		return true, "ready"
	case StateNotRunning:
		return false, "not started"
	case StateStarting:
		return false, b.whyStarting(v)
	case StateRecovery:
		if !b.serving.Load() {
			return false, "logs are being recovered"
		}
		return false, withError("waiting to be unfenced", v.lastError)
	default:
		return false, "shutting down: " + v.state.String()
	}
}

// whyStarting names what a starting broker waits for.
func (b *Broker) whyStarting(v lifecycleView) string {
	at, kept := b.newest.image().Offset(), image.MetadataOffset(b.keptAt.Load())
	switch {
	case isFired(&b.lifecycle.judgeable):
		return withError("registering with the active controller", v.lastError)
	case at < kept:
		return fmt.Sprintf("metadata is at offset %d and this broker has applied %d before: "+
			"nothing is led and nothing deleted until it is reached again; are the controllers those of this cluster?", at, kept)
	default:
		return fmt.Sprintf("following the metadata, at offset %d", at)
	}
}

func withError(text, err string) string {
	if err == "" {
		return text
	}
	return text + ": " + err
}
