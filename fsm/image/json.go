package image

import (
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/quorate/quorate/fsm/record"
)

// jsonFlushBytes is how much text is gathered before it is written out.
const jsonFlushBytes = 32 << 10

// WriteJSON writes the whole image as one canonical JSON document that ends with a newline: equal images with equal
// offset and chain give the same bytes on every node. Keys have a fixed order, lists are always present, topics are
// ordered by name, configs by key, ids are in Kafka's form, a chain is 16 hex digits, and an absent leader is -1.
// It needs little memory whatever the size of the image. The error is that of w.
func (im *Image) WriteJSON(w io.Writer) error {
	j := &jsonWriter{w: w}
	j.text(`{"metadataOffset":`).int(int64(im.offset))
	j.text(`,"chain":`).string(im.chain.String())
	j.text(`,"lineage":`).lineage(im.lineage)
	j.text(`,"features":`)
	j.open('[')
	for name, level := range im.features.all() {
		j.item().text(`{"name":`).string(name).text(`,"level":`).int(int64(level)).text(`}`)
	}
	j.close(']').text(`,"brokers":`).open('[')
	for _, b := range im.brokers.all() {
		j.item().broker(b)
	}
	j.close(']').text(`,"controllers":`).open('[')
	for _, c := range im.controllers.all() {
		j.item().text(`{"id":`).int(int64(c.ID)).text(`,"incarnationId":`).string(c.IncarnationID.String())
		j.text(`,"directoryId":`).string(c.DirectoryID.String()).node(c.Listeners, c.Features).text(`}`)
	}
	j.close(']').text(`,"removedControllers":`).open('[')
	for _, c := range im.removedControllers.all() {
		j.item().text(`{"id":`).int(int64(c.ID)).text(`,"directoryId":`).string(c.DirectoryID.String())
		j.text(`,"removedAtMs":`).int(c.RemovedAtMs).text(`}`)
	}
	j.close(']').text(`,"topics":`).open('[')
	for t := range im.Topics() {
		j.item().topic(t)
		if j.err != nil {
			return j.err
		}
	}
	j.close(']').text(`,"configs":`)
	im.writeConfigs(j)
	j.text(`,"nextProducerId":`).int(im.nextProducerID)
	j.text(`,"pendingDeletions":`).open('[')
	for _, p := range im.pending.all() {
		j.item().pending(p)
	}
	j.close(']').text("}\n")
	return j.flush()
}

func (im *Image) writeConfigs(j *jsonWriter) {
	j.open('[')
	var last configKey
	started := false
	for k, v := range im.configs.all() {
		if !started || k.resourceType != last.resourceType || k.resource != last.resource {
			if started {
				j.close('}').text(`}`)
			}
			j.item().text(`{"resourceType":`).string(strings.TrimPrefix(k.resourceType.String(), "RESOURCE_TYPE_")).text(`,"resourceName":`).string(k.resource)
			j.text(`,"configs":`).open('{')
			started = true
		}
		j.item().string(k.key).text(`:`).string(v)
		last = k
	}
	if started {
		j.close('}').text(`}`)
	}
	j.close(']')
}

// jsonWriter gathers text; it remembers the first error and drops what follows.
type jsonWriter struct {
	w     io.Writer
	b     []byte
	fresh bool // nothing since the last opening bracket
	err   error
}

func (j *jsonWriter) flush() error {
	if j.err == nil && len(j.b) > 0 {
		_, j.err = j.w.Write(j.b)
	}
	j.b = j.b[:0]
	return j.err
}

func (j *jsonWriter) text(s string) *jsonWriter {
	j.b = append(j.b, s...)
	return j
}

func (j *jsonWriter) open(c byte) *jsonWriter {
	j.b, j.fresh = append(j.b, c), true
	return j
}

func (j *jsonWriter) close(c byte) *jsonWriter {
	j.b, j.fresh = append(j.b, c), false
	return j
}

// item begins an element of a list or an object.
func (j *jsonWriter) item() *jsonWriter {
	if !j.fresh {
		j.b = append(j.b, ',')
	}
	j.fresh = false
	if len(j.b) >= jsonFlushBytes {
		_ = j.flush()
	}
	return j
}

func (j *jsonWriter) int(v int64) *jsonWriter {
	j.b = strconv.AppendInt(j.b, v, 10)
	return j
}

func (j *jsonWriter) bool(v bool) *jsonWriter {
	j.b = strconv.AppendBool(j.b, v)
	return j
}

