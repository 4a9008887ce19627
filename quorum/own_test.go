package quorum

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// TestRefusalOfTheLoopsOwnIsLogged: with cause and code, once for each change of the reason.
func TestRefusalOfTheLoopsOwnIsLogged(t *testing.T) {
	l := deciding(func(err error) { t.Fatal(err) })
	var log bytes.Buffer
	l.logger = slog.New(slog.NewTextHandler(&log, nil))
	for _, why := range []string{"first", "first", "second", "", "second"} {
		l.decideOwn(&operation{cause: &metadatapb.Cause{Name: "SessionExpired"}, decide: func(controller.View) plan {
			if why == "" {
				return plan{}
			}
			return plan{err: controllerpb.Refuse(controllerpb.ErrorCode_ERROR_CODE_POLICY_VIOLATION, "%s", why)}
		}})
	}
	if got := strings.Count(log.String(), "cause=SessionExpired code=POLICY_VIOLATION"); got != 3 {
		t.Errorf("%d lines, want 3:\n%s", got, &log)
	}
}
