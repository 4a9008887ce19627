package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/quorate/quorate/quorum/env"
)

// planVersion is the only version of Kafka's plan format (kafka-reassign-partitions).
const planVersion = 1

// move is a partition and the replicas it shall have.
type move struct {
	partitionName
	replicas []int32
}

// planEntry is one partition of a plan. Log directories are read over: a node has one.
type planEntry struct {
	Topic     *string `json:"topic"`
	Partition *int32  `json:"partition"`
	Replicas  []int32 `json:"replicas"`
}

// readPlan reads a plan file of Kafka's format. What is wrong in it is named with line and column.
func readPlan(files env.FS, name string) ([]move, error) {
	data, err := env.ReadFile(files, name)
	if err != nil {
		return nil, fmt.Errorf("--plan: %w", err)
	}
	moves, at, err := parsePlan(data)
	if err != nil {
		line, column := position(data, at)
		return nil, fmt.Errorf("--plan %s: line %d, column %d: %w; nothing was sent", name, line, column, err)
	}
	return moves, nil
}

// parsePlan returns the moves of a plan, or the byte at which it is wrong.
func parsePlan(data []byte) (moves []move, at int, err error) {
	var plan struct {
		Version    int         `json:"version"`
		Partitions []planEntry `json:"partitions"`
	}
	if err := json.Unmarshal(data, &plan); err != nil {
		var syntax *json.SyntaxError
		var kind *json.UnmarshalTypeError
		switch {
		case errors.As(err, &syntax):
			return nil, int(syntax.Offset) - 1, errors.New(syntax.Error())
		case errors.As(err, &kind):
			return nil, int(kind.Offset) - 1, fmt.Errorf("%s is %s, which does not fit; want %s", kind.Field, kind.Value, wanted(kind.Type))
		}
		return nil, 0, err
	}
	if plan.Version != planVersion {
		return nil, 0, fmt.Errorf("version is %d; the plan format has version %d", plan.Version, planVersion)
	}
	if len(plan.Partitions) == 0 {
		return nil, 0, errors.New(`there are no "partitions"`)
	}
	starts := entryStarts(data)
	if len(starts) != len(plan.Partitions) {
		return nil, 0, errors.New(`"partitions" is not one list`)
	}
	first := map[partitionName]int{}
	for i, e := range plan.Partitions {
		if err := e.check(); err != nil {
			return nil, starts[i], err
		}
		m := move{partitionName{*e.Topic, *e.Partition}, e.Replicas}
		if before, ok := first[m.partitionName]; ok {
			line, column := position(data, starts[before])
			return nil, starts[i], fmt.Errorf("partition %s stands at line %d, column %d already; name it once", m.partitionName, line, column)
		}
		first[m.partitionName] = i
		moves = append(moves, m)
	}
	return moves, 0, nil
}

// wanted is a type of Go in the words of JSON.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	case reflect.Struct:
		return "an object"
	}
	return "a whole number"
}

func (e planEntry) check() error {
	switch {
	case e.Topic == nil || *e.Topic == "":
		return errors.New(`"topic" is missing`)
	case e.Partition == nil:
		return errors.New(`"partition" is missing`)
	case *e.Partition < 0:
		return fmt.Errorf("partition %d is less than 0", *e.Partition)
	case len(e.Replicas) == 0:
		return errors.New(`"replicas" is missing or empty: a list of broker ids, the preferred leader first`)
	}
	return nil
}

// entryStarts finds where each entry of the partitions begins, in data that has been read as a plan. Of keys that come
// twice the last counts, and case does not, as in the reading itself.
func entryStarts(data []byte) (starts []int) {
	d := json.NewDecoder(bytes.NewReader(data))
	if _, err := d.Token(); err != nil { // {
		return nil
	}
	for d.More() {
		key, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return starts
		}
		if name, ok := key.(string); ok && strings.EqualFold(name, "partitions") {
			starts = elementStarts(value, int(d.InputOffset())-len(value))
		}
	}
	return starts
}

// elementStarts finds the elements of an array that stands at a byte.
func elementStarts(array []byte, at int) (starts []int) {
	d := json.NewDecoder(bytes.NewReader(array))
	if _, err := d.Token(); err != nil { // [
		return nil
	}
	for d.More() {
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return starts
		}
		starts = append(starts, at+int(d.InputOffset())-len(value))
	}
	return starts
}

// position is the line and the column, in characters, of a byte; both begin at 1.
func position(data []byte, at int) (line, column int) {
	at = min(max(at, 0), len(data))
	before := data[:at]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte{'\n'}) + 1, utf8.RuneCount(before[start:]) + 1
}
