package broker

import (
	"fmt"
	"time"

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
		if why := b.whyNotServing(v); why != "" {
			return false, why
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

// whyNotServing tells why a running broker leads nothing: the metadata knows, or no controller has been heard for so long that it would
// have fenced it. Empty if it serves.
func (b *Broker) whyNotServing(v lifecycleView) string {
	known, ok := b.newest.image().Broker(b.cfg.ID)
	silence := b.lifecycle.now().Sub(v.heardAt)
	switch {
	case !ok:
		return fmt.Sprintf("broker %d is not registered any more, it was unregistered while it ran: start it again to register it anew, or leave it stopped", b.cfg.ID)
	case known.Epoch != v.epoch:
		return fmt.Sprintf("broker %d is registered by another process, with broker epoch %d; this one has %d: stop one of the two", b.cfg.ID, known.Epoch, v.epoch)
	case v.fenced || known.Fenced:
		return withError("the broker is fenced", v.lastError)
	case silence > b.cfg.SessionTimeout:
		return withError(fmt.Sprintf("no controller has answered a heartbeat for %v, so the broker counts as fenced", silence.Round(time.Millisecond)), v.lastError)
	}
	return ""
}

// Notice says what an operator should know although the broker serves; empty for nothing.
func (b *Broker) Notice() string { return b.present().Lineage().Notice() }

// whyStarting names what a starting broker waits for.
func (b *Broker) whyStarting(v lifecycleView) string {
	at, kept := b.newest.image().Position(), image.NoPosition
	if p := b.keptAt.Load(); p != nil {
		kept = *p
	}
	switch {
	case isFired(&b.lifecycle.judgeable):
		return withError("registering with the active controller", v.lastError)
	case at.Compare(kept) < 0:
		return fmt.Sprintf("metadata is at offset %d%s and this broker has applied %d%s before: "+
			"nothing is led and nothing deleted until it is reached again; are the controllers those of this cluster?",
			at.Offset, ofLineage(at), kept.Offset, ofLineage(kept))
	default:
		return fmt.Sprintf("following the metadata, at offset %d", at.Offset)
	}
}

// ofLineage names the lineage of a position, if it is not the first.
func ofLineage(p image.Position) string {
	if p.Lineage == 0 {
		return ""
	}
	return fmt.Sprintf(" of lineage %d", p.Lineage)
}

func withError(text, err string) string {
	if err == "" {
		return text
	}
	return text + ": " + err
}
