package image

import "fmt"

// Unhealthy returns why a partition of the topic is not healthy, the gravest reason only, or "" when it is:
// it has no leader; its ISR is smaller than min.insync.replicas; its leader was elected uncleanly and has not recovered;
// a replica, those being added by a reassignment aside, is not in the ISR. The text names the broker and its state.
// A leader that is not the preferred one is healthy.
func (im *Image) Unhealthy(topic string, p Partition) string {
	if p.Leader == NoBroker {
		return "no leader: " + im.leaderWanted(p)
	}
	if least := im.MinInsyncReplicas(topic, len(p.Replicas)); len(p.ISR) < least {
		return fmt.Sprintf("under min ISR: %d of %d in sync", len(p.ISR), least)
	}
	if p.Recovering {
		return fmt.Sprintf("unclean leader: broker %d has not recovered", p.Leader)
	}
	for _, id := range p.Replicas {
		if !Contains(p.ISR, id) && !Contains(p.AddingReplicas, id) {
			return fmt.Sprintf("under-replicated: broker %d %s", id, im.brokerState(id, "is not in sync"))
		}
	}
	return ""
}

// leaderWanted says who could lead.
func (im *Image) leaderWanted(p Partition) string {
	list, name := p.ISR, "ISR"
	if len(list) == 0 {
		list, name = p.ELR, "ELR"
	}
	if len(list) == 0 {
		list, name = p.LastKnownELR, "last known ELR"
	}
	if len(list) == 0 {
		return "no replica is eligible"
	}
	return fmt.Sprintf("%s %s, broker %d %s", name, FormatReplicas(list), list[0], im.brokerState(list[0], "is not elected yet"))
}

func (im *Image) brokerState(id BrokerID, active string) string {
	switch b, ok := im.brokers.get(id); {
	case !ok:
		return "is not registered"
	case b.Fenced:
		return "is fenced"
	case b.InControlledShutdown:
		return "is shutting down"
	}
	return active
}
