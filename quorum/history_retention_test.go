package quorum_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum"
	"github.com/quorate/quorate/quorum/quorumtest"
)

var namesOldest = regexp.MustCompile(`the oldest one after them is at (\d+)`)

// When retention has cut the history, each image of the past is either the one that it was, to the byte, or refused; the refusal
// names the oldest one that there is, and that one is there. A start changes nothing about it.
func TestDumpAfterRetentionHasCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{Controllers: 1, Configure: func(cfg *quorum.Config) {
			cfg.SnapshotEntries, cfg.TrailingEntries = 5, 2
			cfg.HistoryRetentionBytes = 64 << 10
		}})
		c.RegisterBroker(t, 1)
		m := c.Members[0]
		var asked []int64
		then := map[int64]string{}
		for i := range 24 {
			c.CreateTopic(t, fmt.Sprintf("topic-%d", i), 200, 1)
			at := int64(offsetOf(m))
			dump, err := dumpAt(t, c, m, at)
			if err != nil {
				t.Fatal(err)
			}
			asked, then[at] = append(asked, at), dump
			<-time.After(2 * time.Second) // snapshots between
		}
		<-time.After(3 * time.Minute)
		if n := m.Node.History().Metrics().SegmentsRemoved.Load(); n == 0 {
			t.Fatal("retention has removed nothing")
		}
		if err := m.Stop(); err != nil { // the newest images are no more in memory
			t.Fatal(err)
		}
		c.Run(t, m)
		c.Active(t)
		refused := 0
		for _, at := range asked {
			got, err := dumpAt(t, c, m, at)
			if err == nil {
				if got != then[at] {
					t.Errorf("the image at %d is another", at)
				}
				continue
			}
			refused++
			named := namesOldest.FindStringSubmatch(err.Error())
			if !quorumtest.Refused(err, controllerpb.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE) || named == nil {
				t.Errorf("at %d: %v", at, err)
				continue
			}
			oldest, _ := strconv.ParseInt(named[1], 10, 64)
			if got, err := dumpAt(t, c, m, oldest); err != nil || oldest <= at || then[oldest] != "" && got != then[oldest] {
				t.Errorf("at %d it names %d, and there: %v", at, oldest, err)
			}
		}
		if refused == 0 || refused == len(asked) {
			t.Errorf("%d of %d refused", refused, len(asked))
		}
	})
}

// An offset beyond the newest is refused at once by the active controller, and after a moment by others, which may be about to
// get it. The refusal names the newest.
func TestDumpBeyondTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		c.RegisterBroker(t, 1)
		c.CreateTopic(t, "orders", 1, 1)
		<-time.After(5 * time.Second) // the controllers have registered
		c.SameImages(t)
		active := c.Active(t)
		newest := int64(offsetOf(active))
		for _, m := range c.Members {
			begun := time.Now()
			_, err := dumpAt(t, c, m, newest+7)
			refusedWith(t, err, controllerpb.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE, fmt.Sprintf("which is %d", newest), fmt.Sprintf("--min-offset %d", newest+7))
			if took := time.Since(begun); m == active && took > 100*time.Millisecond || took > 1500*time.Millisecond {
				t.Errorf("node %d, active %v: after %v", m.ID, m == active, took)
			}
			_, err = dumpAt(t, c, m, -7)
			refusedWith(t, err, controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST, "offset -7", "the first one is 0", fmt.Sprintf("0 to %d", newest))
		}
		follower := c.Members[active.ID%3]
		got := make(chan string, 1)
		go func() {
			dump, err := dumpAt(t, c, follower, newest+2)
			got <- fmt.Sprint(dump, err)
		}()
		<-time.After(300 * time.Millisecond)
		c.CreateTopic(t, "late", 1, 1) // two records
		if text := <-got; !strings.Contains(text, `"late"`) {
			t.Errorf("a follower that gets the offset in time says %q", text)
		}
	})
}
