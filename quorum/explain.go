package quorum

import (
	"strconv"
	"strings"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// explainedChangesMax bounds the lines that one decision writes to the log. The death of one broker may change tens of
// thousands of partitions; the log of metadata has them all.
const explainedChangesMax = 20

// explain tells the operator what was decided and why: the reasons, then the partitions that change, each with its own.
func (l *loop) explain(cause *metadatapb.Cause, p plan, im *image.Image) {
	for _, r := range p.reasons {
		l.logger.Info("decided", "cause", cause.GetName(), "principal", cause.GetPrincipal(), "what", r.String())
	}
	changes := 0
	for _, r := range p.records {
		change := r.GetPartitionChange()
		if change == nil {
			continue
		}
		if changes++; changes <= explainedChangesMax {
			l.logger.Info("partition changes", "cause", cause.GetName(), "partition", partitionName(im, change),
				"reason", reasonName(change.GetReason()), "record", record.String(r))
		}
	}
	if changes > explainedChangesMax {
		l.logger.Info("more partitions change", "cause", cause.GetName(), "changes", changes, "shown", explainedChangesMax)
	}
}

func partitionName(im *image.Image, c *metadatapb.PartitionChange) string {
	id, err := image.UUIDFrom(c.GetTopicId())
	if err != nil {
		return "?"
	}
	if t, ok := im.TopicByID(id); ok {
		return t.Name() + "-" + strconv.Itoa(int(c.GetPartition()))
	}
	return image.PartitionID{Topic: id, Partition: c.GetPartition()}.String()
}

// reasonName is the word for a reason as operators read it: lag, session, controlled_shutdown.
func reasonName(r metadatapb.ChangeReason) string {
	return strings.ToLower(strings.TrimPrefix(r.String(), "CHANGE_REASON_"))
}
