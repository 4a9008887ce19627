package kafka_test

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/broker/kafka/kafkatest"
)

// BenchmarkProducePipelined is one connection that keeps 32 produce requests of 1 KiB under way, acks 1.
func BenchmarkProducePipelined(b *testing.B) {
	r := start(b)
	r.b.CreateTopic("t", 1, 1)
	w := r.dial()
	raw := frame(produceTo(9, 1, "t", 0, batch(-1, -1, -1, strings.Repeat("x", 1024))), 1)
	b.SetBytes(int64(len(raw)))
	const window = 32
	sent, received := 0, 0
	for b.Loop() {
		w.write(raw)
		if sent++; sent-received >= window {
			if _, _, err := w.receive(); err != nil {
				b.Fatal(err)
			}
			received++
		}
	}
	for ; received < sent; received++ {
		if _, _, err := w.receive(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMetadata is the answer for 100 topics of 10 partitions.
func BenchmarkMetadata(b *testing.B) {
	r := start(b)
	r.b.SetBroker(kafkatest.Broker{ID: 2, Host: "h", Port: 1})
	for i := range 100 {
		r.b.CreateTopic(strings.Repeat("t", i+1), 10, 1, 2)
	}
	w := r.dial()
	raw := frame(allTopics(), 1)
	for b.Loop() {
		w.write(raw)
		if _, _, err := w.receive(); err != nil {
			b.Fatal(err)
		}
	}
}
