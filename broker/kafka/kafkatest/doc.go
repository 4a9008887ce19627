// Package kafkatest is an in-memory broker behind a Kafka listener, for tests.
//
// # Purpose
//
// Real clients and crafted requests need something to talk to that stores records, moves leaders and refuses on
// command, without disks, controllers or other brokers.
//
// # Usage
//
//	b := kafkatest.New(1)
//	b.SetBroker(kafkatest.Broker{ID: 1, Host: "127.0.0.1", Port: port})
//	b.CreateTopic("orders", 3, 1)
//	s := kafka.NewServer(cfg, b.Kafka(), clock, log, nil)
//	b.OnChange(s.Notify)
//
// # Guarantees
//
// A partition appends, reads and judges sequences as a leader does, and keeps everything. Its image is a real one.
//
// # Goroutines
//
// The package starts none; all methods may be called from any goroutine.
package kafkatest
