package quorum

import (
	"errors"
	"strings"
	"testing"

	"github.com/quorate/quorate/quorum/controller"
)

// TestWhatBecameOfOneThatIsLate: a voter under a new address is not taken out.
func TestWhatBecameOfOneThatIsLate(t *testing.T) {
	m := controller.QuorumMember{ID: 1003, Address: "c3:9293"}
	for _, c := range []struct {
		voter bool
		err   error
		want  string
	}{
		{false, nil, "it was taken out again"},
		{true, nil, "it is a voter as before, now under the address c3:9293"},
		{false, errors.New("lost"), "could not be taken out again (lost): `quorate quorum remove 1003` does"},
	} {
		if got := becameOf(m, c.voter, c.err); !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
