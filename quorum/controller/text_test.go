package controller_test

import (
	"fmt"
	"strings"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
	"github.com/quorate/quorate/test/lines"
)

// The words of the transcripts are those of package lines, which package test/model shares.
func recordLine(im *image.Image, r *metadatapb.Record) string { return lines.Record(im, r) }

func brokerLine(b image.Broker) string { return lines.Broker(b) }

func idName(_ *image.Image, raw []byte) string { return lines.ID(raw) }

func leaderName(leader *int32) string { return lines.Leader(leader) }

func int32s(ids []int32) string { return lines.Replicas(ids) }

func recoveryName(s metadatapb.LeaderRecoveryState) string { return lines.Recovery(s) }

func errorText(e *controllerpb.Error) string {
	if e == nil {
		return "NONE"
	}
	return e.Code.KafkaName() + ": " + e.Message
}

// stateText writes brokers and partitions, or only the partitions of the topics named.
func stateText(im *image.Image, names []string) string {
	var b strings.Builder
	if len(names) == 0 {
		for x := range im.Brokers() {
			b.WriteString(brokerLine(x) + "\n")
		}
	}
	for t := range im.Topics() {
		if len(names) > 0 && !strings.Contains(" "+strings.Join(names, " ")+" ", " "+t.Name()+" ") {
			continue
		}
		for i, p := range t.Partitions() {
			fmt.Fprintf(&b, "%s-%d %v\n", t.Name(), i, p)
		}
	}
	if len(names) == 0 {
		for d := range im.PendingDeletions() {
			fmt.Fprintf(&b, "pending deletion %s id=%s:", d.Name, idName(im, d.TopicID[:]))
			for _, r := range d.Replicas {
				fmt.Fprintf(&b, " %v", r.Broker)
				if r.Deleted {
					b.WriteString("(deleted)")
				}
				if r.Failure != "" {
					fmt.Fprintf(&b, "(%s)", r.Failure)
				}
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}
