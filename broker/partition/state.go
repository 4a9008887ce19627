package partition

import (
	"slices"
	"time"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// Role is what the local replica is to its partition.
type Role uint8

// The roles. A replica whose partition has no leader is a follower.
const (
	// RoleNone is the role before the first metadata and after the replica was deleted.
	RoleNone Role = iota
	RoleFollower
	RoleLeader
)

// Values that stand for what is not known.
const (
	// NoLeaderEpoch stands where no leader epoch is known or none was sent.
	NoLeaderEpoch image.LeaderEpoch = -1
	// UnknownOffset stands where no offset is known.
	UnknownOffset int64 = -1
)

// State is one replica's view of its partition. It is a value: [State.Step] returns the next one, and what its slices
// hold is never changed. Offsets are those of the partition's log.
type State struct {
	Role Role
	// Leader as metadata names it; [image.NoBroker] without one.
	Leader         image.BrokerID
	LeaderEpoch    image.LeaderEpoch
	PartitionEpoch image.PartitionEpoch
	// Replicas, AddingReplicas and RemovingReplicas are the assignment as metadata names it.
	Replicas, AddingReplicas, RemovingReplicas []image.BrokerID
	// MinISR is min.insync.replicas of the topic in the image at MetadataOffset; see [State.EffectiveMinISR]. Both are kept
	// on the leader only.
	MinISR         int
	MetadataOffset image.MetadataOffset
	// Answered is what an answer to a proposal has told of min.insync.replicas ahead of the metadata.
	Answered AnsweredMinISR
	// EpochStartOffset is the log end offset at the moment this replica became leader in LeaderEpoch;
	// [UnknownOffset] on a follower.
	EpochStartOffset int64
	// LogEndOffset and HighWatermark are kept on the leader only: a follower's are its log's affair.
	LogEndOffset, HighWatermark int64
	ISR                         ISR
	// Followers are the other replicas in the order of Replicas; empty on a follower.
	Followers []Follower
	// Proposals counts the proposals made, so that each has a number of its own.
	Proposals uint64
}

// AnsweredMinISR is the min.insync.replicas that a change of the ISR was decided under, until the image is as new as that
// decision; the zero value if it is.
type AnsweredMinISR struct {
	MinISR         int
	MetadataOffset image.MetadataOffset
}

// New returns the state of a replica of which no metadata was seen: every record is newer.
func New() State {
	return State{Leader: image.NoBroker, LeaderEpoch: NoLeaderEpoch, EpochStartOffset: UnknownOffset}
}

// ISR is the committed ISR and at most one pending change of it (Kafka: PartitionState).
type ISR struct {
	// Committed is the ISR of the newest partition record that this replica knows committed; empty on a follower.
	Committed []image.BrokerID
	// Maximal is Committed and the replica of a pending expansion. A pending shrink leaves it whole:
	// until it is known to be committed, the replica that is to go may still be elected.
	Maximal []image.BrokerID
	// Pending is the proposal whose outcome is unknown; nil when there is none.
	Pending *Proposal
}

// committed returns an ISR without a pending change.
func committed(isr []image.BrokerID) ISR { return ISR{Committed: isr, Maximal: isr} }

// Kind tells what a proposal does to the ISR.
type Kind uint8

// The kinds of a proposal.
const (
	Expand Kind = iota + 1
	Shrink
)

// Reason is the change reason that the controller's log names for a proposal of this kind.
func (k Kind) Reason() metadatapb.ChangeReason {
	if k == Expand {
		return metadatapb.ChangeReason_CHANGE_REASON_CAUGHT_UP
	}
	return metadatapb.ChangeReason_CHANGE_REASON_LAG
}

// Member is a broker in a proposed ISR.
type Member struct {
	ID image.BrokerID
	// Epoch is the broker epoch of the fetch that the membership rests on (KIP-903); [image.NoBrokerEpoch] for a
	// committed member that has not fetched in this leadership.
	Epoch image.BrokerEpoch
}

// Proposal is an AlterPartition of one partition, exactly as it is sent. It also tells the controller that the leader
// is recovered. It is never changed once made.
type Proposal struct {
	// Number tells apart proposals of one replica's life that are otherwise equal.
	Number         uint64
	Kind           Kind
	LeaderEpoch    image.LeaderEpoch
	PartitionEpoch image.PartitionEpoch
	ISR            []Member
	// Changed are the replicas that enter or leave.
	Changed []image.BrokerID
}

// Equal tells whether both are the same proposal, epochs and number included.
func (p *Proposal) Equal(q *Proposal) bool {
	return p.Number == q.Number && p.Kind == q.Kind && p.LeaderEpoch == q.LeaderEpoch &&
		p.PartitionEpoch == q.PartitionEpoch && slices.Equal(p.ISR, q.ISR) && slices.Equal(p.Changed, q.Changed)
}

// Follower is what a leader knows of another replica.
type Follower struct {
	ID image.BrokerID
	// LogEndOffset is the offset of its last fetch, LogStartOffset what that fetch said; [UnknownOffset] as long as it
	// has not fetched in this leader epoch.
	LogEndOffset, LogStartOffset int64
	// LastCaughtUp is the newest time at which it is known to have had everything the leader had; zero for never.
	LastCaughtUp time.Time
	// LastFetch is read and written as one: an offset is never combined with the broker epoch of another fetch.
	LastFetch LastFetch
	// refused holds the registration against which the controller refused this replica; see [State.canJoin].
	refused *registration
}

// LastFetch is what a leader remembers of a follower's last fetch.
type LastFetch struct {
	// At is the time of the request; zero if there was none in this leader epoch.
	At time.Time
	// LeaderLogEndOffset is the highest log end offset of the leader that a fetch was answered with.
	LeaderLogEndOffset int64
	// BrokerEpoch is the epoch that the request carried; [image.NoBrokerEpoch] if none.
	BrokerEpoch image.BrokerEpoch
}

func newFollower(id image.BrokerID) Follower {
	return Follower{
		ID: id, LogEndOffset: UnknownOffset, LogStartOffset: UnknownOffset,
		LastFetch: LastFetch{BrokerEpoch: image.NoBrokerEpoch},
	}
}

// registration is the part of a broker's registration that decides whether it may join an ISR.
type registration struct {
	epoch                        image.BrokerEpoch
	fenced, inControlledShutdown bool
	sinceMs                      int64
}

func registrationOf(b image.Broker) registration {
	return registration{b.Epoch, b.Fenced, b.InControlledShutdown, b.StateSinceMs}
}

// Brokers tells what metadata knows of a broker; an [image.Image] does. It must not change during a step.
type Brokers interface {
	Broker(image.BrokerID) (image.Broker, bool)
}

// Facts is what a step may look at beside the state.
type Facts struct {
	// Self is this broker, SelfEpoch the epoch of its present registration.
	Self      image.BrokerID
	SelfEpoch image.BrokerEpoch
	// LagTimeMax is replica.lag.time.max.ms.
	LagTimeMax time.Duration
	// Brokers is the newest metadata.
	Brokers Brokers
}

// follower returns the index of a tracked follower, -1 if it is none.
func (s *State) follower(id image.BrokerID) int {
	return slices.IndexFunc(s.Followers, func(f Follower) bool { return f.ID == id })
}

// EffectiveMinISR is min.insync.replicas, but never more than there are replicas. The answer to a proposal may overtake the
// metadata that raised it: whom the controller made eligible was decided by the raised one, so that is in force already.
func (s *State) EffectiveMinISR() int { return min(max(s.MinISR, s.Answered.MinISR), len(s.Replicas)) }

// learnMinISR takes over what an image says.
func (s *State) learnMinISR(minISR int, offset image.MetadataOffset) {
	s.MinISR, s.MetadataOffset = minISR, offset
	if offset >= s.Answered.MetadataOffset {
		s.Answered = AnsweredMinISR{}
	}
}

// overtake takes over what an answer says that rests on newer metadata than the image.
func (s *State) overtake(minISR int, offset image.MetadataOffset) {
	if offset > s.MetadataOffset && minISR > s.MinISR {
		s.Answered = AnsweredMinISR{minISR, offset}
	}
}

// IsUnderMinISR and IsAtMinISR tell, on the leader, how the committed ISR compares with the effective min ISR.
func (s *State) IsUnderMinISR() bool {
	return s.Role == RoleLeader && len(s.ISR.Committed) < s.EffectiveMinISR()
}

// IsAtMinISR tells whether one member less would be too few.
func (s *State) IsAtMinISR() bool {
	return s.Role == RoleLeader && len(s.ISR.Committed) == s.EffectiveMinISR()
}

// IsUnderReplicated tells, on the leader, whether a replica that is not being added is outside the committed ISR.
func (s *State) IsUnderReplicated() bool {
	return s.Role == RoleLeader && !image.ContainsAll(s.ISR.Committed, image.Without(s.Replicas, s.AddingReplicas...))
}
