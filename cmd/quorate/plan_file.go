package main

import (
	"bytes"
	"cmp"
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
		Version    *int        `json:"version"`
		Partitions []planEntry `json:"partitions"`
	}
	if err := json.Unmarshal(data, &plan); err != nil {
		var syntax *json.SyntaxError
		var kind *json.UnmarshalTypeError
		switch {
		case errors.As(err, &syntax):
			return nil, int(syntax.Offset) - 1, errors.New(syntax.Error())
		case errors.As(err, &kind):
			return nil, int(kind.Offset) - 1, fmt.Errorf("%s is %s, must be %s", cmp.Or(fieldOf(kind.Field), "the plan"), article(kind.Value), wanted(kind.Type))
		}
		return nil, 0, err
	}
	switch {
	case plan.Version == nil:
		return nil, 0, fmt.Errorf(`field "version" is missing, must be %d`, planVersion)
	case *plan.Version != planVersion:
		return nil, 0, fmt.Errorf(`field "version" is %d, must be %d`, *plan.Version, planVersion)
	case plan.Partitions == nil:
		return nil, 0, errors.New(`field "partitions" is missing: a list of {"topic","partition","replicas"}`)
	case len(plan.Partitions) == 0:
		return nil, 0, errors.New(`field "partitions" is empty: name a partition at least`)
	}
	starts := entryStarts(data)
	if len(starts) != len(plan.Partitions) {
		return nil, 0, errors.New(`field "partitions" must stand there once, as a list`)
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

// fieldOf is a field in the words of the format; empty: the whole document.
func fieldOf(path string) string {
	if path == "" {
		return ""
	}
	return fmt.Sprintf("field %q", path[strings.LastIndexByte(path, '.')+1:])
}

// article puts one before a kind of JSON value, which may have a text behind it.
func article(kind string) string {
	if strings.HasPrefix(kind, "array") || strings.HasPrefix(kind, "object") {
		return "an " + kind
	}
	return "a " + kind
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
		return errors.New(`field "topic" is missing or empty: the name of a topic`)
	case e.Partition == nil:
		return errors.New(`field "partition" is missing: a whole number from 0`)
	case *e.Partition < 0:
		return fmt.Errorf(`field "partition" is %d, must be 0 or more`, *e.Partition)
	case len(e.Replicas) == 0:
		return errors.New(`field "replicas" is missing or empty: a list of broker ids, the preferred leader first`)
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
