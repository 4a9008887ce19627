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
	controllerpb.ReaderApi_DescribeTopics_FullMethodName:         RepeatAlways,
	controllerpb.ReaderApi_ListBrokers_FullMethodName:            RepeatAlways,
	controllerpb.ReaderApi_DumpImage_FullMethodName:              RepeatAlways,
	controllerpb.ReaderApi_NodeStatus_FullMethodName:             RepeatAlways,
	controllerpb.ReaderApi_WaitMetadata_FullMethodName:           RepeatAlways,
}

// mayRepeat decides for one request. A create is recognised when it comes again only if it brings its topic ids.
func mayRepeat(method string, request any) Repeat {
	if create, ok := request.(*controllerpb.CreateTopicsRequest); ok {
		for _, t := range create.GetTopics() {
			if len(t.GetTopicId()) == 0 && !create.GetValidateOnly() {
				return RepeatNever
			}
		}
	}
	return repeats[method]
}
