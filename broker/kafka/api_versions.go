package kafka

import (
	"regexp"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quorate/quorate/fsm/image"
)

// softwareName is what KIP-511 allows a client to call itself and its version.
var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

// apiVersions tells what is served (KIP-35). Behaviour, in order:
//   - from version 3 on, a client name or version that breaks KIP-511's pattern: INVALID_REQUEST
//   - otherwise the whole table, in the order of keys, and from version 3 on the levels of features that this broker
//     supports and those that are finalized at the offset of its image (KIP-584). Below version 4 a feature that may be
//     at level 0 is left out of the former: clients of that time take its range for malformed (KAFKA-17011)
func (s *Server) apiVersions(r *request) {
	req := r.body.(*kmsg.ApiVersionsRequest)
	resp := response[*kmsg.ApiVersionsResponse](r)
	resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{}
	if r.version >= 3 && !(softwareName.MatchString(req.ClientSoftwareName) && softwareName.MatchString(req.ClientSoftwareVersion)) {
		resp.ErrorCode = kerr.InvalidRequest.Code
		r.reply(resp)
		return
	}
	for i := range s.table.entries {
		resp.ApiKeys = append(resp.ApiKeys, s.table.entries[i].advertise())
	}
	if r.version >= 3 {
		s.addFeatures(r, resp)
	}
	r.reply(resp)
}

func (s *Server) addFeatures(r *request, resp *kmsg.ApiVersionsResponse) {
	for _, f := range image.SupportedFeatures() {
		if f.Min == 0 && r.version < 4 {
			continue
		}
		k := kmsg.NewApiVersionsResponseSupportedFeature()
		k.Name, k.MinVersion, k.MaxVersion = f.Name, int16(f.Min), int16(f.Max)
		resp.SupportedFeatures = append(resp.SupportedFeatures, k)
	}
	im := s.backend.Metadata.Image()
	resp.FinalizedFeaturesEpoch = int64(im.Offset())
	for name, level := range im.Features() {
		k := kmsg.NewApiVersionsResponseFinalizedFeature()
		k.Name, k.MinVersionLevel, k.MaxVersionLevel = name, int16(level), int16(level)
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, k)
	}
}

// answerTooNew answers a version of ApiVersions that is not served: UNSUPPORTED_VERSION in the form of version 0,
// which every client can read, with the versions of this key. The request's body is not looked at. A closed
// connection instead would lock new clients out.
func answerTooNew(_ *Server, r *request) {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.SetVersion(0)
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{r.entry.advertise()}
	r.reply(resp)
}

func (e *entry) advertise() kmsg.ApiVersionsResponseApiKey {
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = e.key, e.advertisedMin, e.max
	return k
}
