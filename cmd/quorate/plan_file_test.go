package main

import (
	"encoding/json"
	"testing"
)

// FuzzPlan: whatever a plan file holds, it is a plan or a place in the file.
func FuzzPlan(f *testing.F) {
	for _, text := range plans {
		f.Add([]byte(text))
	}
	f.Add([]byte(`{"version":1,"Partitions":[{"Topic":"a","partition":0}]}`))
	f.Add([]byte(`{"version":1,"partitions":null,"partitions":[null]}`))
	f.Add([]byte(`{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1]}],"partitions":{}}`))
	f.Add([]byte(`null`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, data []byte) {
		moves, at, err := parsePlan(data)
		if err == nil && (len(moves) == 0 || !json.Valid(data)) {
			t.Errorf("%d moves of %q", len(moves), data)
		}
		if line, column := position(data, at); line < 1 || column < 1 {
			t.Errorf("line %d, column %d", line, column)
		}
	})
}
