package controller

import (
	"strings"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// topicNameMax is the most characters of a topic name, so that a directory name with the partition number fits (Kafka: Topic).
const topicNameMax = 249

// metadataTopic is the name that Kafka keeps for the metadata log.
const metadataTopic = "__cluster_metadata"

// checkTopicName refuses with INVALID_TOPIC_EXCEPTION what cannot be a topic's name.
func checkTopicName(name string) *controllerpb.Error {
	switch {
	case name == "":
		return controllerpb.NewError(codeInvalidTopic, "the topic name is empty: give 1 to %d characters", topicNameMax)
	case name == "." || name == "..":
		return controllerpb.NewError(codeInvalidTopic, "the topic name cannot be %q, which names a directory: choose another one", name)
	case len(name) > topicNameMax:
		return controllerpb.NewError(codeInvalidTopic, "the topic name has %d characters, at most %d are allowed", len(name), topicNameMax)
	}
	for i, c := range name {
		if !isTopicChar(c) {
			return controllerpb.NewError(codeInvalidTopic, "the topic name %q has %q at byte %d; letters, digits, '.', '_' and '-' are allowed", name, c, i)
		}
	}
	return nil
}

func isTopicChar(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}

// collisionKey is the same for names that metrics cannot tell apart: '.' and '_' stand for each other (KAFKA-2337).
func collisionKey(name string) string { return strings.ReplaceAll(name, ".", "_") }
