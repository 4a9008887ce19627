package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
)

// quorumRecheck is how often controllers are asked whether they know of a change.
const quorumRecheck = 50 * time.Millisecond

// awaitControllers waits until every member that answers knows of a change. Members that do not answer are left out and
// named on stderr.
func (a *app) awaitControllers(ctx context.Context, c *client.Client, what string, knows func(*controllerpb.NodeStatusResponse) bool) error {
	for {
		late, silent := lateMembers(c.Statuses(ctx), knows)
		if len(late) == 0 && ctx.Err() == nil {
			for _, s := range silent {
				a.warn("controller %s does not answer and is left out", s)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return unavailable(controllerpb.ErrorCode_ERROR_CODE_REQUEST_TIMED_OUT, "committed; %s is not known yet to %s", what, strings.Join(late, ", "))
		case <-time.After(quorumRecheck):
		}
	}
}

// lateMembers are the members that answer and do not know, and those that do not answer. Who is a member is told by the answer
// with the newest configuration of the newest lineage.
func lateMembers(answers []client.Answer, knows func(*controllerpb.NodeStatusResponse) bool) (late, silent []string) {
	said := map[int32]*controllerpb.NodeStatusResponse{}
	var newest *controllerpb.NodeStatusResponse
	for _, s := range answers {
		if s.Err != nil {
			continue
		}
		said[s.Status.GetNodeId()] = s.Status
		if newest == nil || cmp.Or(cmp.Compare(s.Status.GetLineage(), newest.GetLineage()),
			cmp.Compare(s.Status.GetConfigurationIndex(), newest.GetConfigurationIndex())) > 0 {
			newest = s.Status
		}
	}
	if newest == nil {
		return []string{"no controller"}, nil
	}
	for _, m := range newest.GetMembers() {
		name := fmt.Sprint(m.GetNodeId())
		switch s := said[m.GetNodeId()]; {
		case s == nil:
			silent = append(silent, name)
		case !knows(s):
			late = append(late, "controller "+name)
		}
	}
	slices.Sort(silent)
	return late, silent
}
