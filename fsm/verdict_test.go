package fsm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/quorate/quorate/fsm/image"
	"github.com/quorate/quorate/fsm/record"
)

// TestVerdict runs the transcripts of the verdict: each line of input is a command as the log holds it, each line of
// output the verdict and the state after it. In an entry, what is not given is what the FSM expects.
func TestVerdict(t *testing.T) {
	datadriven.Walk(t, "testdata/verdict", func(t *testing.T, path string) {
		var halts []error
		a := newAuthor(t)
		f := newFSM(t, &halts)
		names := 0
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			a.state = f.State()
			h := a.header()
			n := 1
			for _, arg := range d.CmdArgs {
				var v uint64
				if _, err := fmt.Sscan(arg.Vals[0], &v); err != nil {
					d.Fatalf(t, "%s: %v", arg.Key, err)
				}
				switch arg.Key {
				case "term":
					a.term = v
				case "decided-in":
					h.Term = v
				case "claim":
					h.ClaimIndex = v
				case "seq":
					h.Sequence = v
				case "base":
					h.BaseOffset = image.MetadataOffset(v)
				case "chain":
					h.Chain = image.Chain(v)
				case "time":
					h.TimeMs = int64(v)
				case "records":
					n = int(v)
				default:
					d.Fatalf(t, "unknown argument %s", arg.Key)
				}
			}
			var out any
			switch d.Cmd {
			case "noop":
				a.noop()
				return ""
			case "claim":
				out = f.Apply(a.claim())
			case "entry":
				var encoded []byte
				if n == 0 {
					encoded, _ = record.EncodeEntry(h, nil)
				} else {
					names++
					encoded = encodeEntry(t, h, topicRecord(names, fmt.Sprint("t", names)))
				}
				out = f.Apply(a.append(encoded))
			case "unknown":
				out = f.Apply(a.append([]byte{26, 0}))
			default:
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			return fmt.Sprintf("%d: %s\n%s", a.index, response(out), stateText(f.State()))
		})
	})
}

func response(out any) string {
	switch r := out.(type) {
	case ClaimResult:
		return fmt.Sprintf("claimed index=%d term=%d offset=%d", r.Index, r.Term, r.Image.Offset())
	case EntryResult:
		return strings.TrimSpace(r.Verdict.String() + " " + r.Reason)
	case HaltResult:
		return r.Err.Error()
	}
	return fmt.Sprintf("%T", out)
}

func stateText(s State) string {
	chain := "0"
	if s.Chain != 0 {
		chain = s.Chain.String()
	}
	return fmt.Sprintf("claim=%d/%d expects=%d offset=%d chain=%s time=%d\n", s.ClaimIndex, s.ClaimTerm, s.ExpectedSequence, s.Offset, chain, s.TimeMs)
}
