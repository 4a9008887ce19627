package quorumtest

import (
	"fmt"
	"testing"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/raftnode"
)

// NewJoiner makes a controller that was formatted without initial controllers, and does not run it. Number is its place:
// 3 is the fourth controller, with node id 1004. Disk distinguishes the directories of one node; 0 is that of Start's members.
// A joiner takes the place of the member of its number.
func (c *Cluster) NewJoiner(t testing.TB, number int, disk byte) *Member {
	t.Helper()
	m := c.member(t, number)
	m.Config.DirectoryID = idOf(1+30*disk, byte(number))
	m.Config.IncarnationID = idOf(2+30*disk, byte(number))
	m.Config.Bootstrap = c.Members[0].Config.Bootstrap
	if number < len(c.Members) {
		c.Former = append(c.Former, c.Members[number])
		c.Members[number] = m
	} else {
		c.Members = append(c.Members, m)
	}
	return m
}

// ServerID is the member's name in the Raft configuration.
func (m *Member) ServerID() raftnode.ServerID {
	return raftnode.ServerID{NodeID: int32(m.ID), DirectoryID: m.Config.DirectoryID.String()}
}

// Voters names the voters as a member's status tells them, "1001:DIRECTORY", in the order of the configuration; nonvoters
// bear a question mark.
func (m *Member) Voters() []string {
	var out []string
	for _, s := range m.Node.Status().GetMembers() {
		name := fmt.Sprint(s.GetNodeId())
		if !s.GetVoter() {
			name += "?"
		}
		out = append(out, name)
	}
	return out
}

// AwaitVoters waits until the members that are not excluded agree on the voters.
func (c *Cluster) AwaitVoters(t testing.TB, want []string, except ...*Member) {
	t.Helper()
	Eventually(t, fmt.Sprintf("the voters are %v", want), func() error {
		for _, m := range c.Members {
			if contains(except, m) {
				continue
			}
			if got := m.Voters(); fmt.Sprint(got) != fmt.Sprint(want) {
				return fmt.Errorf("%d says %v", m.ID, got)
			}
		}
		return nil
	})
}

// Operator asks a member itself, whether it is active or not.
func (c *Cluster) Operator(t testing.TB, m *Member) controllerpb.OperatorApiClient {
	t.Helper()
	return controllerpb.NewOperatorApiClient(c.Conn(t, m))
}
