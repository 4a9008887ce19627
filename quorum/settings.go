package quorum

import (
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/quorum/controller"
	"github.com/quorate/quorate/quorum/reader"
)

// Settings are the values of the node's own configuration, for those who ask for effective configs.
type Settings interface {
	// Static returns the value that file, environment or command line give a key.
	Static(key string) (value string, ok bool)
	// Default returns the built-in value of a key.
	Default(key string) (value string, ok bool)
}

// settings adds the keys that the controller knows.
type settings struct{ own Settings }

// Settings implements [reader.Source].
func (n *Node) Settings() reader.Settings { return settings{n.cfg.Settings} }

func (settings) Keys(t metadatapb.ResourceType) []string {
	if t == metadatapb.ResourceType_RESOURCE_TYPE_BROKER {
		return controller.BrokerConfigKeys()
	}
	return controller.TopicConfigKeys()
}

func (s settings) Static(key string) (string, bool) {
	if s.own == nil {
		return "", false
	}
	return s.own.Static(key)
}

func (s settings) Default(key string) (string, bool) {
	if s.own == nil {
		return "", false
	}
	return s.own.Default(key)
}
