package client

import (
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// foreignError says which other cluster a controller is of.
type foreignError struct{ message string }

func (e foreignError) Error() string { return "client: " + e.message }

// silence says what is known of an address that gave no status: that nothing listens there, that what listens is not what was
// looked for, or nothing. gRPC tells these cases apart in its text only.
func silence(err error) string {
	var foreign foreignError
	if errors.As(err, &foreign) {
		return foreign.message
	}
	s, _ := status.FromError(err)
	text := s.Message()
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(text, w) {
				return true
			}
		}
		return false
	}
	switch {
	case has("use of closed", "i/o timeout", "deadline exceeded"):
		return "does not answer" // it took the connection, or did not, and this side gave up
	case s.Code() == codes.Unimplemented && !has("unexpected HTTP status"):
		return "answers, but knows no question of a node: see whether the port is that of another program"
	case s.Code() == codes.Unimplemented, has("server preface", "frame header looked like", "broken pipe", "connection reset", "EOF"):
		return "takes connections, but does not talk as a GRPC listener does: see whether the port is that of another one"
	case has("connection refused"):
		return "does not answer: nothing listens there"
	case has("no such host"):
		return "does not answer: the name is not known"
	}
	return "does not answer"
}
