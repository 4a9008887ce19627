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

// explanation is what the operator is told of a decision: the reasons, then the partitions that change, each with its own.
type explanation struct {
	reasons []string
	// shown are the first of all changes.
	shown   []shownChange
	changes int
}

type shownChange struct{ partition, reason, record string }

// explain puts a decision on an image into words.
func explain(p plan, im *image.Image) explanation {
	var x explanation
	for _, r := range p.reasons {
		x.reasons = append(x.reasons, r.String())
	}
	for _, r := range p.records {
		change := r.GetPartitionChange()
		if change == nil {
			continue
		}
		if x.changes++; x.changes <= explainedChangesMax {
			x.shown = append(x.shown, shownChange{partitionName(im, change), reasonName(change.GetReason()), record.String(r)})
		}
	}
	return x
}

// tell tells the operator what was decided and why.
func (l *loop) tell(cause *metadatapb.Cause, x explanation) {
	for _, r := range x.reasons {
		l.logger.Info("decided", "cause", cause.GetName(), "principal", cause.GetPrincipal(), "what", r)
	}
	for _, c := range x.shown {
		l.logger.Info("partition changes", "cause", cause.GetName(), "partition", c.partition, "reason", c.reason, "record", c.record)
	}
	if x.changes > len(x.shown) {
		l.logger.Info("more partitions change", "cause", cause.GetName(), "changes", x.changes, "shown", len(x.shown))
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
