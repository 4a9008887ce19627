package cluster

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/fsm/image"
)

// Partition is a row of `topic describe -o json`.
type Partition struct {
	Partition      int   `json:"partition"`
	Leader         int   `json:"leader"`
	LeaderEpoch    int   `json:"leaderEpoch"`
	PartitionEpoch int   `json:"partitionEpoch"`
	Replicas       []int `json:"replicas"`
	ISR            []int `json:"isr"`
	ELR            []int `json:"elr"`
	LastKnownELR   []int `json:"lastKnownElr"`
}

// Topic is a row of `topic describe -o json`.
type Topic struct {
	Name       string      `json:"name"`
	TopicID    string      `json:"topicId"`
	Partitions []Partition `json:"partitions"`
}

// Broker is a row of `broker list -o json`.
type Broker struct {
	ID             int    `json:"id"`
	Epoch          int64  `json:"epoch"`
	State          string `json:"state"`
	MetadataOffset int64  `json:"metadataOffset"`
	Chain          string `json:"chain"`
}

// QuorumNode is a row of `quorum status -o json`.
type QuorumNode struct {
	ID             int    `json:"id"`
	Voter          bool   `json:"voter"`
	State          string `json:"state"`
	MetadataOffset int64  `json:"metadataOffset"`
	Chain          string `json:"chain"`
}

// Quorum is `quorum status -o json`.
type Quorum struct {
	ActiveController int          `json:"activeController"`
	ControllerEpoch  int64        `json:"controllerEpoch"`
	MetadataOffset   int64        `json:"metadataOffset"`
	Chain            string       `json:"chain"`
	Nodes            []QuorumNode `json:"nodes"`
	Removed          []Removed    `json:"removed"`
}

// Removed is a controller that the quorum has given up.
type Removed struct {
	ID          int    `json:"id"`
	DirectoryID string `json:"directoryId"`
}

func (c *Cluster) query(t testing.TB, into any, args ...string) error {
	t.Helper()
	out, errs, code := c.CLI(t, append(args, "-o", "json")...)
	if code != 0 {
		return fmt.Errorf("quorate %v: exit %d: %s", args, code, errs)
	}
	return json.Unmarshal([]byte(out), into)
}

// Quorum asks every controller for itself.
func (c *Cluster) Quorum(t testing.TB) (Quorum, error) {
	t.Helper()
	var q Quorum
	err := c.query(t, &q, "quorum", "status")
	return q, err
}

// Active is the active controller, once there is one.
func (c *Cluster) Active(t testing.TB) int {
	t.Helper()
	active := -1
	Eventually(t, 30*time.Second, "an active controller", func() error {
		q, err := c.Quorum(t)
		if err == nil && q.ActiveController < 0 {
			err = fmt.Errorf("none: %+v", q)
		}
		active = q.ActiveController
		return err
	})
	return active
}

// Describe returns topics by name.
func (c *Cluster) Describe(t testing.TB, names ...string) ([]Topic, error) {
	t.Helper()
	var d struct {
		Topics []Topic `json:"topics"`
	}
	err := c.query(t, &d, append([]string{"topic", "describe"}, names...)...)
	return d.Topics, err
}

// PartitionOf returns one partition.
func (c *Cluster) PartitionOf(t testing.TB, topic string, partition int) (Partition, error) {
	t.Helper()
	topics, err := c.Describe(t, topic)
	if err != nil {
		return Partition{}, err
	}
	if len(topics) != 1 || len(topics[0].Partitions) <= partition {
		return Partition{}, fmt.Errorf("no %s-%d in %+v", topic, partition, topics)
	}
	return topics[0].Partitions[partition], nil
}

// Leader is a partition's leader, once it has one.
func (c *Cluster) Leader(t testing.TB, topic string, partition int) int {
	t.Helper()
	leader := -1
	Eventually(t, 30*time.Second, "a leader", func() error {
		p, err := c.PartitionOf(t, topic, partition)
		if err == nil && p.Leader < 0 {
			err = fmt.Errorf("%+v", p)
		}
		leader = p.Leader
		return err
	})
	return leader
}

// Brokers lists the registrations.
func (c *Cluster) Brokers(t testing.TB) ([]Broker, error) {
	t.Helper()
	var d struct {
		Brokers []Broker `json:"brokers"`
	}
	err := c.query(t, &d, "broker", "list")
	return d.Brokers, err
}

