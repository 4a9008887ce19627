package image

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/quorate/quorate/fsm/record"
)

// Contains tells whether the list holds the broker.
func Contains(list []BrokerID, id BrokerID) bool { return slices.Contains(list, id) }

// ContainsAll tells whether the list holds every one of ids.
func ContainsAll(list, ids []BrokerID) bool {
	for _, id := range ids {
		if !slices.Contains(list, id) {
			return false
		}
	}
	return true
}

// Equal tells whether both lists hold the same brokers in the same order.
func Equal(a, b []BrokerID) bool { return slices.Equal(a, b) }

// SameSet tells whether both lists, free of duplicates, hold the same brokers in any order.
func SameSet(a, b []BrokerID) bool { return len(a) == len(b) && ContainsAll(a, b) }

// Without returns a new list without the given brokers, in the order of list.
func Without(list []BrokerID, ids ...BrokerID) []BrokerID {
	out := make([]BrokerID, 0, len(list))
	for _, id := range list {
		if !slices.Contains(ids, id) {
			out = append(out, id)
		}
	}
	return out
}

// With returns a new list that ends with those of ids that list does not hold yet.
func With(list []BrokerID, ids ...BrokerID) []BrokerID {
	out := make([]BrokerID, len(list), len(list)+len(ids))
	copy(out, list)
	for _, id := range ids {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// Intersect returns a new list with those of list that other holds too, in the order of list.
func Intersect(list, other []BrokerID) []BrokerID {
	out := make([]BrokerID, 0, len(list))
	for _, id := range list {
		if slices.Contains(other, id) {
			out = append(out, id)
		}
	}
	return out
}

// HasDuplicates tells whether a broker stands twice in the list.
func HasDuplicates(list []BrokerID) bool {
	for i, id := range list {
		if slices.Contains(list[:i], id) {
			return true
		}
	}
	return false
}

// BrokerIDs converts the numbers of a record.
func BrokerIDs(ids []int32) []BrokerID {
	if len(ids) == 0 {
		return nil
	}
	out := make([]BrokerID, len(ids))
	for i, id := range ids {
		out[i] = BrokerID(id)
	}
	return out
}

// Int32s converts a list to the numbers of a record.
func Int32s(ids []BrokerID) []int32 {
	if len(ids) == 0 {
		return nil
	}
	out := make([]int32, len(ids))
	for i, id := range ids {
		out[i] = int32(id)
	}
	return out
}

// FormatReplicas returns the list as [1,2,3].
func FormatReplicas(ids []BrokerID) string { return string(record.AppendIDs(nil, ids)) }

func compareUUID(a, b UUID) int {
	x, y := binary.BigEndian.Uint64(a[:8]), binary.BigEndian.Uint64(b[:8])
	if x == y {
		x, y = binary.BigEndian.Uint64(a[8:]), binary.BigEndian.Uint64(b[8:])
	}
	return cmp.Compare(x, y)
}
