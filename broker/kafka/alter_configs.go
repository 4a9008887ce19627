package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// configsWaitMillis is the time-out of changes of configs and of unregistrations: their requests bear none.
const configsWaitMillis = 30_000

// alterConfigs replaces the whole set of each resource's configs, as Kafka's older call does. It is judged and answered as
// incrementalAlterConfigs.
func (s *Server) alterConfigs(r *request) {
	req := r.body.(*kmsg.AlterConfigsRequest)
	ask := &controllerpb.AlterConfigsRequest{ValidateOnly: req.ValidateOnly, RequestId: newRequestID(s.backend.Metadata.BrokerID())}
	for _, res := range req.Resources {
		out := &controllerpb.AlterableResource{Type: metadatapb.ResourceType(res.ResourceType), Name: res.ResourceName, Replace: true}
		for _, c := range res.Configs {
			out.Changes = append(out.Changes, &controllerpb.ConfigChange{
				Name: c.Name, Operation: controllerpb.ConfigOperation_CONFIG_OPERATION_SET, Value: c.Value,
			})
		}
		ask.Resources = append(ask.Resources, out)
	}
	s.forward(r, configsWaitMillis, func(ctx context.Context) {
		resp := response[*kmsg.AlterConfigsResponse](r)
		resp.Resources = make([]kmsg.AlterConfigsResponseResource, 0, len(req.Resources))
		for i, err := range s.changeConfigs(ctx, r, ask) {
			out := kmsg.NewAlterConfigsResponseResource()
			out.ResourceType, out.ResourceName = req.Resources[i].ResourceType, req.Resources[i].ResourceName
			out.ErrorCode, out.ErrorMessage = codeOf(err), messageOf(err)
			resp.Resources = append(resp.Resources, out)
		}
		r.reply(resp)
	})
}

// changeConfigs asks the controller and waits until the changes can be seen. It returns one error, or nil, a resource.
func (s *Server) changeConfigs(ctx context.Context, r *request, ask *controllerpb.AlterConfigsRequest) []error {
	errs := make([]error, len(ask.GetResources()))
	if len(errs) == 0 {
		return errs
	}
	answer, err := s.backend.Admin.AlterConfigs(ctx, r.caller, ask)
	failure := s.outcome(ctx, answer, err, ask.GetValidateOnly(), anyDone(answer.GetResources()))
	for i := range errs {
		errs[i] = itemOutcome(i, answer.GetResources(), failure)
	}
	return errs
}
