package quorum_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/quorumtest"
)

// A newcomer that hangs is waited for within the limit, which the refusal names; one that goes on in time is added.
func TestNewcomerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		joiner := c.NewJoiner(t, 3, 0)
		c.Run(t, joiner)
		awaitRegistered(t, c, joiner)
		c.Isolate(joiner)
		ask := func() error {
			_, err := operatorOf(c).AddController(within(t, 20*time.Second), &controllerpb.AddControllerRequest{ControllerId: int32(joiner.ID)})
			return err
		}
		begun := time.Now()
		err := ask()
		refusedWith(t, err, controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT, "within 5s, the limit", "nothing was changed", "paused", joiner.Config.RaftAddress)
		if took := time.Since(begun); took < 5*time.Second || took > 7*time.Second || strings.Contains(err.Error(), "closed") {
			t.Errorf("after %v: %v", took, err)
		}
		c.AwaitVoters(t, []string{"1001", "1002", "1003"}, joiner)

		answer := make(chan error, 1)
		go func() { answer <- ask() }()
		<-time.After(3 * time.Second)
		c.Join(joiner)
		if err := <-answer; err != nil {
			t.Errorf("it went on after 3 s: %v", err)
		}
		c.AwaitVoters(t, []string{"1001", "1002", "1003", "1004"})
	})
}