func (j *jsonWriter) string(s string) *jsonWriter {
	j.b = AppendJSONString(j.b, s)
	return j
}

func (j *jsonWriter) ids(name string, ids []BrokerID) *jsonWriter {
	j.b = append(j.b, name...)
	j.b = record.AppendIDs(j.b, ids)
	return j
}

func (j *jsonWriter) broker(b *Broker) {
	j.text(`{"id":`).int(int64(b.ID)).text(`,"epoch":`).int(int64(b.Epoch))
	j.text(`,"incarnationId":`).string(b.IncarnationID.String())
	j.text(`,"directoryId":`).string(b.DirectoryID.String())
	j.text(`,"registrationOffset":`).int(int64(b.RegistrationOffset))
	j.text(`,"fenced":`).bool(b.Fenced)
	j.text(`,"inControlledShutdown":`).bool(b.InControlledShutdown)
	j.text(`,"controlledShutdownOffset":`).int(int64(b.ControlledShutdownOffset))
	j.text(`,"rack":`)
	if b.Rack == nil {
		j.text(`null`)
	} else {
		j.string(*b.Rack)
	}
	j.text(`,"stopKind":`).string(strings.TrimPrefix(b.StopKind.String(), "STOP_KIND_")).text(`,"previousEpoch":`).int(int64(b.PreviousEpoch))
	j.text(`,"lostReplicas":`).int(int64(b.LostReplicas)).text(`,"stateSinceMs":`).int(b.StateSinceMs)
	j.node(b.Listeners, b.Features).text(`}`)
}

func (j *jsonWriter) node(listeners []Listener, features []FeatureRange) *jsonWriter {
	j.text(`,"listeners":`).open('[')
	for _, l := range listeners {
		j.item().text(`{"name":`).string(l.Name).text(`,"host":`).string(l.Host).text(`,"port":`).int(int64(l.Port)).text(`}`)
	}
	j.close(']').text(`,"features":`).open('[')
	for _, f := range features {
		j.item().text(`{"name":`).string(f.Name).text(`,"min":`).int(int64(f.Min)).text(`,"max":`).int(int64(f.Max)).text(`}`)
	}
	return j.close(']')
}

func (j *jsonWriter) topic(t Topic) {
	j.text(`{"name":`).string(t.Name()).text(`,"topicId":`).string(t.ID().String()).text(`,"partitions":`).open('[')
	for i, p := range t.Partitions() {
		j.item().text(`{"partition":`).int(int64(i)).text(`,"leader":`).int(int64(p.Leader))
		j.text(`,"leaderEpoch":`).int(int64(p.LeaderEpoch)).text(`,"partitionEpoch":`).int(int64(p.PartitionEpoch))
		j.ids(`,"replicas":`, p.Replicas).ids(`,"isr":`, p.ISR).ids(`,"elr":`, p.ELR).ids(`,"lastKnownElr":`, p.LastKnownELR)
		j.ids(`,"addingReplicas":`, p.AddingReplicas).ids(`,"removingReplicas":`, p.RemovingReplicas)
		j.ids(`,"originalReplicas":`, p.OriginalReplicas)
		j.text(`,"leaderRecoveryState":`).string(p.RecoveryState()).text(`}`)
	}
	j.close(']').text(`}`)
}

func (j *jsonWriter) pending(p *PendingDeletion) {
	j.text(`{"topicId":`).string(p.TopicID.String()).text(`,"name":`).string(p.Name).text(`,"partitions":`).int(int64(p.Partitions)).text(`,"replicas":`).open('[')
	for _, r := range p.Replicas {
		j.item().text(`{"broker":`).int(int64(r.Broker)).text(`,"failure":`).string(r.Failure)
		j.text(`,"failureSinceMs":`).int(r.FailureSinceMs).text(`,"deleted":`).bool(r.Deleted)
		j.text(`,"partitions":`).int(int64(r.Partitions)).text(`}`)
	}
	j.close(']').text(`}`)
}

const hexDigits = "0123456789abcdef"

// AppendJSONString appends s as a JSON string in the form that all documents of the project share: only what has to be escaped is,
// and what is not UTF-8 becomes U+FFFD.
func AppendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	for i, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r < 0x20 || r == 0x7f:
			b = append(b, `\u00`...)
			b = append(b, hexDigits[s[i]>>4], hexDigits[s[i]&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
