package alterpartition

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/broker/partition"
	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// failureLogInterval is the shortest time between two log lines about requests that keep failing.
const failureLogInterval = time.Second

// failed keeps every entry of a request that failed as a whole. Items whose change may still be made are marked.
func (m *Manager) failed(ctx context.Context, entries []*entry, err error) {
	now := m.clock.Now()
	m.mu.Lock()
	for _, e := range entries {
		e.fresh = false
		if !isSettled(err) {
			e.unprovenUntil = now.Add(m.cfg.ProofDelay)
		}
	}
	m.mu.Unlock()
	m.failures++
	if ctx.Err() == nil && now.Sub(m.failureLogged) >= failureLogInterval {
		m.failureLogged = now
		m.logger.Warn("alter partition request failed, will repeat it", "items", len(entries), "failures", m.failures, "error", err)
	}
}

// settle takes every answered entry off the queue, then tells the owners. What stays is sent again: items that the
// response leaves out, and those of a controller that does not know enough to refuse. The request was sent at sent.
func (m *Manager) settle(entries []*entry, answers []*partition.AlterPartitionAnswered, sent time.Time) {
	m.failures, m.failureLogged = 0, time.Time{}
	behind := isBehind(answers)
	now := m.clock.Now()
	m.mu.Lock()
	maps.DeleteFunc(m.rivals, func(_ image.PartitionID, r rival) bool { return !now.Before(r.until) })
	for i, e := range entries {
		if a := answers[i]; a != nil && isFinal(e, a, behind, sent) {
			a.Now = now
			delete(m.entries, e.item.Partition)
			e.done = true
			if now.Before(e.unprovenUntil) {
				m.rivals[e.item.Partition] = rival{e.item.Proposal, e.unprovenUntil}
			}
			continue
		}
		e.fresh, answers[i] = false, nil
	}
	m.order = rotate(m.order, len(entries))
	m.mu.Unlock()
	for i, e := range entries {
		if answers[i] != nil {
			e.item.Done(*answers[i])
		}
	}
}

// isBehind tells whether the controller said of any partition that the leader knows more than it does: then another one
// is, or will soon be, active.
func isBehind(answers []*partition.AlterPartitionAnswered) bool {
	for _, a := range answers {
		if a != nil && a.Code == controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER {
			return true
		}
	}
	return false
}

// isFinal tells whether an answer settles its item. A committed change always does. A refusal does not if it comes from a
// controller that is behind, or if it is a proof (see [Config.ProofDelay]) and an earlier sending may have been under way when
// the request was sent: the controller may take that one up after it has refused, and before the refusal is here.
func isFinal(e *entry, a *partition.AlterPartitionAnswered, behind bool, sent time.Time) bool {
	switch {
	case a.Code == controllerpb.ErrorCode_ERROR_CODE_UNSPECIFIED:
		return true
	case behind:
		return false
	case a.Code == controllerpb.ErrorCode_ERROR_CODE_INELIGIBLE_REPLICA:
		return !sent.Before(e.unprovenUntil)
	default:
		return true
	}
}

// rotate drops what is done and puts what else was in the last request behind what was not, so that items which no
// answer names do not keep others from a request.
func rotate(order []*entry, sent int) []*entry {
	kept := make([]*entry, 0, len(order))
	for _, e := range slices.Concat(order[sent:], order[:sent]) {
		if !e.done {
			kept = append(kept, e)
		}
	}
	return kept
}
