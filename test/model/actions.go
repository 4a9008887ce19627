package model

import (
	"fmt"
	"strings"

	"github.com/quorate/quorate/fsm/image"
)

// kind is what happens in a step.
type kind uint8

const (
	doApply kind = iota
	doApplyNewest
	doProduce
	doFetch
	doFetchLost
	doFetchLate
	doAnswerLate
	doArrive
	doRequest
	doAnswer
	doLose
	doResend
	doRepeat
	doLag
	doForget
	doHeartbeat
	doRegister
	doRegisterLost
	doStop
	doExit
	doFence
	doFailover
	doCommit
	doLand
	doCrash
	doPreferred
	doElect
	doMove
	doConfigure
)

// action is a step that may be possible: its kind, a broker or a place among the messages, a partition.
type action struct {
	kind kind
	a, b int8
}

// String is the action as a transcript's verb.
func (a action) String() string {
	part := ""
	if a.b > 0 {
		part = fmt.Sprintf(" part=%d", a.b)
	}
	switch a.kind {
	case doApply:
		return fmt.Sprintf("apply broker=%d", a.a)
	case doApplyNewest:
		return fmt.Sprintf("apply broker=%d newest", a.a)
	case doProduce:
		return fmt.Sprintf("produce broker=%d%s", a.a, part)
	case doFetch:
		return fmt.Sprintf("fetch from=%d%s", a.a, part)
	case doFetchLost:
		return fmt.Sprintf("fetch from=%d%s answer-lost", a.a, part)
	case doFetchLate:
		return fmt.Sprintf("fetch from=%d%s late", a.a, part)
	case doAnswerLate:
		return fmt.Sprintf("fetch from=%d%s answer-late", a.a, part)
	case doArrive:
		return "arrive"
	case doRequest:
		return fmt.Sprintf("request %d", a.a+1)
	case doAnswer:
		return fmt.Sprintf("answer %d", a.a+1)
	case doLose:
		return fmt.Sprintf("lose %d", a.a+1)
	case doResend:
		return fmt.Sprintf("resend broker=%d%s", a.a, part)
	case doRepeat:
		return fmt.Sprintf("repeat broker=%d%s", a.a, part)
	case doLag:
		return fmt.Sprintf("lag broker=%d%s", a.a, part)
	case doForget:
		return fmt.Sprintf("timer broker=%d%s", a.a, part)
	case doHeartbeat:
		return fmt.Sprintf("heartbeat id=%d", a.a)
	case doRegister:
		return fmt.Sprintf("register id=%d", a.a)
	case doRegisterLost:
		return fmt.Sprintf("register id=%d answer-lost", a.a)
	case doStop:
		return fmt.Sprintf("stop broker=%d", a.a)
	case doExit:
		return fmt.Sprintf("exit broker=%d", a.a)
	case doElect:
		return fmt.Sprintf("elect unclean%s", part)
	case doFence:
		return "fence ids=" + maskString(a.a)
	case doCrash:
		return fmt.Sprintf("crash broker=%d %s", a.a, [...]string{"process", "machine", "disk", "directory"}[a.b])
	}
	return map[kind]string{
		doFailover: "claim", doCommit: "commit", doLand: "land", doPreferred: "balance-leaders", doMove: "move", doConfigure: "configure",
	}[a.kind]
}

// maskString lists brokers as a transcript's argument.
func maskString(mask int8) string {
	var ids []string
	for _, id := range brokerIDs {
		if mask>>(id-1)&1 == 1 {
			ids = append(ids, id.String())
		}
	}
	if len(ids) == 1 {
		return ids[0]
	}
	return "(" + strings.Join(ids, ",") + ")"
}

