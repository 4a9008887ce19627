package controller

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// listenersMax and featuresMax bound a registration.
const (
	listenersMax = 16
	featuresMax  = 64
)

// featureNameMax bounds the name of a feature, nodeTextMax a host, a rack and the name of a listener, in bytes.
const (
	featureNameMax = 249
	nodeTextMax    = 255
)

// registration is a RegisterBroker request that has passed its checks.
type registration struct {
	id          image.BrokerID
	incarnation image.UUID
	directory   image.UUID
	stop        metadatapb.StopKind
	// lost holds the replicas named as lost.
	lost map[image.PartitionID]bool
	// old is the registration so far, if known.
	old   image.Broker
	known bool
	// forgotten tells that the id was unregistered and partitions still count on what it held.
	forgotten bool
}

func checkRegistration(v View, req *controllerpb.RegisterBrokerRequest) (*registration, error) {
	if err := checkClusterID(v, req.GetClusterId()); err != nil {
		return nil, err
	}
	if err := checkLineage(v.Image, image.BrokerID(req.GetBrokerId()), req.GetLineage()); err != nil {
		return nil, err
	}
	r, err := readRegistration(req)
	if err != nil {
		return nil, err
	}
	r.old, r.known = v.Image.Broker(r.id)
	sameLife := r.known && r.old.IncarnationID == r.incarnation
	if r.known && !sameLife && !r.old.InControlledShutdown && v.Liveness.HasSession(r.old, v.Now, v.Limits.SessionTimeout) {
		return nil, controllerpb.Refuse(codeDuplicateBrokerRegistration,
			"broker %v is in use by incarnation %v, whose session lasts %v after its last heartbeat: wait, or stop that process",
			r.id, r.old.IncarnationID, v.Limits.SessionTimeout)
	}
	if err := checkDirectory(v.Image, r, sameLife); err != nil {
		return nil, err
	}
	if sameLife && len(r.lost) > 0 && !r.old.Fenced {
		return nil, controllerpb.Refuse(codeInvalidRegistration,
			"broker %v is not fenced and names %d replicas as lost: an incarnation names them before it is unfenced; restart the broker", r.id, len(r.lost))
	}
	if err := checkFeatures(v.Image, req.GetFeatures()); err != nil {
		return nil, err
	}
	r.forgotten = !r.known && isCountedOn(v.Image, r.id)
	if r.known && !sameLife {
		r.stop = judgeStop(req, r.old)
	}
	if r.known && (!sameLife || len(r.lost) > 0) {
		if err := checkJudgedOffset(v, req, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func checkClusterID(v View, id string) error {
	if id != v.ClusterID {
		return controllerpb.Refuse(codeInconsistentClusterID,
			"the node was formatted for cluster %q, this is cluster %q: check its controllers or format it anew", id, v.ClusterID)
	}
	return nil
}

func readRegistration(req *controllerpb.RegisterBrokerRequest) (*registration, error) {
	r := &registration{id: image.BrokerID(req.GetBrokerId()), stop: req.GetStopKind()}
	if r.id < 0 {
		return nil, controllerpb.Refuse(codeInvalidRegistration, "node.id is %d, must be 0 or more", req.GetBrokerId())
	}
	var err error
	if r.incarnation, r.directory, err = readNodeIDs(req.GetIncarnationId(), req.GetDirectoryId()); err != nil {
		return nil, err
	}
	if err := checkListeners(req.GetListeners()); err != nil {
		return nil, err
	}
	if n := len(req.GetRack()); n > nodeTextMax {
		return nil, controllerpb.Refuse(codeInvalidRegistration, "broker.rack has %d bytes, at most %d are taken", n, nodeTextMax)
	}
	if req.GetStopKind() < 0 || metadatapb.StopKind_name[int32(req.GetStopKind())] == "" {
		return nil, controllerpb.Refuse(codeInvalidRegistration, "stop kind %d is unknown", req.GetStopKind())
	}
	r.lost = make(map[image.PartitionID]bool)
	for _, t := range req.GetLostReplicas() {
		id, err := image.UUIDFrom(t.GetTopicId())
		if err != nil {
			return nil, controllerpb.Refuse(codeInvalidRegistration, "lost replicas: %v", err)
		}
		for _, p := range t.GetPartitions() {
			r.lost[image.PartitionID{Topic: id, Partition: p}] = true
		}
	}
	return r, nil
}

func readNodeIDs(incarnation, directory []byte) (i, d image.UUID, err error) {
	if i, err = image.UUIDFrom(incarnation); err != nil || i.IsZero() {
		return i, d, controllerpb.Refuse(codeInvalidRegistration, "incarnation id must be 16 bytes, not all zero")
	}
	if d, err = image.UUIDFrom(directory); err != nil || d.IsZero() {
		return i, d, controllerpb.Refuse(codeInvalidRegistration, "directory id must be 16 bytes, not all zero")
	}
	return i, d, nil
}

func checkListeners(listeners []*metadatapb.Listener) error {
	if len(listeners) == 0 || len(listeners) > listenersMax {
		return controllerpb.Refuse(codeInvalidRegistration, "%d listeners are named, 1 to %d are taken", len(listeners), listenersMax)
	}
	for i, l := range listeners {
		if n := max(len(l.GetName()), len(l.GetHost())); n > nodeTextMax {
			return controllerpb.Refuse(codeInvalidRegistration, "name or host of listener %d has %d bytes, at most %d are taken", i+1, n, nodeTextMax)
		}
		if l.GetName() == "" || l.GetHost() == "" || l.GetPort() < 1 || l.GetPort() > 65535 {
			return controllerpb.Refuse(codeInvalidRegistration,
				"listener %q has host %q and port %d: it needs a name, a host and a port from 1 to 65535", l.GetName(), l.GetHost(), l.GetPort())
		}
		for _, other := range listeners[:i] {
			if other.GetName() == l.GetName() {
				return controllerpb.Refuse(codeInvalidRegistration, "listener %s is named twice", l.GetName())
			}
		}
	}
	return nil
}

// checkDirectory keeps a directory with one broker, and one life with its directory.
func checkDirectory(im *image.Image, r *registration, sameLife bool) error {
	if sameLife && r.old.DirectoryID != r.directory {
		return controllerpb.Refuse(codeInvalidRegistration,
			"incarnation %v registered with directory %v, not %v: restart the broker", r.incarnation, r.old.DirectoryID, r.directory)
	}
	for b := range im.Brokers() {
		if b.ID != r.id && b.DirectoryID == r.directory {
			return controllerpb.Refuse(codeInvalidRegistration,
				"directory %v belongs to broker %v: a data directory cannot serve two ids; format another one", r.directory, b.ID)
		}
	}
	return nil
}

// judgeStop takes a clean stop for one only if the marker is that of the life that is registered (KAFKA-18635). The crash of a
// process leaves no marker; but if the directory names another life than the registered one, it is not the one that life ran on,
// or a copy that was made before.
func judgeStop(req *controllerpb.RegisterBrokerRequest, old image.Broker) metadatapb.StopKind {
	named := req.PreviousBrokerEpoch != nil
	isOf := named && image.BrokerEpoch(req.GetPreviousBrokerEpoch()) == old.Epoch
	switch stop := req.GetStopKind(); {
	case stop == metadatapb.StopKind_STOP_KIND_CLEAN && !isOf, stop == metadatapb.StopKind_STOP_KIND_PROCESS_CRASH && named && !isOf:
		return metadatapb.StopKind_STOP_KIND_UNSPECIFIED
	default:
		return stop
	}
}

// checkJudgedOffset refuses a list of lost replicas that was made on an image older than the last change that could have
// put the broker into an ISR: that is its fencing, or the beginning of its shutdown. A broker whose session is over but
// which is not fenced yet may still be put into one, so only the newest image will do. A list that cannot matter,
// because everything is lost, may be as old as it likes.
func checkJudgedOffset(v View, req *controllerpb.RegisterBrokerRequest, r *registration) error {
	if r.allLost() {
		return nil
	}
	needed := v.lastOffset()
	switch state, ok := v.Liveness.HeartbeatState(r.id); {
	case r.old.InControlledShutdown:
		needed = r.old.ControlledShutdownOffset
	case r.old.Fenced && ok:
		needed = state.SettledOffset
	}
	if judged := offsetOf(v.Image, req.GetLineage(), req.GetJudgedOffset()); judged < needed {
		return controllerpb.Refuse(codeOffsetNotAvailable,
			"broker %v judged its logs by the image at metadata offset %d, its own last change is at or before %d: follow the metadata log that far, judge and register again",
			r.id, judged, needed)
	}
	return nil
}

// isCountedOn tells whether a partition has the broker in its ISR, ELR or last-known ELR.
func isCountedOn(im *image.Image, id image.BrokerID) bool {
	for range im.PartitionsWithELR(id) {
		return true
	}
	return im.ISRCount(id) > 0
}

// allLost tells whether no log of the life before is known to be on the disk. Which directory an id had, how its last life
// stopped and which change it saw last goes with its registration, so that of an id that was unregistered nothing is known.
func (r *registration) allLost() bool {
	return r.stop == metadatapb.StopKind_STOP_KIND_NEVER_RAN || r.forgotten || r.known && r.old.DirectoryID != r.directory
}

// fate tells what became of one replica.
func (r *registration) fate(id image.PartitionID) fate {
	switch {
	case r.allLost() || r.lost[id]:
		return fateLost
	case r.stop == metadatapb.StopKind_STOP_KIND_CLEAN, r.stop == metadatapb.StopKind_STOP_KIND_PROCESS_CRASH:
		return fateKept
	default:
		return fateCrashed
	}
}

// amendedFate tells what became of one replica of a life that goes on: what the life before did to the others has been
// judged when this one began.
func (r *registration) amendedFate(id image.PartitionID) fate {
	if r.lost[id] {
		return fateLost
	}
	return fateKept
}

// before says how the life before ended.
func (r *registration) before() string {
	switch {
	case r.forgotten:
		return "the id was unregistered, no log of the life before counts"
	case !r.known:
		return "the id is new"
	case r.allLost():
		return "its directory is another one, every log of the life before is gone"
	case r.stop == metadatapb.StopKind_STOP_KIND_CLEAN:
		return "the life before stopped cleanly"
	case r.stop == metadatapb.StopKind_STOP_KIND_PROCESS_CRASH:
		return "the process before crashed"
	case r.stop == metadatapb.StopKind_STOP_KIND_MACHINE_CRASH:
		return "the machine crashed"
	default:
		return "how the life before stopped is not known"
	}
}

func compareFeatures(a, b *metadatapb.FeatureRange) int { return cmp.Compare(a.GetName(), b.GetName()) }

func sameListeners(old []image.Listener, listeners []*metadatapb.Listener) bool {
	return slices.EqualFunc(old, listeners, func(o image.Listener, l *metadatapb.Listener) bool {
		return o.Name == l.GetName() && o.Host == l.GetHost() && uint32(o.Port) == l.GetPort()
	})
}

func sameFeatures(old []image.FeatureRange, features []*metadatapb.FeatureRange) bool {
	return slices.EqualFunc(old, features, func(o image.FeatureRange, f *metadatapb.FeatureRange) bool {
		return o.Name == f.GetName() && o.Min == f.GetMin() && o.Max == f.GetMax()
	})
}

// plainListeners and plainFeatures copy what this release knows of a request. A node of a newer release may send fields
// that nobody else can read, and a record that bears one stops every process that reads the log.
func plainListeners(list []*metadatapb.Listener) []*metadatapb.Listener {
	out := make([]*metadatapb.Listener, len(list))
	for i, l := range list {
		out[i] = &metadatapb.Listener{Name: l.GetName(), Host: l.GetHost(), Port: l.GetPort()}
	}
	return out
}

func plainFeatures(list []*metadatapb.FeatureRange) []*metadatapb.FeatureRange {
	out := make([]*metadatapb.FeatureRange, len(list))
	for i, f := range list {
		out[i] = &metadatapb.FeatureRange{Name: f.GetName(), Min: f.GetMin(), Max: f.GetMax()}
	}
	return out
}
