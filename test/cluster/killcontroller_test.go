package cluster_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/test/cluster"
)

// runControllers kills the controllers: each once around a snapshot, then at all other points while one waits to cut
// its log.
func runControllers(t outliving, c *cluster.Cluster) {
	ids := c.IDs("controller")
	hooks := make([]*cluster.Hook, len(ids))
	for i, id := range ids {
		hooks[i] = cluster.NewHook(t, snapshotPoints[i].name)
		c.Kill(t, id)
		c.Restart(t, id, hooks[i].Env())
		c.AwaitReady(t, id, recoverWait)
	}
	for _, h := range hooks {
		h.Arm(t)
	}
	compaction := cluster.NewHook(t, compactionPoint)
	died := make([]bool, len(ids))
	cluster.Eventually(t, 2*hitWait, "each controller dies around a snapshot", func() error {
		var missing error
		for i, h := range hooks {
			switch pid := h.Hit(t); {
			case died[i]:
			case pid == 0 || h.Alive(pid):
				missing = fmt.Errorf("controller %d has not come to %s", ids[i], h.Point)
			default: // started again at once: the others need a majority
				died[i] = true
				t.Logf("controller %d died at %s", ids[i], h.Point)
				c.Restart(t, ids[i], compaction.Env())
			}
		}
		return missing
	})
	for _, id := range ids {
		c.AwaitReady(t, id, recoverWait)
	}
	compaction.Arm(t)
	var compacted sync.WaitGroup
	compacted.Go(func() {
		t.Run("compaction", func(sub *testing.T) {
			t := outliving{sub, t.owner}
			id := c.NodeOf(t, compaction.AwaitKill(t, 2*hitWait))
			t.Logf("controller %d died at %s", id, compactionPoint)
			c.Restart(t, id)
			c.AwaitReady(t, id, recoverWait)
		})
	})
	lane := &controllerLane{c: c, ids: ids, dead: ids[1], hooked: map[int]bool{}}
	c.Kill(t, lane.dead)
	early, late := split(controllerPoints)
	for _, p := range early {
		lane.killAt(t, p)
	}
	compacted.Wait()
	for _, p := range late {
		lane.killAt(t, p)
	}
	lane.c.Restart(t, lane.dead)
	c.AwaitReady(t, lane.dead, recoverWait)
}

// split parts the points that one controller comes to alone from those for which others die too.
func split(points []killPoint) (alone, others []killPoint) {
	for _, p := range points {
		if p.by == byElection || p.by == byServing {
			others = append(others, p)
		} else {
			alone = append(alone, p)
		}
	}
	return alone, others
}

// controllerLane kills one controller after the other.
type controllerLane struct {
	c      *cluster.Cluster
	ids    []int
	dead   int
	hooked map[int]bool
	// epoch is that of the active controller that was killed last.
	epoch int64
}

func (l *controllerLane) killAt(t outliving, p killPoint) {
	t.Helper()
	began := time.Now()
	h := cluster.NewHook(t, p.name)
	clear(l.hooked)
	l.hooked[l.dead] = true
	if p.by == byStart {
		h.Arm(t)
		l.c.Restart(t, l.dead, h.Env())
		h.AwaitKill(t, hitWait)
	} else {
		l.c.Restart(t, l.dead, h.Env())
		l.c.AwaitReady(t, l.dead, recoverWait)
		h.Arm(t)
		if p.by != byTraffic {
			l.unseat(t, p, h)
		}
		l.dead = l.c.NodeOf(t, h.AwaitKill(t, hitWait))
	}
	t.Logf("controller %d died at %s after %v", l.dead, p.name, time.Since(began).Round(time.Millisecond))
}

// unseat kills active controllers, and starts them again with the hook, until a process has died at the point. A hooked
// one that is active comes to a byServing point by itself.
func (l *controllerLane) unseat(t outliving, p killPoint, h *cluster.Hook) {
	t.Helper()
	cluster.Eventually(t, 2*hitWait, "a controller dies at "+p.name, func() error {
		if h.Hit(t) != 0 {
			return nil
		}
		q, err := l.c.Quorum(t)
		if err != nil {
			return err
		}
		active := q.ActiveController
		switch {
		case active < 0 || q.ControllerEpoch <= l.epoch:
			return fmt.Errorf("no active controller after epoch %d", l.epoch)
		case p.by == byServing && l.hooked[active]:
			return fmt.Errorf("controller %d serves and has not come there", active)
		}
		l.epoch = q.ControllerEpoch
		if !l.c.KillIfAlive(t, active) {
			return fmt.Errorf("controller %d is dead already", active)
		}
		l.c.Restart(t, active, h.Env())
		l.hooked[active] = true
		return fmt.Errorf("controller %d was killed", active)
	})
}
