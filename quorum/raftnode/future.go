package raftnode

import (
	"context"
	"errors"
	"reflect"

	"github.com/hashicorp/raft"
)

// Futures of the library may never resolve: those that lie in a queue when the main loop ends are answered by nobody
// (hashicorp/raft GH-498), and whoever waits for one waits for ever. The library has the means against it, a channel
// in the future that Error selects on, but sets it for some futures only. bindFuture sets it for ours.
//
// It must be called before Error and by the goroutine that got the future. It tells whether the future has such a
// channel; futures that are born resolved have none. A test holds that those of Apply do.
func bindFuture(f raft.Future, stopped chan struct{}) bool {
	v := reflect.ValueOf(f)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return false
	}
	field := v.Elem().FieldByName("ShutdownCh")
	if !field.IsValid() || !field.CanSet() || field.Type() != reflect.TypeOf(stopped) {
		return false
	}
	field.Set(reflect.ValueOf(stopped))
	return true
}

// await starts a request, which may block as well, and waits until it resolves, the node has stopped or the context ends.
// What is left then is one goroutine, which ends when the future resolves or the node has stopped; Close waits for it.
func (n *Node) await(ctx context.Context, start func(*raft.Raft) raft.Future) error {
	r := n.running()
	done := make(chan error, 1)
	ok := n.goWaiter(func() {
		f := start(r)
		bindFuture(f, n.raftEnded)
		done <- f.Error()
	})
	if !ok {
		return ErrStopped
	}
	select {
	case err := <-done:
		if errors.Is(err, raft.ErrRaftShutdown) {
			return ErrStopped
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
