package controller

import controllerpb "github.com/quorate/quorate/proto/controller/v1"

// Kafka's error codes, by the names that the rules use.
const (
	codeUnknownTopicOrPartition     = controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_OR_PARTITION
	codeInvalidTopic                = controllerpb.ErrorCode_ERROR_CODE_INVALID_TOPIC_EXCEPTION
	codeUnsupportedVersion          = controllerpb.ErrorCode_ERROR_CODE_UNSUPPORTED_VERSION
	codeTopicAlreadyExists          = controllerpb.ErrorCode_ERROR_CODE_TOPIC_ALREADY_EXISTS
	codeInvalidPartitions           = controllerpb.ErrorCode_ERROR_CODE_INVALID_PARTITIONS
	codeInvalidReplicationFactor    = controllerpb.ErrorCode_ERROR_CODE_INVALID_REPLICATION_FACTOR
	codeInvalidReplicaAssignment    = controllerpb.ErrorCode_ERROR_CODE_INVALID_REPLICA_ASSIGNMENT
	codeInvalidConfig               = controllerpb.ErrorCode_ERROR_CODE_INVALID_CONFIG
	codeNotController               = controllerpb.ErrorCode_ERROR_CODE_NOT_CONTROLLER
	codeInvalidRequest              = controllerpb.ErrorCode_ERROR_CODE_INVALID_REQUEST
	codePolicyViolation             = controllerpb.ErrorCode_ERROR_CODE_POLICY_VIOLATION
	codeFencedLeaderEpoch           = controllerpb.ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH
	codeStaleBrokerEpoch            = controllerpb.ErrorCode_ERROR_CODE_STALE_BROKER_EPOCH
	codeOffsetNotAvailable          = controllerpb.ErrorCode_ERROR_CODE_OFFSET_NOT_AVAILABLE
	codePreferredLeaderNotAvailable = controllerpb.ErrorCode_ERROR_CODE_PREFERRED_LEADER_NOT_AVAILABLE
	codeEligibleLeadersNotAvailable = controllerpb.ErrorCode_ERROR_CODE_ELIGIBLE_LEADERS_NOT_AVAILABLE
	codeElectionNotNeeded           = controllerpb.ErrorCode_ERROR_CODE_ELECTION_NOT_NEEDED
	codeNoReassignmentInProgress    = controllerpb.ErrorCode_ERROR_CODE_NO_REASSIGNMENT_IN_PROGRESS
	codeBrokerIDNotRegistered       = controllerpb.ErrorCode_ERROR_CODE_BROKER_ID_NOT_REGISTERED
	codeInvalidUpdateVersion        = controllerpb.ErrorCode_ERROR_CODE_INVALID_UPDATE_VERSION
	codeUnknownTopicID              = controllerpb.ErrorCode_ERROR_CODE_UNKNOWN_TOPIC_ID
	codeDuplicateBrokerRegistration = controllerpb.ErrorCode_ERROR_CODE_DUPLICATE_BROKER_REGISTRATION
	codeInconsistentClusterID       = controllerpb.ErrorCode_ERROR_CODE_INCONSISTENT_CLUSTER_ID
	codeIneligibleReplica           = controllerpb.ErrorCode_ERROR_CODE_INELIGIBLE_REPLICA
	codeNewLeaderElected            = controllerpb.ErrorCode_ERROR_CODE_NEW_LEADER_ELECTED
	codeInvalidRegistration         = controllerpb.ErrorCode_ERROR_CODE_INVALID_REGISTRATION
	codeInvalidVoterKey             = controllerpb.ErrorCode_ERROR_CODE_INVALID_VOTER_KEY
	codeDuplicateVoter              = controllerpb.ErrorCode_ERROR_CODE_DUPLICATE_VOTER
	codeVoterNotFound               = controllerpb.ErrorCode_ERROR_CODE_VOTER_NOT_FOUND
)
