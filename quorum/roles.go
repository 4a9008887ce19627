package quorum

import (
	"strings"

	brokerpb "github.com/quorate/quorate/proto/broker/v1"
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// Role is what a caller of the gRPC listener must be.
type Role string

// The roles of gRPC callers. Authentication does not exist yet: every caller has the principal ANONYMOUS, or
// the one it forwards for, and every role. The table is complete all the same, and a test holds that no method is missing from it.
const (
	RoleController Role = "controller"
	RoleBroker     Role = "broker"
	RoleOperator   Role = "operator"
	RoleReader     Role = "reader"
)

// PrincipalAnonymous is the principal of a caller that has not been authenticated.
const PrincipalAnonymous = "ANONYMOUS"

// MethodRoles tells which role each method of the project's gRPC services asks for.
var MethodRoles = map[string]Role{
	controllerpb.ControllerApi_RegisterController_FullMethodName: RoleController,

	controllerpb.BrokerApi_RegisterBroker_FullMethodName:      RoleBroker,
	controllerpb.BrokerApi_BrokerHeartbeat_FullMethodName:     RoleBroker,
	controllerpb.BrokerApi_AlterPartition_FullMethodName:      RoleBroker,
	controllerpb.BrokerApi_AllocateProducerIds_FullMethodName: RoleBroker,
	controllerpb.BrokerApi_ReportDeletions_FullMethodName:     RoleBroker,
	controllerpb.MetadataStream_Follow_FullMethodName:         RoleBroker,
	brokerpb.ReplicaApi_Fetch_FullMethodName:                  RoleBroker,

	controllerpb.OperatorApi_CreateTopics_FullMethodName:                RoleOperator,
	controllerpb.OperatorApi_DeleteTopics_FullMethodName:                RoleOperator,
	controllerpb.OperatorApi_CreatePartitions_FullMethodName:            RoleOperator,
	controllerpb.OperatorApi_AlterConfigs_FullMethodName:                RoleOperator,
	controllerpb.OperatorApi_ElectLeaders_FullMethodName:                RoleOperator,
	controllerpb.OperatorApi_AlterPartitionReassignments_FullMethodName: RoleOperator,
	controllerpb.OperatorApi_UnregisterBroker_FullMethodName:            RoleOperator,
	controllerpb.OperatorApi_UpdateFeatures_FullMethodName:              RoleOperator,
	controllerpb.OperatorApi_ConfirmLineage_FullMethodName:              RoleOperator,
	controllerpb.OperatorApi_AddController_FullMethodName:               RoleOperator,
	controllerpb.OperatorApi_RemoveController_FullMethodName:            RoleOperator,
	controllerpb.OperatorApi_TransferLeadership_FullMethodName:          RoleOperator,

	controllerpb.ReaderApi_DescribeTopics_FullMethodName:      RoleReader,
	controllerpb.ReaderApi_ListBrokers_FullMethodName:         RoleReader,
	controllerpb.ReaderApi_ListReassignments_FullMethodName:   RoleReader,
	controllerpb.ReaderApi_DescribeConfigs_FullMethodName:     RoleReader,
	controllerpb.ReaderApi_ListDeletions_FullMethodName:       RoleReader,
	controllerpb.ReaderApi_CheckStop_FullMethodName:           RoleReader,
	controllerpb.ReaderApi_ReadLog_FullMethodName:             RoleReader,
	controllerpb.ReaderApi_ReadHistory_FullMethodName:         RoleReader,
	controllerpb.ReaderApi_DumpImage_FullMethodName:           RoleReader,
	controllerpb.ReaderApi_NodeStatus_FullMethodName:          RoleReader,
	controllerpb.ReaderApi_WaitMetadata_FullMethodName:        RoleReader,
	brokerpb.ReplicaStatusApi_DescribeReplicas_FullMethodName: RoleReader,
	controllerpb.ReaderApi_DescribeFeatures_FullMethodName:    RoleReader,
}

// isOpen tells whether a method belongs to a service that everyone may call.
func isOpen(method string) bool {
	return strings.HasPrefix(method, "/grpc.health.v1.") || strings.HasPrefix(method, "/grpc.reflection.")
}
