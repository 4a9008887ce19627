package dev

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/client"
)

// Limits of waiting for a cluster.
const (
	readyWait     = 90 * time.Second
	readyPoll     = 50 * time.Millisecond
	readyzTimeout = time.Second
	readyzBytes   = 1024
)

// awaitReady returns when every node says it is ready and every broker is unfenced.
func (s *supervisor) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	for {
		if p := s.dead(); p != nil {
			return fmt.Errorf("%s; the end of its log:\n%s", p.why(), p.tail())
		}
		waiting := s.notReady(ctx)
		if waiting == "" {
			waiting = s.notUnfenced(ctx)
		}
		if waiting == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			if context.Cause(ctx) != context.DeadlineExceeded {
				return ctx.Err()
			}
			return fmt.Errorf("not ready within %v: %s", readyWait, waiting)
		case <-time.After(readyPoll):
		}
	}
}

// notReady asks the nodes one by one, and says what the first says that is not ready.
func (s *supervisor) notReady(ctx context.Context) string {
	for _, n := range s.cluster.Nodes {
		if why := readyz(ctx, n.Addresses.HTTP); why != "" {
			return fmt.Sprintf("%s %d: %s", n.role(), n.ID, why)
		}
	}
	return ""
}

func readyz(ctx context.Context, address string) string {
	ctx, cancel := context.WithTimeout(ctx, readyzTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return err.Error()
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "not serving yet"
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, readyzBytes))
	switch {
	case err != nil:
		return err.Error()
	case resp.StatusCode != http.StatusOK:
		return strings.TrimSpace(string(body))
	}
	return ""
}

// notUnfenced names the brokers that the active controller's image does not show as unfenced.
func (s *supervisor) notUnfenced(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 2*client.ProbeTimeout)
	defer cancel()
	resp, err := controllerpb.NewReaderApiClient(s.client).ListBrokers(ctx, &controllerpb.ListBrokersRequest{})
	if err != nil {
		return "no active controller yet"
	}
	var unfenced, missing []int
	for _, b := range resp.GetBrokers() {
		if r := b.GetRegistration(); !r.GetFenced() && !r.GetInControlledShutdown() {
			unfenced = append(unfenced, int(r.GetBrokerId()))
		}
	}
	for _, n := range s.cluster.Nodes {
		if n.isBroker() && !slices.Contains(unfenced, n.ID) {
			missing = append(missing, n.ID)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf("brokers %v are fenced", missing)
}
