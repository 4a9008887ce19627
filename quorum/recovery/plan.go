package recovery

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"

	"github.com/quorate/quorate/fsm"
	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/snapshot"
	"github.com/quorate/quorate/quorum/env"
	"github.com/quorate/quorate/quorum/raftnode"
)

// termsSkipped is how far the term is raised above the highest one seen: the lost controllers may have voted on, and clients take
// the highest controller epoch for the active one's.
const termsSkipped = 1000

// Options say what a recovery has at hand.
type Options struct {
	Env *env.Env
	// TLS is that of the RAFT listeners; nil: plain TCP.
	TLS *tls.Config
	// ClusterID is that of all directories.
	ClusterID string
	// Self is the node that goes on, with the RAFT address that others will dial.
	Self raftnode.Server
	// Directories are the data directories, the node's own first. None is in use.
	Directories []Directory
	// WithoutOwn leaves the node's own directory out, as one that is damaged.
	WithoutOwn bool
	// Force goes on in spite of a [RefusedError] that is Forcible.
	Force bool
}

// unlessForced is the error of a judgement that still stands.
func (o Options) unlessForced(err error) error {
	var refused *RefusedError
	if o.Force && errors.As(err, &refused) && refused.Forcible {
		return nil
	}
	return err
}

// Plan is a recovery that has been prepared: all that it found and all that it will write.
type Plan struct {
	// Furthest is the directory that the recovery goes on from.
	Furthest Source
	// Sources are all directories that hold Raft state.
	Sources []Source
	// Members are the voters as they were.
	Members []Member
	// Before is the end of the furthest log, Certain how much of it is proved to have been committed, After the begin of the new lineage.
	Before, After fsm.Position
	Certain       fsm.Certain
	// Index and Term are those of the snapshot that holds After.
	Index, Term uint64

	self      raftnode.Server
	clusterID string
}

// Prepare reads the directories, asks the members, and works out the new lineage. It changes nothing. The error is a
// [*RefusedError] while the quorum lives or may live, and for a node that was removed with its directory; it names a directory that
// cannot be read.
func Prepare(ctx context.Context, o Options) (*Plan, error) {
	p := &Plan{self: o.Self, clusterID: o.ClusterID}
	for i, d := range o.Directories {
		if i == 0 && o.WithoutOwn {
			continue
		}
		s, ok, err := survey(o.Env, d)
		if err != nil {
			how := "leave this one out"
			if i == 0 {
				how = "leave this one out with --without-own"
			}
			return nil, fmt.Errorf("%s: %w; to recover from the other directories, %s", d.Path, err, how)
		}
		if ok {
			p.Sources = append(p.Sources, s)
		}
	}
	if len(p.Sources) == 0 {
		return nil, errors.New("none of the directories holds Raft state: there is nothing to recover from; give the data directory of a controller with --directory")
	}
	p.Furthest = furthest(p.Sources)
	p.Members = surveyMembers(ctx, o, p.Furthest.Configuration, p.Sources)
	if err := o.unlessForced(judge(o.Self.ID, p.Members)); err != nil {
		return nil, err
	}
	if err := o.unlessForced(judgeDamaged(p.Furthest, p.Sources)); err != nil {
		return nil, err
	}
	var err error
	if p.Before, p.Certain, err = load(o.Env, p.Furthest, o.ClusterID); err != nil {
		return nil, err
	}
	above, err := judgeLineages(p.Before.Image.Lineage().Number, p.Members, p.Sources)
	if err = o.unlessForced(err); err != nil {
		return nil, err
	}
	directory, err := image.ParseUUID(o.Self.ID.DirectoryID)
	if err != nil {
		return nil, err
	}
	if p.Before.Image.IsRemovedController(image.BrokerID(o.Self.ID.NodeID), directory) {
		return nil, &RefusedError{Reason: fmt.Sprintf("controller %s was removed from the quorum with this directory, and stays out: format a new directory for the node, "+
			"recover with that one, and give the old one (%s) with --directory", o.Self.ID, p.Furthest.Path)}
	}
	p.number()
	p.After, err = fsm.BeginLineage(p.Before, fsm.LineageStart{
		Controller: image.BrokerID(o.Self.ID.NodeID), Directory: directory, TimeMs: o.Env.Now().UnixMilli(), Index: p.Index,
		LeftBehind: p.leftBehind(), Above: above,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Furthest.Path, err)
	}
	return p, nil
}

// number sets index and term: the index behind every log, the term far above each.
func (p *Plan) number() {
	for _, s := range p.Sources {
		p.Index, p.Term = max(p.Index, s.LastIndex), max(p.Term, s.Term)
		for _, d := range s.Damaged {
			p.Index, p.Term = max(p.Index, d.Index), max(p.Term, d.Term)
		}
	}
	p.Index++
	p.Term += termsSkipped
}

// leftBehind are the members, of any directory's configuration, that are not to come back.
func (p *Plan) leftBehind() []image.RemovedController {
	var out []image.RemovedController
	seen := map[raftnode.ServerID]bool{p.self.ID: true}
	for _, s := range p.Sources {
		for _, m := range s.Configuration.Servers {
			directory, err := image.ParseUUID(m.ID.DirectoryID)
			if err != nil || seen[m.ID] {
				continue
			}
			seen[m.ID] = true
			out = append(out, image.RemovedController{ID: image.BrokerID(m.ID.NodeID), DirectoryID: directory})
		}
	}
	return out
}

// Uncertain is the number of records at the end of the furthest log of which it is not known that they were committed, and which are
// taken as committed now.
func (p *Plan) Uncertain() int64 { return int64(p.Before.State.Offset - p.Certain.Offset) }

// IsComplete tells that nothing is lost that was committed: the directories of a majority of the voters were given, so the furthest of them
// holds all of it, provided that they are as their controllers left them. A damaged snapshot that the furthest log may not reach
// leaves that open.
func (p *Plan) IsComplete() bool {
	given := 0
	for _, m := range p.Members {
		if m.Found == Given {
			given++
		}
	}
	return 2*given > len(p.Members) && judgeDamaged(p.Furthest, p.Sources) == nil
}

// Write makes the new Raft state in a temporary directory, synced.
func (p *Plan) Write(e *env.Env, dir string) error {
	return raftnode.WriteRecovered(e, dir, raftnode.Recovered{
		Server: p.self, Index: p.Index, Term: p.Term,
		Write: func(w io.Writer) error {
			b := bufio.NewWriterSize(w, snapshotBufferBytes)
			return errors.Join(snapshot.Write(b, p.After.Header(p.clusterID), p.After.Image), b.Flush())
		},
	})
}

// Fresh tells whether a directory holds what a recovery of its own node has written and no node has run on since.
func Fresh(e *env.Env, d Directory, clusterID string) (at fsm.Position, ok bool, err error) {
	o, err := raftnode.OpenOffline(e, d.Raft)
	if err != nil {
		return at, false, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	if o.FirstIndex != 0 || len(o.Snapshots) != 1 {
		return at, false, nil
	}
	if at, err = readSnapshot(o, o.Snapshots[0], clusterID); err != nil {
		return at, false, err
	}
	l := at.Image.Lineage()
	return at, l.IsUnconfirmed() && int32(l.Controller) == d.ID.NodeID && l.DirectoryID.String() == d.ID.DirectoryID, nil
}
