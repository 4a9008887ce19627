package broker

import (
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/broker/log"
	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

func goodConfig() Config {
	c := DefaultConfig()
	c.ClusterID, c.ID, c.DirectoryID, c.LogDir = "c", 1, image.UUID{1}, "/data"
	c.KafkaAddress, c.GRPCAddress, c.Controllers = "a:1", "a:2", []string{"b:1"}
	c.Listeners = []image.Listener{{Name: "KAFKA", Host: "a", Port: 1}, {Name: "GRPC", Host: "a", Port: 2}}
	return c
}

func TestConfigNamesTheFieldAtFault(t *testing.T) {
	good := goodConfig()
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		want   string
		change func(*Config)
	}{
		{"ClusterID", func(c *Config) { c.ClusterID = "" }},
		{"ID must be at least 0, is -1", func(c *Config) { c.ID = -1 }},
		{"DirectoryID", func(c *Config) { c.DirectoryID = image.UUID{} }},
		{"LogDir", func(c *Config) { c.LogDir = "" }},
		{"KafkaAddress", func(c *Config) { c.KafkaAddress = "" }},
		{"GRPCAddress", func(c *Config) { c.GRPCAddress = "" }},
		{"Listeners lacks GRPC", func(c *Config) { c.Listeners = c.Listeners[:1] }},
		{"Controllers", func(c *Config) { c.Controllers = nil }},
		{"HeartbeatInterval must be more than 0, is 0s", func(c *Config) { c.HeartbeatInterval = 0 }},
		{"SessionTimeout must be more than twice HeartbeatInterval (2s), is 4s", func(c *Config) { c.SessionTimeout = 4 * time.Second }},
		{"ControlledShutdownMaxWait", func(c *Config) { c.ControlledShutdownMaxWait = -1 }},
		{"LagTimeMax", func(c *Config) { c.LagTimeMax = 0 }},
		{"StrayDelay", func(c *Config) { c.StrayDelay = 0 }},
		{"SegmentBytesMax", func(c *Config) { c.Log.SegmentBytesMax = 3 }},
		{"OpenFilesMax", func(c *Config) { c.Logs.OpenFilesMax = 0 }},
		{"ConnectionsMax", func(c *Config) { c.Kafka.ConnectionsMax = 0 }},
	} {
		c := goodConfig()
		tc.change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("want %q in %v", tc.want, err)
		}
	}
}

func TestLogConfigTakesTopicThenClusterThenBase(t *testing.T) {
	set := func(resource metadatapb.ResourceType, name, key, value string) *metadatapb.Record {
		return &metadatapb.Record{Kind: &metadatapb.Record_Config{Config: &metadatapb.Config{ResourceType: resource, ResourceName: name, Key: key, Value: &value}}}
	}
	const topic, broker = metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, metadatapb.ResourceType_RESOURCE_TYPE_BROKER
	im := newWorld(t).put(topicRecord("a", 1),
		set(broker, "", "retention.ms", "5000"), set(broker, "", "segment.bytes", "1000"),
		set(topic, "a", "retention.ms", "-1"), set(topic, "a", "max.message.bytes", "0"), set(topic, "a", "message.timestamp.type", "LogAppendTime"))
	base := log.DefaultLogConfig()
	a, errs := logConfig(im, "a", base)
	if errs != nil {
		t.Error(errs)
	}
	if a.RetentionAgeMax >= 0 || a.SegmentBytesMax != 1000 || a.MessageBytesMax != log.HeaderBytes || !a.LogAppendTime || a.RetentionBytesMax != base.RetentionBytesMax {
		t.Errorf("got %+v", a)
	}
	if _, errs := logConfig(newWorld(t).put(topicRecord("a", 1), set(topic, "a", "retention.ms", "soon")), "a", base); len(errs) != 1 {
		t.Errorf("got %v", errs)
	}
}
