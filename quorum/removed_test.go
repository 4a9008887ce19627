package quorum_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/quorum/quorumtest"
)

// A controller that was told of its removal knows it in its next life too, also when nobody is there to say it again. It
// tells whom it knew last as members, and is none of them.
func TestRemovedControllerKnowsItAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		active := c.Active(t)
		victim := c.Members[active.ID%3]
		remove(t, c, victim)
		saysRemoved(t, victim)
		note := filepath.Join(victim.Config.DataDir, "raft", "superseded.json")
		quorumtest.Eventually(t, "it is noted", func() error { _, err := os.Stat(note); return err })
		c.Isolate(victim)
		if err := victim.Stop(); err != nil {
			t.Fatal(err)
		}
		c.Run(t, victim)
		for range 20 {
			<-time.After(200 * time.Millisecond)
			s := victim.Node.Status()
			if s.GetState() == "starting" {
				continue
			}
			if s.GetState() != "removed" || s.GetActiveController() != nil || slices.Contains(victim.Voters(), fmt.Sprint(victim.ID)) || len(s.GetMembers()) < 2 {
				t.Fatalf("alone it says %v, members %v", s.GetState(), victim.Voters())
			}
			if ok, why := victim.Node.Ready(); ok || !strings.Contains(why, "was removed from the quorum") || !strings.Contains(why, "--no-initial-controllers") {
				t.Fatalf("ready %v: %s", ok, why)
			}
		}
	})
}
