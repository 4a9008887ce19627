package quorum_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/fsm/image"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	"github.com/quorate/quorate/quorum/quorumtest"
)

const (
	upgrade   = controllerpb.FeatureUpdateType_FEATURE_UPDATE_TYPE_UPGRADE
	downgrade = controllerpb.FeatureUpdateType_FEATURE_UPDATE_TYPE_SAFE_DOWNGRADE
)

func features(t *testing.T, c *quorumtest.Cluster) (map[string]*controllerpb.FeatureDescription, int64) {
	t.Helper()
	r, err := controllerpb.NewReaderApiClient(c.Client).DescribeFeatures(soon(t), &controllerpb.DescribeFeaturesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*controllerpb.FeatureDescription{}
	for _, f := range r.GetFeatures() {
		all[f.GetName()] = f
	}
	return all, r.GetMetadataOffset()
}

// A level is checked against every node, written once, seen by the next read, and gates registrations from then on. What
// is refused or only validated leaves no record.
func TestUpdateFeatures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quorumtest.Start(t, quorumtest.Options{})
		c.RegisterBroker(t, 1)
		api := controllerpb.NewOperatorApiClient(c.Client)
		update := func(level int32, kind controllerpb.FeatureUpdateType, dry bool) (*controllerpb.UpdateFeaturesResponse, error) {
			return api.UpdateFeatures(soon(t), &controllerpb.UpdateFeaturesRequest{ValidateOnly: dry, Updates: []*controllerpb.FeatureUpdate{
				{Name: image.FeatureEligibleLeaderReplicas, Level: level, Type: kind},
			}})
		}
		<-time.After(3 * time.Second) // the controllers' own registrations
		all, before := features(t, c)
		elr := all[image.FeatureEligibleLeaderReplicas]
		if elr.GetFinalizedLevel() != 1 || len(elr.GetNodes()) != 4 || !elr.GetNodes()[0].GetController() || elr.GetNodes()[3].GetMax() != 1 {
			t.Fatalf("at first: %v", all)
		}
		if _, err := update(2, upgrade, false); !quorumtest.Refused(err, controllerpb.ErrorCode_ERROR_CODE_INVALID_UPDATE_VERSION) {
			t.Errorf("level 2: %v", err)
		}
		if r, err := update(0, downgrade, true); err != nil || len(r.GetRecords()) != 1 || r.GetMetadataOffset() != before {
			t.Errorf("validated only: %v, %v; offset before %d", r, err, before)
		}
		if r, err := update(0, downgrade, false); err != nil || r.GetMetadataOffset() != before+1 || len(r.GetUnfencedBrokers()) != 1 {
			t.Errorf("downgrade: %v, %v; offset before %d", r, err, before)
		}
		if r, err := update(0, downgrade, false); err != nil || r.GetMetadataOffset() != before+1 {
			t.Errorf("downgrade again: %v, %v", r, err)
		}
		if all, _ := features(t, c); all[image.FeatureEligibleLeaderReplicas].GetFinalizedLevel() != 0 {
			t.Errorf("after the downgrade: %v", all)
		}
		if _, err := update(1, upgrade, false); err != nil {
			t.Error(err)
		}
		_, before = features(t, c)
		old := c.NewBroker(2, 1)
		old.Registration.Features = old.Registration.Features[1:]
		if _, err := controllerpb.NewBrokerApiClient(c.Client).RegisterBroker(soon(t), old.Registration); !quorumtest.Refused(err, controllerpb.ErrorCode_ERROR_CODE_UNSUPPORTED_VERSION) {
			t.Errorf("a broker that does not declare the feature: %v", err)
		}
		if _, after := features(t, c); after != before {
			t.Errorf("a refused registration was written: offset %d, then %d", before, after)
		}
		c.SameImages(t)
	})
}
