package controller_test

import (
	"fmt"
	"strings"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/controller"
)

// quorum runs the commands about members. "quorum active=ID" sets them, one a line:
//
//	ID DIRECTORY ADDRESS [voter] [caught-up] [match=N]
func (s *script) quorum() string {
	switch s.d.Cmd {
	case "add-controller":
		req := &controllerpb.AddControllerRequest{
			ControllerId: int32(s.int("id", 0)), DirectoryId: s.directory(), RaftAddress: strings.Trim(s.text("address", ""), `"`),
		}
		d, err := controller.AddController(s.h.view(), s.h.quorum, req)
		out := carryOut(s.h, d, err)
		if err == nil {
			out += fmt.Sprintf("member %s newcomer=%v\n", memberLine(d.Response), s.h.quorum.IsNewcomer(d.Response)) + reasonLines(d.Reasons)
		}
		return out
	case "remove-controller":
		req := &controllerpb.RemoveControllerRequest{
			ControllerId: int32(s.int("id", 0)), DirectoryId: s.directory(), Force: s.has("force"), ValidateOnly: s.has("validate-only"),
		}
		d, err := controller.RemoveController(s.h.view(), s.h.quorum, req)
		out := carryOut(s.h, d, err)
		if err != nil {
			return out
		}
		out += s.wouldWrite(d.Response.Records)
		if d.Response.HandOver {
			out += fmt.Sprintf("hands over to %v first\n", d.Response.Successor.ID)
		}
		if d.Response.WasRemoved {
			out += "was removed before\n"
		}
		return out + reasonLines(d.Reasons)
	case "transfer":
		req := &controllerpb.TransferLeadershipRequest{}
		if s.has("to") {
			to := int32(s.int("to", 0))
			req.ControllerId = &to
		}
		d, err := controller.TransferLeadership(s.h.view(), s.h.quorum, req)
		out := carryOut(s.h, d, err)
		if err == nil {
			out += fmt.Sprintf("to %v\n", d.Response.ID)
		}
		return out
	}
	s.h.quorum = controller.Quorum{Active: image.BrokerID(s.int("active", 0))}
	for _, f := range s.lines() {
		s.h.quorum.Members = append(s.h.quorum.Members, s.member(f))
	}
	return ""
}

func (s *script) member(f []string) controller.QuorumMember {
	m := controller.QuorumMember{DirectoryID: uuid(f[1]), Address: f[2]}
	fmt.Sscan(f[0], &m.ID)
	for _, word := range f[3:] {
		switch {
		case word == "voter":
			m.Voter = true
		case word == "caught-up":
			m.CaughtUp = true
		default:
			if _, err := fmt.Sscanf(word, "match=%d", &m.Match); err != nil {
				s.h.t.Fatalf("%s: %s: %v", s.d.Pos, word, err)
			}
		}
	}
	return m
}

// directory=NAME is an id; directory=short is one that is too short.
func (s *script) directory() []byte {
	switch name := s.text("directory", ""); name {
	case "":
		return nil
	case "short":
		return []byte(name)
	default:
		id := uuid(name)
		return id[:]
	}
}

func memberLine(m controller.QuorumMember) string {
	return fmt.Sprintf("%v directory=%s address=%s", m.ID, strings.TrimRight(string(m.DirectoryID[:]), "\x00"), m.Address)
}
