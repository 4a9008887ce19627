package broker

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestProducerIDsAreFetchedBeforeABlockIsUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		pi := newProducerIDs(func(context.Context) (idBlock, error) {
			n := asked.Add(1)
			return idBlock{(n - 1) * 1000, n * 1000}, nil
		}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		go pi.run(ctx)
		for want := range int64(2500) {
			got, err := pi.Next(ctx)
			if err != nil || got != want {
				t.Fatalf("id %d: got %d, %v", want, got, err)
			}
			synctest.Wait()
			blocks := int64(1)
			for b := int64(0); b < 3; b++ {
				if want >= b*1000+899 {
					blocks = b + 2
				}
			}
			if asked.Load() != blocks {
				t.Fatalf("after id %d: %d blocks asked for, want %d", want, asked.Load(), blocks)
			}
		}
		cancel()
	})
}

func TestProducerIDsFailWhenNoBlockComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		pi := newProducerIDs(func(context.Context) (idBlock, error) {
			asked.Add(1)
			return idBlock{}, errors.New("no controller")
		}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		go pi.run(ctx)
		began := time.Now()
		if _, err := pi.Next(ctx); !errors.Is(err, errNoProducerID) {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(began); waited != producerIDsWaitMax {
			t.Errorf("waited %v", waited)
		}
		if n := asked.Load(); n != 5 { // at 0, 50, 150, 350 and 750 ms
			t.Errorf("asked %d times in %v", n, producerIDsWaitMax)
		}
		time.Sleep(time.Minute)
		if n := asked.Load(); n < 60 || n > 66 {
			t.Errorf("asked %d times in a minute, want once a second", n)
		}
		cancel()
	})
}
