// Package controllerpb is what controllers and brokers say to each other, to operators and to readers.
//
// # Purpose
//
// The services BrokerApi, OperatorApi, ControllerApi, ReaderApi and MetadataStream, and Kafka's error codes.
//
// # Usage
//
// Generated from the .proto files beside it by make proto. [ErrorCode.KafkaName] and [ErrorCode.Retriable] tell what Kafka's
// clients know about a code.
//
// # Guarantees
//
// Fields are added, never renumbered or renamed; make proto-check holds that.
//
// # Goroutines
//
// None.
package controllerpb
