package controller

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// creation is one CreateTopics request under way.
type creation struct {
	view View
	// copies counts how often a name stands in the request; -1 once it was answered.
	copies map[string]int
	// collisions and ids hold what this request has created so far.
	collisions map[string]string
	ids        map[image.TopicID]string
	brokers    []placeable
	electorate *electorate
}

// create decides one topic in the order of refusals that CreateTopics states.
func (c *creation) create(t *controllerpb.CreatableTopic) ([]*metadatapb.Record, *controllerpb.CreatableTopicResult) {
	name := t.GetName()
	result := &controllerpb.CreatableTopicResult{Name: name, TopicId: t.GetTopicId()}
	copies := c.copies[name]
	c.copies[name] = -1
	if copies > 1 {
		result.Error = topicRepeated(name, copies)
		return nil, result
	}
	if repeated := c.repeated(t); repeated != nil {
		return nil, repeated
	}
	id, err := c.checkNames(t)
	if err == nil {
		err = checkCreationConfigs(t.GetConfigs())
	}
	var partitions []image.Partition
	if err == nil {
		partitions, err = c.partitions(t)
	}
	if err != nil {
		result.Error = err
		return nil, result
	}
	c.collisions[collisionKey(name)] = name
	c.ids[id] = name
	configs := slices.Clone(t.GetConfigs())
	slices.SortFunc(configs, func(a, b *controllerpb.ConfigEntry) int { return cmp.Compare(a.GetName(), b.GetName()) })
	result.TopicId, result.Configs = id.Bytes(), configs
	result.Partitions, result.ReplicationFactor = int32(len(partitions)), int32(len(partitions[0].Replicas))
	return topicRecords(name, id, configs, partitions), result
}

// repeated answers a request whose topic is there already, under its own id, with the values as they are.
func (c *creation) repeated(t *controllerpb.CreatableTopic) *controllerpb.CreatableTopicResult {
	topic, ok := c.view.Image.TopicByName(t.GetName())
	if !ok || len(t.GetTopicId()) == 0 {
		return nil
	}
	if id, err := image.UUIDFrom(t.GetTopicId()); err != nil || id != topic.ID() {
		return nil
	}
	result := &controllerpb.CreatableTopicResult{Name: t.GetName(), TopicId: t.GetTopicId(), Partitions: int32(topic.Len())}
	if p, ok := topic.Partition(0); ok {
		result.ReplicationFactor = int32(len(p.Replicas))
	}
	for key, value := range c.view.Image.Configs(metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, t.GetName()) {
		result.Configs = append(result.Configs, &controllerpb.ConfigEntry{Name: key, Value: &value})
	}
	return result
}

// checkNames looks at name and id, and draws an id if none is given.
func (c *creation) checkNames(t *controllerpb.CreatableTopic) (image.TopicID, *controllerpb.Error) {
	name, im := t.GetName(), c.view.Image
	if name == metadataTopic {
		return image.TopicID{}, controllerpb.NewError(codeInvalidRequest, "the name %s is kept for the metadata log: choose another one", name)
	}
	if err := checkTopicName(name); err != nil {
		return image.TopicID{}, err
	}
	if existing, ok := im.TopicByName(name); ok {
		return image.TopicID{}, controllerpb.NewError(codeTopicAlreadyExists, "topic %s exists, with id %v: choose another name, or delete it first", name, existing.ID())
	}
	existing, collides := im.CollidingTopic(name)
	if !collides {
		existing, collides = c.collisions[collisionKey(name)]
	}
	if collides {
		return image.TopicID{}, controllerpb.NewError(codeInvalidTopic, "the names %s and %s differ only in '.' and '_': metrics could not tell them apart; choose another name", name, existing)
	}
	return c.topicID(t)
}

