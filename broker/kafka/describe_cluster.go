package kafka

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Operations that a client may do where nothing forbids them, as bits of Kafka's AclOperation.
const (
	clusterOperations int32 = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
	topicOperations   int32 = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
)

// Endpoint types of KIP-919.
const (
	endpointBrokers     = 1
	endpointControllers = 2
)

// describeCluster lists the brokers (KIP-700). Behaviour, in order:
//   - endpoint type controllers: MISMATCHED_ENDPOINT_TYPE; neither brokers nor controllers: UNSUPPORTED_ENDPOINT_TYPE
//   - otherwise cluster id, controller id and brokers as Metadata has them; fenced ones too if asked for (KIP-1073)
func (s *Server) describeCluster(r *request) {
	req := r.body.(*kmsg.DescribeClusterRequest)
	im := s.backend.Metadata.Image()
	resp := response[*kmsg.DescribeClusterResponse](r)
	resp.Brokers = []kmsg.DescribeClusterResponseBroker{}
	resp.ClusterID = s.backend.Metadata.ClusterID()
	if r.version >= 1 && req.EndpointType != endpointBrokers {
		ke := kerr.UnsupportedEndpointType
		if req.EndpointType == endpointControllers {
			ke = kerr.MismatchedEndpointType
		}
		text := "this listener describes brokers, endpoint type 1"
		resp.ErrorCode, resp.ErrorMessage = ke.Code, &text
		r.reply(resp)
		return
	}
	nodes := s.nodes(im, r.version >= 2 && req.IncludeFencedBrokers)
	resp.ControllerID = s.controllerOf(nodes)
	for _, n := range nodes {
		b := kmsg.NewDescribeClusterResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack, b.IsFenced = int32(n.id), n.host, n.port, n.rack, n.fenced
		resp.Brokers = append(resp.Brokers, b)
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations
	}
	r.reply(resp)
}
