package image

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// configKey orders configs by resource, then by key.
type configKey struct {
	resourceType metadatapb.ResourceType
	resource     string
	key          string
}

func (k configKey) compare(l configKey) int {
	return cmp.Or(cmp.Compare(k.resourceType, l.resourceType), strings.Compare(k.resource, l.resource),
		strings.Compare(k.key, l.key))
}

// setConfig sets or removes one key. Removing what is not set changes nothing.
func (d *Delta) setConfig(r *metadatapb.Config) error {
	if err := d.checkConfig(r); err != nil {
		return fmt.Errorf("Config %v %q %q: %w", r.ResourceType, r.ResourceName, r.Key, err)
	}
	k := configKey{r.ResourceType, r.ResourceName, r.Key}
	if r.Value == nil {
		d.removeConfig(k)
		return nil
	}
	if old, ok := d.configs.get(k); ok {
		d.sum -= hashConfig(k, old)
	}
	d.configs.set(d.gen, k, *r.Value)
	d.sum += hashConfig(k, *r.Value)
	return nil
}

func (d *Delta) checkConfig(r *metadatapb.Config) error {
	if r.Key == "" {
		return errors.New("without a key")
	}
	switch r.ResourceType {
	case metadatapb.ResourceType_RESOURCE_TYPE_TOPIC:
		if !d.topicByName.has(r.ResourceName) {
			return errors.New("the topic is unknown")
		}
	case metadatapb.ResourceType_RESOURCE_TYPE_BROKER:
		if id, err := strconv.ParseInt(r.ResourceName, 10, 32); r.ResourceName != "" &&
			(err != nil || strconv.FormatInt(id, 10) != r.ResourceName) {
			return errors.New("a broker's resource is its decimal id, or empty for all brokers")
		}
	default:
		return errors.New("unknown type of resource")
	}
	return nil
}

func (d *Delta) removeConfig(k configKey) {
	if old, ok := d.configs.get(k); ok {
		d.sum -= hashConfig(k, old)
		d.configs.delete(d.gen, k)
	}
}

func (d *Delta) removeConfigs(t metadatapb.ResourceType, resource string) {
	var keys []configKey
	for k := range d.configs.from(configKey{t, resource, ""}) {
		if k.resourceType != t || k.resource != resource {
			break
		}
		keys = append(keys, k)
	}
	for _, k := range keys {
		d.removeConfig(k)
	}
}

// setFeature finalizes a level that this release supports; zero removes it.
func (d *Delta) setFeature(r *metadatapb.FeatureLevel) error {
	if err := checkFeature(r); err != nil {
		return err
	}
	if old, ok := d.features.get(r.Name); ok {
		d.sum -= hashFeature(r.Name, old)
	}
	if r.Level == 0 {
		d.features.delete(d.gen, r.Name)
		return nil
	}
	d.features.set(d.gen, r.Name, r.Level)
	d.sum += hashFeature(r.Name, r.Level)
	return nil
}

func (d *Delta) setProducerIDs(r *metadatapb.ProducerIds) error {
	if r.NextProducerId <= d.nextProducerID {
		return fmt.Errorf("ProducerIds: the next id %d does not follow %d", r.NextProducerId, d.nextProducerID)
	}
	d.nextProducerID = r.NextProducerId
	return nil
}
