package kafka_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quorate/quorate/fsm/image"
)

func featureUpdates(pairs ...any) *kmsg.UpdateFeaturesRequest {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	for i := 0; i < len(pairs); i += 3 {
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType = pairs[i].(string), int16(pairs[i+1].(int)), int8(pairs[i+2].(int))
		req.FeatureUpdates = append(req.FeatureUpdates, u)
	}
	return req
}

// Levels are finalized by every version, and ApiVersions tells them with the offset they were read at.
func TestUpdateFeaturesOverKafka(t *testing.T) {
	const elr = image.FeatureEligibleLeaderReplicas
	r := start(t)
	w := r.dial()
	finalized := func(version int16) string {
		req := at(kmsg.NewPtrApiVersionsRequest(), version)
		req.ClientSoftwareName, req.ClientSoftwareVersion = "kafka-test", "1.0"
		resp := do[*kmsg.ApiVersionsResponse](w, req)
		if want := int64(r.b.Image().Offset()); version >= 3 && resp.FinalizedFeaturesEpoch != want {
			t.Errorf("v%d: finalized features epoch %d, want %d", version, resp.FinalizedFeaturesEpoch, want)
		}
		text := "supported"
		for _, f := range resp.SupportedFeatures {
			text += fmt.Sprintf(" %s=%d-%d", f.Name, f.MinVersion, f.MaxVersion)
		}
		text += " finalized"
		for _, f := range resp.FinalizedFeatures {
			text += fmt.Sprintf(" %s=%d-%d", f.Name, f.MinVersionLevel, f.MaxVersionLevel)
		}
		return text
	}
	if got, want := finalized(4), "supported eligible.leader.replicas.version=0-1 metadata.version=1-1 finalized"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	update := func(version int16, req *kmsg.UpdateFeaturesRequest, code int16) {
		t.Helper()
		resp := do[*kmsg.UpdateFeaturesResponse](w, at(req, version))
		if resp.ErrorCode != code || (len(resp.Results) == len(req.FeatureUpdates)) != (version < 2) {
			t.Errorf("v%d: %+v, want code %d", version, resp, code)
		}
		for _, res := range resp.Results {
			if res.ErrorCode != code {
				t.Errorf("v%d: %+v, want code %d", version, res, code)
			}
		}
	}
	dry := featureUpdates(elr, 1, 1)
	dry.ValidateOnly = true
	update(1, dry, 0)
	update(2, featureUpdates(elr, 2, 1), kerr.InvalidUpdateVersion.Code)
	if got := r.b.Image().Feature(elr); got != 0 {
		t.Errorf("level %d though nothing was changed", got)
	}
	update(2, featureUpdates(elr, 1, 1), 0)
	update(1, featureUpdates(elr, 0, 1), kerr.InvalidUpdateVersion.Code)
	for version, want := range map[int16]string{
		0: "supported finalized", 2: "supported finalized", 3: "supported metadata.version=1-1 finalized " + elr + "=1-1",
		4: "supported " + elr + "=0-1 metadata.version=1-1 finalized " + elr + "=1-1",
	} {
		if got := finalized(version); got != want {
			t.Errorf("v%d: %s, want %s", version, got, want)
		}
	}
	// Version 0 has no kinds of updates: a lower level needs leave.
	old := featureUpdates(elr, 0, 0)
	update(0, old, kerr.InvalidUpdateVersion.Code)
	old.FeatureUpdates[0].AllowDowngrade = true
	update(0, old, 0)
	if got := r.b.Image().Feature(elr); got != 0 {
		t.Errorf("level %d after the downgrade", got)
	}
	r.b.Refuse = func() error { return errors.New("nobody") }
	update(2, featureUpdates(elr, 1, 1), kerr.RequestTimedOut.Code)
}
