package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// Run does everything and blocks until the broker has stopped: at the end of ctx or after [Broker.Shutdown] in order,
// by a controlled shutdown; or after a failure, which is returned.
func (b *Broker) Run(ctx context.Context) error {
	if !b.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer close(b.done)
	defer b.client.Close()
	kafkaLn, grpcLn, err := b.listen(ctx)
	if err != nil {
		return err
	}
	if err := b.prepare(); err != nil {
		err = errors.Join(err, kafkaLn.Close())
		if grpcLn != nil {
			err = errors.Join(err, grpcLn.Close())
		}
		return err
	}
	s := b.start(ctx, grpcLn)
	b.attend(ctx, s, kafkaLn)
	return b.stop(s, kafkaLn)
}

// prepare reads what the former life left. No log is opened.
func (b *Broker) prepare() (err error) {
	if b.incarnation, err = newIncarnation(); err != nil {
		return err
	}
	kept, err := b.kept.load()
	if err != nil {
		return err
	}
	b.used.load()
	b.follower.least = kept
	b.keptAt.Store(&kept)
	if b.stopped, err = b.logs.Start(); err != nil {
		return err
	}
	list, err := b.logs.Scan()
	if err != nil {
		return err
	}
	b.onDisk = liveLogs(list)
	b.log.Info("broker starts", "incarnationId", b.incarnation.String(), "stopKind", b.stopped.Kind.String(),
		"previousBrokerEpoch", b.stopped.PreviousBrokerEpoch, "keptLineage", int32(kept.Lineage), "keptOffset", kept.Offset, "logs", len(b.onDisk))
	return nil
}

// stages are the broker's goroutines in the order in which they are stopped.
type stages struct {
	ended    <-chan struct{} // the lifecycle is SHUTTING_DOWN
	life     *stage
	clients  *stage // the KAFKA listener
	metadata *stage // follower, replicas, kept offset
	work     *stage // lag checks, deletion reports, producer ids
	fetches  *stage // replica fetches, both ends; the GRPC listener
	alter    *stage
	logs     *stage
}

// start begins what a broker does before it has a log open: it follows the metadata and registers.
func (b *Broker) start(ctx context.Context, grpcLn net.Listener) *stages {
	s := &stages{
		life: newStage(ctx), clients: newStage(ctx), metadata: newStage(ctx), work: newStage(ctx),
		fetches: newStage(ctx), alter: newStage(ctx), logs: newStage(ctx),
	}
	if grpcLn != nil {
		s.fetches.run(func(ctx context.Context) {
			if err := b.server.run(ctx, grpcLn); err != nil {
				b.fail("GRPC listener", err)
			}
		})
	}
	s.fetches.run(b.fetcher.run)
	s.metadata.run(func(ctx context.Context) {
		if err := b.follower.run(ctx); err != nil {
			b.fail("metadata", err)
		}
	})
	s.metadata.run(b.kept.run)
	ended := make(chan struct{})
	s.ended = ended
	s.life.run(func(context.Context) {
		defer close(ended)
		b.lifecycle.run(ctx)
	})
	return s
}

// attend starts the rest when its time has come, and returns when the lifecycle has ended.
func (b *Broker) attend(ctx context.Context, s *stages, kafkaLn net.Listener) {
	recovery, begun, failed := b.recovery.done(), b.begun.done(), b.failed.done()
	for {
		select {
		case <-recovery:
			recovery = nil
			s.metadata.run(func(ctx context.Context) {
				if err := b.replicas.run(ctx, b.newest, b.begun.fire); err != nil && ctx.Err() == nil {
					b.fail("recovery", err)
				}
			})
		case <-begun:
			begun = nil
			b.serve(s, kafkaLn)
		case <-failed:
			failed = nil
			err := b.firstFailure()
			b.log.Error("the broker stops because of a failure", "error", err)
			if errors.Is(err, ErrNewLineage) { // it acts no more on the metadata, so nothing can be handed over
				b.lifecycle.stopNow.fire()
			} else {
				b.lifecycle.stopAsked.fire()
			}
		case <-s.ended:
			return
		}
	}
}

// serve begins what needs the first image to have been acted on, then asks to be unfenced: requests are served before.
func (b *Broker) serve(s *stages, kafkaLn net.Listener) {
	s.logs.run(func(ctx context.Context) {
		if err := b.logs.Run(ctx); err != nil {
			b.fail("log directory", err)
		}
	})
	s.alter.run(b.alter.Run)
	s.work.run(b.replicas.checkLags)
	s.work.run(b.producerIDs.run)
	s.work.run(func(ctx context.Context) { b.replicas.reportDeletions(ctx, b.reportDeletions) })
	s.clients.run(func(ctx context.Context) {
		if err := b.kafka.Run(ctx, kafkaLn); err != nil {
			b.fail("KAFKA listener", err)
		}
	})
	b.serving.Store(true)
	b.lifecycle.ready.fire()
}

// stop ends everything in order: clients first, and metadata is applied as long as they are served (KAFKA-14296); logs are
// closed after everything that could touch them; the marker of a clean stop comes last.
func (b *Broker) stop(s *stages, kafkaLn net.Listener) error {
	b.server.setReady(false)
	s.clients.stop()
	if !b.serving.Load() {
		_ = kafkaLn.Close()
	}
	s.metadata.stop()
	b.kept.writeOrLog() // what the last image brought
	s.work.stop()
	b.fetcher.stop()
	s.fetches.stop()
	b.replicas.close()
	s.alter.stop()
	s.logs.stop()
	s.life.stop()
	b.env.At("broker.stop.before-logs-closed")
	if err := b.logs.Shutdown(b.epoch()); err != nil {
		b.fail("close the logs", err)
	}
	err := b.firstFailure()
	b.log.Info("broker stopped", "brokerEpoch", b.epoch(), "error", err)
	return err
}

func (b *Broker) firstFailure() error {
	b.failure.Lock()
	defer b.failure.Unlock()
	return b.failure.err
}

// Shutdown asks for a controlled shutdown and waits until Run has returned. If ctx ends first, the broker stops without
// the controller's leave.
func (b *Broker) Shutdown(ctx context.Context) error {
	b.lifecycle.stopAsked.fire()
	select {
	case <-b.done:
		return nil
	case <-ctx.Done():
		b.lifecycle.stopNow.fire()
	}
	<-b.done
	return fmt.Errorf("broker: stopped without the controller's leave: %w", context.Cause(ctx))
}
