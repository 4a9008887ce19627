package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/quorate/quorate/fsm/image"
	brokerpb "github.com/quorate/quorate/proto/broker/v1"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// requestsMax is how many requests may be without an answer: one waits at the leader, another ends that wait.
const requestsMax = 2

var (
	// errHung says that the leader does not answer in time.
	errHung = errors.New("replica: no answer in time")
	// errIdle says that a stream has had no partitions for a while.
	errIdle = errors.New("replica: nothing to fetch")
)

// run keeps a stream to the leader until the context ends, or until there is nothing to fetch when the stream ends.
func (f *fetcher) run(ctx context.Context) {
	logger := f.manager.logger.With("leader", f.endpoint.leader, "address", f.endpoint.address)
	pause := time.Duration(0)
	for ctx.Err() == nil {
		answered, err := f.stream(ctx)
		if f.manager.retire(f) {
			return
		}
		if errors.Is(err, errIdle) {
			continue
		}
		if answered {
			pause = 0
		}
		pause = min(max(2*pause, f.manager.cfg.ReconnectMin), f.manager.cfg.ReconnectMax)
		if ctx.Err() == nil {
			logger.Warn("replica fetch stream ended, will open a new one", "in", pause, "error", err)
			sleep(ctx, pause)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// received is what the receiving goroutine hands over.
type received struct {
	response *brokerpb.ReplicaFetchResponse
	err      error
}

// stream opens a stream and works on it until it fails. It tells whether the leader answered anything but a refusal.
func (f *fetcher) stream(ctx context.Context) (answered bool, err error) {
	conn, err := f.manager.dialer.Dial(f.endpoint.address)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The watchdog ends the stream when an answer, or the opening itself, is overdue: also while a send is stuck.
	patience := f.manager.cfg.Wait + f.manager.cfg.AnswerMargin
	watchdog := time.AfterFunc(patience, func() { cancel(errHung) })
	defer watchdog.Stop()
	stream, err := brokerpb.NewReplicaApiClient(conn).Fetch(ctx)
	if err != nil {
		return false, because(ctx, err)
	}
	f.restart()
	answers, done := make(chan received), make(chan struct{})
	go func() {
		defer close(done)
		receiveAnswers(ctx, stream, answers)
	}()
	defer func() {
		cancel(nil)
		<-done
	}()
	w := &work{fetcher: f, stream: stream, watchdog: watchdog, patience: patience}
	err = w.loop(ctx, answers)
	return w.useful, because(ctx, err)
}

// because prefers the reason why a stream's context was ended over what the stream says of it.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func receiveAnswers(ctx context.Context, stream brokerpb.ReplicaApi_FetchClient, answers chan<- received) {
	for {
		response, err := stream.Recv()
		select {
		case answers <- received{response, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// work is one stream's requests and answers. Requests are numbered from 1; answers come in the same order.
type work struct {
	fetcher        *fetcher
	stream         brokerpb.ReplicaApi_FetchClient
	watchdog       *time.Timer
	patience       time.Duration
	sent, answered int64
	// armed: the watchdog runs for the oldest request without an answer.
	armed bool
	// useful: a request was answered that was not refused.
	useful bool
}

func (w *work) loop(ctx context.Context, answers <-chan received) error {
	f := w.fetcher
	idle := time.NewTimer(f.manager.cfg.IdleTimeout)
	defer idle.Stop()
	retry := time.NewTimer(time.Hour)
	defer retry.Stop()
	for {
		retry.Stop()
		if wait := f.resume(); wait > 0 {
			retry.Reset(wait)
		}
		if err := w.request(ctx, answers); err != nil {
			return err
		}
		w.watch()
		select {
		case got := <-answers:
			if got.err != nil {
				return got.err
			}
			if err := w.take(got.response); err != nil {
				return err
			}
		case <-f.wake:
			idle.Reset(f.manager.cfg.IdleTimeout)
		case <-retry.C:
		case <-idle.C:
			if f.isIdle() {
				return errIdle
			}
			idle.Reset(f.manager.cfg.IdleTimeout)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watch lets the watchdog run as long as an answer is due.
func (w *work) watch() {
	switch due := w.sent > w.answered; {
	case due && !w.armed:
		w.watchdog.Reset(w.patience)
		w.armed = true
	case !due:
		w.watchdog.Stop()
		w.armed = false
	}
}

// request sends the next request if there is something to say, or if the leader has answered all and holds partitions.
func (w *work) request(ctx context.Context, answers <-chan received) error {
	if w.sent-w.answered >= requestsMax {
		return nil
	}
	r := w.fetcher.build(w.sent+1, w.sent == w.answered)
	if r == nil {
		return nil
	}
	w.sent++
	w.watch()
	err := w.stream.Send(r)
	if !errors.Is(err, io.EOF) {
		return err
	}
	for { // the stream has ended, and what is received last says why
		select {
		case got := <-answers:
			if got.err != nil {
				return got.err
			}
			if e := got.response.GetError(); e != nil {
				return &controllerpb.RefusedError{Err: e}
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take uses an answer. However long that takes, the leader is not to blame.
func (w *work) take(r *brokerpb.ReplicaFetchResponse) error {
	w.watchdog.Stop()
	w.armed = false
	w.answered++
	if r.GetRequestId() != w.answered {
		return fmt.Errorf("replica: answer to request %d came in place of that to %d", r.GetRequestId(), w.answered)
	}
	if e := r.GetError(); e != nil {
		return &controllerpb.RefusedError{Err: e}
	}
	w.useful = true
	for _, entry := range r.GetPartitions() {
		w.fetcher.use(w.answered, entry)
	}
	return nil
}

// build makes the next request: what is forgotten, and the positions that are news. Without news there is one only if the
// leader holds partitions and nothing else waits there.
func (f *fetcher) build(number int64, alone bool) *brokerpb.ReplicaFetchRequest {
	cfg := &f.manager.cfg
	r := &brokerpb.ReplicaFetchRequest{
		RequestId: number, ReplicaId: int32(cfg.BrokerID), ReplicaBrokerEpoch: int64(cfg.BrokerEpoch()),
		LeaderId: int32(f.endpoint.leader), MaxWaitMs: int32(cfg.Wait.Milliseconds()), MinBytes: 1, MaxBytes: int32(cfg.AnswerBytesMax),
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range f.forgotten {
		r.Forgotten = append(r.Forgotten, &brokerpb.ForgottenPartition{TopicId: id.Topic.Bytes(), Partition: id.Partition})
	}
	f.forgotten = nil
	for len(f.news) > 0 && len(r.Partitions) < cfg.PartitionsPerRequestMax {
		p := f.news[0]
		f.news[0], f.news = nil, f.news[1:]
		p.inNews = false
		if p.gone || p.status != StatusFetching || p.told {
			continue
		}
		p.known, p.told, p.toldIn = true, true, number
		r.Partitions = append(r.Partitions, p.message(cfg.PartitionBytesMax))
	}
	if len(f.news) > 0 {
		r.MaxWaitMs = 0
	}
	if len(r.Partitions)+len(r.Forgotten) == 0 && (!alone || !f.hasSession()) {
		return nil
	}
	return r
}

// hasSession tells whether the leader holds any partition.
func (f *fetcher) hasSession() bool {
	for _, p := range f.partitions {
		if p.known {
			return true
		}
	}
	return false
}

func (p *follow) message(bytesMax int) *brokerpb.FetchPartition {
	m := &brokerpb.FetchPartition{
		TopicId: p.Partition.Topic.Bytes(), Partition: p.Partition.Partition, FetchOffset: p.offset, LogStartOffset: p.logStart,
		CurrentLeaderEpoch: int32(p.LeaderEpoch), MaxBytes: int32(bytesMax),
	}
	if epoch := int32(p.lastEpoch); p.lastEpoch >= 0 {
		m.LastFetchedEpoch = &epoch
	}
	return m
}

// idOf is the partition that an entry speaks of.
func idOf(e *brokerpb.FetchedPartition) (image.PartitionID, bool) {
	topic, err := image.UUIDFrom(e.GetTopicId())
	return image.PartitionID{Topic: topic, Partition: e.GetPartition()}, err == nil
}
