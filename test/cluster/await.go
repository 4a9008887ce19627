package cluster

import (
	"fmt"
	"testing"
	"time"
)

// AwaitBroker waits until a broker is in a state.
func (c *Cluster) AwaitBroker(t testing.TB, id int, state string) {
	t.Helper()
	Eventually(t, 60*time.Second, fmt.Sprintf("broker %d is %s", id, state), func() error {
		b, err := c.broker(t, id)
		if err == nil && b.State != state {
			err = fmt.Errorf("%+v", b)
		}
		return err
	})
}

// BrokerEpoch is a broker's present epoch.
func (c *Cluster) BrokerEpoch(t testing.TB, id int) int64 {
	t.Helper()
	b, err := c.broker(t, id)
	if err != nil {
		t.Fatal(err)
	}
	return b.Epoch
}

func (c *Cluster) broker(t testing.TB, id int) (Broker, error) {
	t.Helper()
	brokers, err := c.Brokers(t)
	if err != nil {
		return Broker{}, err
	}
	for _, b := range brokers {
		if b.ID == id {
			return b, nil
		}
	}
	return Broker{}, fmt.Errorf("broker %d is not listed", id)
}

// AwaitGone waits until a node's process has ended.
func (c *Cluster) AwaitGone(t testing.TB, id int) {
	t.Helper()
	n := c.Node(t, id)
	Eventually(t, 60*time.Second, fmt.Sprintf("node %d has ended", id), func() error {
		if pid := c.pid(n); !gone(pid) {
			return fmt.Errorf("pid %d runs", pid)
		}
		return nil
	})
}