// actions lists what could happen in any world of the model: healing first.
func (m *model) actions() []action {
	list := []action{{doCommit, 0, 0}}
	perBroker := func(k kind) {
		for _, id := range brokerIDs {
			list = append(list, action{k, int8(id), 0})
		}
	}
	perReplica := func(k kind) {
		for _, id := range brokerIDs {
			for part := range m.ids {
				list = append(list, action{k, int8(id), int8(part)})
			}
		}
	}
	perMessage := func(k kind) {
		for i := range messagesMax {
			list = append(list, action{k, int8(i), 0})
		}
	}
	perBroker(doApply)
	perBroker(doApplyNewest)
	perReplica(doFetch)
	perReplica(doProduce)
	perMessage(doRequest)
	perMessage(doAnswer)
	perReplica(doResend)
	perReplica(doForget)
	perBroker(doHeartbeat)
	perBroker(doRegister)
	perBroker(doExit)
	for part := range m.ids {
		list = append(list, action{doElect, 0, int8(part)})
	}
	list = append(list, action{doPreferred, 0, 0}, action{doMove, 0, 0}, action{doConfigure, 0, 0}, action{doArrive, 0, 0}, action{doLand, 0, 0})
	perReplica(doLag)
	for mask := int8(1); mask < 8; mask++ {
		list = append(list, action{doFence, mask, 0})
	}
	list = append(list, action{doFailover, 0, 0})
	perMessage(doLose)
	perReplica(doFetchLost)
	perReplica(doFetchLate)
	perReplica(doAnswerLate)
	perBroker(doRegisterLost)
	perBroker(doStop)
	perReplica(doRepeat)
	for _, id := range brokerIDs {
		for how := range crashKinds {
			list = append(list, action{doCrash, int8(id), int8(how)})
		}
	}
	return list
}

// messagesMax bounds the messages that are looked at in one world; more than a few are never under way.
const messagesMax = 4

// try makes the step, or returns nil if it is not possible or changes nothing that can be seen. The world that it returns
// lives until the next step of any world is tried.
func (w *World) try(a action) *World {
	w.m.forks = 0
	next := w.make(a)
	if next == nil {
		return nil
	}
	return next.settle()
}

// do makes the step as [World.try] does, and returns a world that stays.
func (w *World) do(a action) *World {
	if next := w.try(a); next != nil {
		return next.keep()
	}
	return nil
}

func (w *World) make(a action) *World {
	id, part := image.BrokerID(a.a), int(a.b)
	switch a.kind {
	case doApply:
		return w.apply(id, false)
	case doApplyNewest:
		return w.apply(id, true)
	case doProduce:
		return w.produce(id, part)
	case doFetch:
		return w.fetch(id, part)
	case doFetchLost:
		return w.fetchLost(id, part)
	case doFetchLate:
		return w.fetchLate(id, part)
	case doAnswerLate:
		return w.answerLate(id, part)
	case doArrive:
		return w.arrive()
	case doRequest:
		return w.request(int(a.a))
	case doAnswer:
		return w.answer(int(a.a))
	case doLose:
		return w.lose(int(a.a))
	case doResend:
		return w.resend(id, part, false)
	case doRepeat:
		return w.resend(id, part, true)
	case doLag:
		return w.checkLag(id, part)
	case doForget:
		return w.forget(id, part)
	}
	return w.makeDecision(a)
}

func (w *World) makeDecision(a action) *World {
	id := image.BrokerID(a.a)
	switch a.kind {
	case doHeartbeat:
		return w.heartbeat(id)
	case doRegister:
		return w.register(id, false)
	case doRegisterLost:
		return w.register(id, true)
	case doStop:
		return w.stop(id)
	case doExit:
		return w.exit(id)
	case doElect:
		return w.elect(int(a.b))
	case doFence:
		return w.fence(a.a)
	case doFailover:
		return w.failover()
	case doCommit:
		return w.commitOne()
	case doLand:
		return w.land()
	case doCrash:
		return w.crash(id, crashKind(a.b))
	case doPreferred:
		return w.preferred()
	case doMove:
		return w.move()
	case doConfigure:
		return w.configure()
	}
	return nil
}
