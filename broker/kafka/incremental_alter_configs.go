package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	controllerpb "github.com/quorate/quorate/proto/controller/v1"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

// incrementalAlterConfigs forwards changes of topics' and brokers' configs to the active controller (KIP-339), which judges
// everything but this: no answer in time, or none that is certain, is REQUEST_TIMED_OUT, which means "perhaps done".
//
// Any broker takes changes of any broker's configs: they live in the metadata log. The throttles that reassignment tools
// set and delete are stored, and slow nothing down. The answer waits as that of createTopics does.
func (s *Server) incrementalAlterConfigs(r *request) {
	req := r.body.(*kmsg.IncrementalAlterConfigsRequest)
	ask := &controllerpb.AlterConfigsRequest{ValidateOnly: req.ValidateOnly, RequestId: newRequestID(s.backend.Metadata.BrokerID())}
	for _, res := range req.Resources {
		out := &controllerpb.AlterableResource{Type: metadatapb.ResourceType(res.ResourceType), Name: res.ResourceName}
		for _, c := range res.Configs {
			out.Changes = append(out.Changes, &controllerpb.ConfigChange{Name: c.Name, Operation: operationOf(c.Op), Value: c.Value})
		}
		ask.Resources = append(ask.Resources, out)
	}
	s.forward(r, configsWaitMillis, func(ctx context.Context) {
		resp := response[*kmsg.IncrementalAlterConfigsResponse](r)
		resp.Resources = make([]kmsg.IncrementalAlterConfigsResponseResource, 0, len(req.Resources))
		for i, err := range s.changeConfigs(ctx, r, ask) {
			out := kmsg.NewIncrementalAlterConfigsResponseResource()
			out.ResourceType, out.ResourceName = req.Resources[i].ResourceType, req.Resources[i].ResourceName
			out.ErrorCode, out.ErrorMessage = codeOf(err), messageOf(err)
			resp.Resources = append(resp.Resources, out)
		}
		r.reply(resp)
	})
}

// operationOf is the controller's number of an operation; what Kafka does not know is unspecified, which is refused.
func operationOf(op kmsg.IncrementalAlterConfigOp) controllerpb.ConfigOperation {
	switch op {
	case kmsg.IncrementalAlterConfigOpSet:
		return controllerpb.ConfigOperation_CONFIG_OPERATION_SET
	case kmsg.IncrementalAlterConfigOpDelete:
		return controllerpb.ConfigOperation_CONFIG_OPERATION_DELETE
	case kmsg.IncrementalAlterConfigOpAppend:
		return controllerpb.ConfigOperation_CONFIG_OPERATION_APPEND
	case kmsg.IncrementalAlterConfigOpSubtract:
		return controllerpb.ConfigOperation_CONFIG_OPERATION_SUBTRACT
	}
	return controllerpb.ConfigOperation_CONFIG_OPERATION_UNSPECIFIED
}
