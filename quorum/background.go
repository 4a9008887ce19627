package quorum

import (
	"time"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
)

const (
	// roundPause is the time between two rounds of background elections while one round was not enough.
	roundPause = time.Second
	// settleMax bounds how long a broker that came back is left alone before leaderships return to it. It is the check's
	// interval where that is shorter.
	settleMax = 30 * time.Second
)

// rounds are the ticks at which the background elections of a claim are due.
type rounds struct {
	balanceAt, uncleanAt uint64
}

// firstRounds are one interval away: a claim begins with what clients wait for.
func (l *loop) firstRounds() rounds {
	return rounds{
		balanceAt: l.ticks + ticksOf(l.cfg.ImbalanceCheckInterval),
		uncleanAt: l.ticks + ticksOf(l.cfg.UncleanCheckInterval),
	}
}

func ticksOf(d time.Duration) uint64 { return uint64(max(1, d/tickInterval)) }

// electInBackground holds the elections that are due, each round of at most [controller.ElectionsPerRoundMax].
func (l *loop) electInBackground() {
	c := l.claim
	if l.cfg.LeaderRebalance && l.ticks >= c.rounds.balanceAt && c.hasRoom() {
		settle := min(l.cfg.ImbalanceCheckInterval, settleMax)
		c.rounds.balanceAt = l.ticks + l.round("BalanceLeaders", l.cfg.ImbalanceCheckInterval,
			func(v controller.View) (controller.Decision[controller.BackgroundElections], error) {
				return controller.BalanceLeaders(v, settle)
			})
	}
	if l.ticks >= c.rounds.uncleanAt && c.pending.LeaderlessCount() > 0 && c.hasRoom() {
		c.rounds.uncleanAt = l.ticks + l.round("ElectUnclean", l.cfg.UncleanCheckInterval, controller.ElectUnclean)
	}
}

// round decides one round and returns the number of ticks to the next one.
func (l *loop) round(name string, interval time.Duration,
	decide func(controller.View) (controller.Decision[controller.BackgroundElections], error),
) uint64 {
	more := false
	l.decideOwn(&operation{
		cause: &metadatapb.Cause{Name: name},
		decide: func(v controller.View) plan {
			d, err := decide(v)
			more = d.Response.More
			return planOf(d, err)
		},
	})
	if more {
		return ticksOf(roundPause)
	}
	return ticksOf(interval)
}
