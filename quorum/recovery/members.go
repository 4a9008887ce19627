package recovery

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/quorum/raftnode"
)

// probeTimeout bounds the question to a member whether it runs.
const probeTimeout = 3 * time.Second

// Found says what is known of a member.
type Found string

const (
	// Given: its directory is among those given, so it is known how far it was.
	Given Found = "given"
	// Answers: it runs.
	Answers Found = "answers"
	// Silent: it does not answer, and its directory was not given. It may be gone, or only out of reach.
	Silent Found = "silent"
	// Lost: it is the recovered node itself, whose own directory holds nothing or was left out.
	Lost Found = "lost"
)

// Member is a voter of the newest configuration, and what is known of it.
type Member struct {
	raftnode.Server
	Found Found
	// Why is what came instead of an answer.
	Why string
	// Lineage is the newest one that it has heard of, if it answers.
	Lineage int32
}

// surveyMembers asks the members for themselves, all at once.
func surveyMembers(ctx context.Context, o Options, c raftnode.Configuration, sources []Source) []Member {
	var out []Member
	for _, s := range c.Servers {
		if s.Voter {
			out = append(out, Member{Server: s})
		}
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	prober := raftnode.Prober{Env: o.Env, TLS: o.TLS, ClusterID: o.ClusterID, From: o.Self.ID, Lineage: raftnode.NoLineage}
	var asked sync.WaitGroup
	for i := range out {
		m := &out[i]
		given := slices.ContainsFunc(sources, func(s Source) bool { return s.ID == m.ID })
		if m.ID == o.Self.ID {
			if m.Found = Lost; given {
				m.Found = Given
			}
			continue
		}
		asked.Go(func() {
			said, err := prober.Probe(ctx, m.Server)
			if err == nil && !said.Is(m.ID) {
				err = fmt.Errorf("%s listens there", said.Listener)
			}
			switch {
			case err == nil:
				m.Found, m.Lineage = Answers, said.Lineage
			case given:
				m.Found = Given
			default:
				m.Found, m.Why = Silent, err.Error()
			}
		})
	}
	asked.Wait()
	return out
}

// RefusedError says why a recovery is not done.
type RefusedError struct {
	Reason string
	// Forcible tells that --force overrides it.
	Forcible bool
}

func (e *RefusedError) Error() string {
	if e.Forcible {
		return e.Reason + "; or, if you know better, --force"
	}
	return e.Reason
}

// judge refuses a recovery while the quorum lives or may live.
func judge(self raftnode.ServerID, members []Member) error {
	by := map[Found][]string{}
	for _, m := range members {
		by[m.Found] = append(by[m.Found], m.ID.String())
	}
	majority := len(members)/2 + 1
	switch {
	case len(by[Answers]) >= majority:
		return &RefusedError{Reason: fmt.Sprintf("%d of %d voters answer (%s), a majority: nothing is lost that they do not have; start this node, it catches up by itself",
			len(by[Answers]), len(members), strings.Join(by[Answers], ", "))}
	case len(members) == 1 && members[0].ID == self:
		return &RefusedError{Forcible: true, Reason: "this node is the only voter of its quorum, so no majority was lost: start it"}
	case len(by[Answers]) > 0:
		return &RefusedError{Forcible: true, Reason: fmt.Sprintf("%s answers, and its log may be further than what was given: stop it and give its data directory with --directory",
			strings.Join(by[Answers], ", "))}
	case len(by[Lost]) > 0 && len(by[Given]) < majority:
		return &RefusedError{Forcible: true, Reason: fmt.Sprintf("the node's own directory holds no log that is read, and those of %d of %d voters were given, no majority: "+
			"what only the others had committed would be lost; give more of their data directories with --directory", len(by[Given]), len(members))}
	case len(by[Silent]) > 0:
		return &RefusedError{Forcible: true, Reason: fmt.Sprintf("whether %s are gone cannot be told: they do not answer at their RAFT addresses, and their data directories were not given; "+
			"start them if they can be started, or give copies of their data directories with --directory", strings.Join(by[Silent], ", "))}
	}
	return nil
}

// judgeLineages refuses a recovery beside one that was done elsewhere: two logs would go on from one. own is the lineage of the furthest log,
// above the newest that a directory's controller had heard of beyond it, 0 without one; it is told with the refusal too.
func judgeLineages(own image.LineageNumber, members []Member, sources []Source) (above image.LineageNumber, err error) {
	for _, m := range members {
		if m.Found == Answers && image.LineageNumber(m.Lineage) > own {
			return 0, &RefusedError{Reason: fmt.Sprintf("controller %s runs and knows lineage %d of the log, what was given is of lineage %d: the quorum was recovered there already; "+
				"format this node anew and add it there with `quorate quorum add`", m.ID, m.Lineage, own)}
		}
	}
	for _, s := range sources {
		if s.Superseded == nil || image.LineageNumber(s.Superseded.Lineage) <= own {
			continue
		}
		if l := image.LineageNumber(s.Superseded.Lineage); l > above {
			above = l
			err = &RefusedError{Forcible: true, Reason: fmt.Sprintf("%s is left from lineage %d, and %s has begun lineage %d: go on with that one; what it holds and this does not would be lost",
				s.Path, own, s.Superseded.By, l)}
		}
	}
	return above, err
}
