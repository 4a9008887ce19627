package client

import (
	controllerpb "github.com/quorate/quorate/proto/controller/v1"
)

// Repeat says how often a request that was sent and not answered may be sent again.
type Repeat int

const (
	// RepeatNever: a second execution would be a second change.
	RepeatNever Repeat = iota
	// RepeatOnce: a change that is recognised when it comes again, by ids or epochs that it carries.
	RepeatOnce
	// RepeatAlways: a read.
	RepeatAlways
)

// repeats lists the methods that may be repeated; the others may not.
var repeats = map[string]Repeat{
	controllerpb.BrokerApi_RegisterBroker_FullMethodName:  RepeatOnce, // by incarnation id
	controllerpb.BrokerApi_BrokerHeartbeat_FullMethodName: RepeatOnce,
	// AlterPartition carries the partition epoch it rests on: once done, a repetition is answered with the state reached.
	controllerpb.BrokerApi_AlterPartition_FullMethodName:         RepeatOnce,
	controllerpb.BrokerApi_AllocateProducerIds_FullMethodName:    RepeatOnce, // at worst a block of ids is lost
	controllerpb.BrokerApi_ReportDeletions_FullMethodName:        RepeatOnce,
	controllerpb.ControllerApi_RegisterController_FullMethodName: RepeatOnce,
	controllerpb.OperatorApi_CreateTopics_FullMethodName:         RepeatOnce, // by topic ids and request id
	// A value that is set twice, or a target, is the same value and target; a cancel that was carried out is refused.
	controllerpb.OperatorApi_AlterConfigs_FullMethodName:                RepeatOnce,
	controllerpb.OperatorApi_AlterPartitionReassignments_FullMethodName: RepeatOnce,
	// Who is a member, or is none, or is active, is so when asked again.
	controllerpb.OperatorApi_AddController_FullMethodName:      RepeatOnce,
	controllerpb.OperatorApi_RemoveController_FullMethodName:   RepeatOnce,
	controllerpb.OperatorApi_TransferLeadership_FullMethodName: RepeatOnce,
	controllerpb.OperatorApi_UpdateFeatures_FullMethodName:     RepeatOnce, // a level that is reached is not written again
	controllerpb.OperatorApi_ConfirmLineage_FullMethodName:     RepeatOnce,
	controllerpb.ReaderApi_ListReassignments_FullMethodName:    RepeatAlways,
	controllerpb.ReaderApi_DescribeConfigs_FullMethodName:      RepeatAlways,
	controllerpb.ReaderApi_DescribeFeatures_FullMethodName:     RepeatAlways,
	controllerpb.ReaderApi_ListDeletions_FullMethodName:        RepeatAlways,
	controllerpb.ReaderApi_CheckStop_FullMethodName:            RepeatAlways,
	controllerpb.ReaderApi_ReadLog_FullMethodName:              RepeatAlways,
	controllerpb.ReaderApi_ReadHistory_FullMethodName:          RepeatAlways,
	controllerpb.ReaderApi_DescribeTopics_FullMethodName:       RepeatAlways,
	controllerpb.ReaderApi_ListBrokers_FullMethodName:          RepeatAlways,
	controllerpb.ReaderApi_DumpImage_FullMethodName:            RepeatAlways,
	controllerpb.ReaderApi_NodeStatus_FullMethodName:           RepeatAlways,
	controllerpb.ReaderApi_WaitMetadata_FullMethodName:         RepeatAlways,
}

// mayRepeat decides for one request. One that only validates is a read. A create is recognised when it comes again only
// if it brings its topic ids, and a cancel never.
func mayRepeat(method string, request any) Repeat {
	if r, ok := request.(interface{ GetValidateOnly() bool }); ok && r.GetValidateOnly() {
		return RepeatAlways
	}
	switch r := request.(type) {
	case *controllerpb.CreateTopicsRequest:
		for _, t := range r.GetTopics() {
			if len(t.GetTopicId()) == 0 {
				return RepeatNever
			}
		}
	case *controllerpb.TransferLeadershipRequest:
		if r.ControllerId == nil {
			return RepeatNever // it would be handed on a second time
		}
	case *controllerpb.AlterPartitionReassignmentsRequest:
		for _, p := range r.GetPartitions() {
			if p.GetReplicas() == nil {
				return RepeatNever
			}
		}
	}
	return repeats[method]
}
