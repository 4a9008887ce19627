package main

import (
	"fmt"
	"strconv"
	"strings"
)

// partitionName is TOPIC-PARTITION, as Kafka prints it.
type partitionName struct {
	topic     string
	partition int32
}

func (p partitionName) String() string { return fmt.Sprintf("%s-%d", p.topic, p.partition) }

// parsePartitions parses names, of which none may come twice.
func parsePartitions(args []string) ([]partitionName, error) {
	seen := map[partitionName]bool{}
	var out []partitionName
	for _, arg := range args {
		i := strings.LastIndexByte(arg, '-')
		n, err := strconv.ParseUint(arg[i+1:], 10, 31)
		if i <= 0 || err != nil {
			return nil, fmt.Errorf("%q is not a partition: want TOPIC-PARTITION, as in orders-0", arg)
		}
		p := partitionName{arg[:i], int32(n)}
		if seen[p] {
			return nil, fmt.Errorf("partition %s is named twice", p)
		}
		seen[p] = true
		out = append(out, p)
	}
	return out, nil
}

// parseBrokers parses broker ids with a separator, the preferred leader first.
func parseBrokers(flag, v, separator string) ([]int32, error) {
	var out []int32
	for id := range strings.SplitSeq(v, separator) {
		n, err := strconv.ParseUint(id, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is not a broker id in %q", flag, id, v)
		}
		out = append(out, int32(n))
	}
	return out, nil
}