// WholeISRs waits until every replica of every partition, of the topics named or of all, is in its ISR.
func (c *Cluster) WholeISRs(t testing.TB, limit time.Duration, names ...string) {
	t.Helper()
	Eventually(t, limit, "every ISR is whole", func() error {
		topics, err := c.Describe(t, names...)
		if err != nil {
			return err
		}
		for _, topic := range topics {
			for _, p := range topic.Partitions {
				isr, replicas := slices.Sorted(slices.Values(p.ISR)), slices.Sorted(slices.Values(p.Replicas))
				if !slices.Equal(isr, replicas) || p.Leader < 0 {
					return fmt.Errorf("%s-%d %+v", topic.Name, p.Partition, p)
				}
			}
		}
		return nil
	})
}

// SameDumps wants the image of every controller at one offset to be the same to the byte. A controller that has just
// installed a snapshot holds no older image, so another offset is tried then.
func (c *Cluster) SameDumps(t testing.TB) {
	t.Helper()
	Eventually(t, 60*time.Second, "a dump of every controller at one offset", func() error {
		q, err := c.Quorum(t)
		if err != nil {
			return err
		}
		first := ""
		for _, id := range c.IDs("controller") {
			dump, errs, code := c.CLI(t, "metadata", "dump", "--node", fmt.Sprint(id), "--at", fmt.Sprint(q.MetadataOffset), "--min-offset", fmt.Sprint(q.MetadataOffset))
			if code != 0 {
				return fmt.Errorf("controller %d: %s", id, errs)
			}
			if first == "" {
				first = dump
			}
			if dump != first {
				t.Errorf("controller %d holds another image at offset %d", id, q.MetadataOffset)
			}
		}
		return nil
	})
}

// StreamServer is the controller that feeds a broker's metadata, as the broker logs it.
func (c *Cluster) StreamServer(t testing.TB, broker int) int {
	t.Helper()
	server := -1
	Eventually(t, 30*time.Second, "the broker names its stream", func() error {
		const mark = "following metadata"
		log := c.LogOf(t, broker)
		at := strings.LastIndex(log, mark)
		if at < 0 {
			return fmt.Errorf("no line %q", mark)
		}
		line, _, _ := strings.Cut(log[at:], "\n")
		_, id, ok := strings.Cut(line, "controller=")
		if !ok {
			return fmt.Errorf("line %q", line)
		}
		_, err := fmt.Sscan(id, &server)
		return err
	})
	return server
}

// AwaitLogLine waits until one of the controllers has logged a line with all the words.
func (c *Cluster) AwaitLogLine(t testing.TB, words ...string) {
	t.Helper()
	Eventually(t, 20*time.Second, fmt.Sprintf("a controller logs %q", words), func() error {
		for _, n := range c.Nodes {
			if !slices.Contains(n.Roles, "controller") {
				continue
			}
			for line := range strings.Lines(c.LogOf(t, n.ID)) {
				if all(words, func(w string) bool { return strings.Contains(line, w) }) {
					return nil
				}
			}
		}
		return fmt.Errorf("no such line")
	})
}

func all[T any](list []T, ok func(T) bool) bool {
	return !slices.ContainsFunc(list, func(v T) bool { return !ok(v) })
}

// TopicID reads a topic id from its 22 characters.
func TopicID(s string) ([16]byte, error) {
	id, err := image.ParseUUID(s)
	return id, err
}

// IDs lists the nodes that have a role.
func (c *Cluster) IDs(role string) []int {
	var ids []int
	for _, n := range c.Nodes {
		if slices.Contains(n.Roles, role) {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// SameChains wants equal chains at equal metadata offsets on all nodes that can be asked.
func (c *Cluster) SameChains(t testing.TB) {
	t.Helper()
	chains := map[int64]map[string][]string{}
	note := func(offset int64, chain, who string) {
		if offset < 0 {
			return
		}
		if chains[offset] == nil {
			chains[offset] = map[string][]string{}
		}
		chains[offset][chain] = append(chains[offset][chain], who)
	}
	if q, err := c.Quorum(t); err == nil {
		for _, n := range q.Nodes {
			if n.State != "unreachable" {
				note(n.MetadataOffset, n.Chain, fmt.Sprint("controller ", n.ID))
			}
		}
	}
	if brokers, err := c.Brokers(t); err == nil {
		for _, b := range brokers {
			note(b.MetadataOffset, b.Chain, fmt.Sprint("broker ", b.ID))
		}
	}
	for offset, at := range chains {
		if len(at) > 1 {
			t.Errorf("at metadata offset %d the chains differ: %v", offset, at)
		}
	}
}
