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

// electInBackground holds the elections that are due, each round of at most [controller.ElectionsPerRoundMax]. The caller has seen
// that a decision that writes can be made.
func (l *loop) electInBackground() {
	c := l.claim
	if l.cfg.LeaderRebalance && l.ticks >= c.rounds.balanceAt {
		settle := min(l.cfg.ImbalanceCheckInterval, settleMax)
		l.round("BalanceLeaders", &c.rounds.balanceAt, l.cfg.ImbalanceCheckInterval, controller.BalanceLeadersExtent,
			func(v controller.View) (controller.Decision[controller.BackgroundElections], error) {
				return controller.BalanceLeaders(v, settle)
			})
	}
	if l.writes() && l.ticks >= c.rounds.uncleanAt && c.pending.LeaderlessCount() > 0 {
		l.round("ElectUnclean", &c.rounds.uncleanAt, l.cfg.UncleanCheckInterval, controller.ElectUncleanExtent, controller.ElectUnclean)
	}
}

// round decides one round and sets the tick of the next one: an interval away, or soon after a round that left some over has
// been committed.
func (l *loop) round(name string, next *uint64, interval time.Duration, extent func(controller.View) controller.Extent,
	decide func(controller.View) (controller.Decision[controller.BackgroundElections], error),
) {
	*next = l.ticks + ticksOf(interval)
	l.decideOwn(&operation{
		cause:  &metadatapb.Cause{Name: name},
		decide: func(v controller.View) plan { return planOf(decide(v)) },
		extent: extent,
		answer: func(r result) {
			if done, ok := r.response.(controller.BackgroundElections); ok && done.More {
				*next = min(*next, l.ticks+ticksOf(roundPause))
			}
		},
	})
}