func (c *creation) topicID(t *controllerpb.CreatableTopic) (image.TopicID, *controllerpb.Error) {
	if len(t.GetTopicId()) == 0 {
		return c.view.NewID(), nil
	}
	id, err := image.UUIDFrom(t.GetTopicId())
	if err != nil || id.IsZero() {
		return id, controllerpb.NewError(codeInvalidRequest, "the topic id must be 16 bytes, not all zero")
	}
	if other, ok := c.view.Image.TopicByID(id); ok {
		return id, controllerpb.NewError(codeInvalidRequest, "the topic id %v belongs to topic %s: draw another", id, other.Name())
	}
	if deleted, ok := c.view.Image.PendingDeletion(id); ok {
		return id, controllerpb.NewError(codeInvalidRequest, "the topic id %v belonged to topic %s, which was deleted: draw another", id, deleted.Name)
	}
	if other, ok := c.ids[id]; ok {
		return id, controllerpb.NewError(codeInvalidRequest, "the topic id %v stands in the request for topic %s too: draw another", id, other)
	}
	return id, nil
}

func checkCreationConfigs(configs []*controllerpb.ConfigEntry) *controllerpb.Error {
	seen := make(map[string]bool, len(configs))
	for _, c := range configs {
		if c.Value == nil {
			return controllerpb.NewError(codeInvalidConfig, "topic config %q has no value: give one, or leave it out", c.GetName())
		}
		if seen[c.GetName()] {
			return controllerpb.NewError(codeInvalidConfig, "topic config %q is given twice: give it once", c.GetName())
		}
		seen[c.GetName()] = true
		if err := checkTopicConfig(c.GetName(), c.GetValue()); err != nil {
			return controllerpb.NewError(codeInvalidConfig, "%v", err)
		}
	}
	return nil
}

// partitions assigns replicas by hand or by placement.
func (c *creation) partitions(t *controllerpb.CreatableTopic) ([]image.Partition, *controllerpb.Error) {
	var replicas [][]image.BrokerID
	code := codeInvalidReplicationFactor
	if len(t.GetAssignments()) > 0 {
		var err *controllerpb.Error
		if replicas, err = c.assigned(t); err != nil {
			return nil, err
		}
		code = codeInvalidReplicaAssignment
	} else {
		factor, count := orDefault(t.ReplicationFactor, c.view.Defaults.ReplicationFactor), orDefault(t.Partitions, c.view.Defaults.Partitions)
		if factor < 1 {
			return nil, controllerpb.NewError(codeInvalidReplicationFactor, "replication factor is %d, must be at least 1", factor)
		}
		if count < 1 {
			return nil, controllerpb.NewError(codeInvalidPartitions, "number of partitions is %d, must be at least 1", count)
		}
		var err error
		if replicas, err = newPlacer(c.brokers, c.view.Rand).place(count, int(factor)); err != nil {
			return nil, controllerpb.NewError(codeInvalidReplicationFactor, "%v", err)
		}
	}
	partitions := make([]image.Partition, len(replicas))
	for i, list := range replicas {
		p, ok := c.electorate.newPartition(list)
		if !ok {
			return nil, noneActive(code, i, list)
		}
		partitions[i] = p
	}
	return partitions, nil
}

func (c *creation) assigned(t *controllerpb.CreatableTopic) ([][]image.BrokerID, *controllerpb.Error) {
	if orDefault(t.ReplicationFactor, -1) != -1 || orDefault(t.Partitions, -1) != -1 {
		return nil, controllerpb.NewError(codeInvalidRequest, "assignments were given together with a partition count or a replication factor: leave these out")
	}
	return checkAssignments(c.view.Image, t.GetAssignments(), 0, 0)
}

// newPartition is a partition as it begins; ok is false if no replica is active.
func (e *electorate) newPartition(replicas []image.BrokerID) (p image.Partition, ok bool) {
	p = image.Partition{Replicas: replicas, Leader: image.NoBroker}
	for _, id := range replicas {
		if e.fitness(id) == fit {
			p.ISR = append(p.ISR, id)
		}
	}
	if len(p.ISR) == 0 {
		return p, false
	}
	p.Leader = p.ISR[0]
	return p, true
}
