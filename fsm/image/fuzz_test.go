package image

import (
	"errors"
	"testing"

	"github.com/quorate/quorate/fsm/record"
)

// FuzzReplay gives any record to an image, one after the other, as a log and as a snapshot would: it is refused with
// ErrReplay or a fault of decoding and leaves what was there, or all that is derived equals a scan. Input is records,
// each behind its length in one byte.
func FuzzReplay(f *testing.F) {
	start := imageOf(f, "feature name=metadata.version level=1", "register id=1 directory=1 fenced=false", "register id=2 directory=2", "register id=3 directory=3 fenced=false",
		"topic name=old id=9", "partition topic=old n=0 replicas=1,2 isr=1", "remove topic=old",
		"topic name=t.a id=1", "partition topic=t.a n=0 replicas=1,2 isr=2,1 leader=1 le=3", "partition topic=t.a n=1 replicas=2,1,3,70000,5 isr= elr=2 last=2",
		"config type=TOPIC of=t.a key=k value=v")
	for _, lines := range [][]string{
		{"change topic=t.a n=0 isr=1", "change topic=t.a n=0 replicas=1,2,3 adding=3 original=1,2", "change topic=t.a n=1 leader=2 isr=2 elr= last="},
		{"remove topic=t.a", "deleted id=1 topic=1", "failed id=2 topic=9 failure=x", "unregister id=2"},
		{"topic name=t_a id=4", "partition topic=4 n=0 replicas=1 isr=1 leader=1", "broker id=2 fenced=false", "broker id=1 stopping=true"},
		{"config type=BROKER of= key=min.insync.replicas value=2", "feature name=eligible.leader.replicas.version level=1", "producer-ids next=7", "register id=1 incarnation=8 directory=8"},
	} {
		var in []byte
		for _, l := range lines {
			raw, err := record.Encode(parseRecord(f, start, l))
			if err != nil {
				f.Fatal(err)
			}
			in = append(append(in, byte(len(raw))), raw...)
		}
		f.Add(false, in)
	}
	var whole []byte
	for raw := range start.EncodedRecords() {
		whole = append(append(whole, byte(len(raw))), raw...)
	}
	f.Add(true, whole)
	f.Fuzz(func(t *testing.T, snapshot bool, in []byte) {
		im, d := start, start.Fork()
		if snapshot {
			im, d = Empty(), Load()
		}
		for len(in) > 0 {
			n := min(int(in[0]), len(in)-1)
			raw := in[1 : 1+n]
			in = in[1+n:]
			err := d.ReplayEncoded(im.Offset()+1, raw)
			if err != nil && !errors.Is(err, ErrReplay) && !errors.Is(err, record.ErrMalformed) && !errors.Is(err, record.ErrUnknown) {
				t.Fatalf("neither fault of replay nor of decoding: %v", err)
			}
			if snapshot {
				if err != nil {
					return // a snapshot is taken whole or not at all
				}
				continue
			}
			if err == nil {
				im = d.Seal(im.Offset()+1, 0)
			}
			d = im.Fork()
		}
		if snapshot {
			im = d.Seal(0, 0)
		}
		checkDerived(t, im)
		if again := reload(t, im); dump(t, again) != dump(t, im) {
			t.Fatalf("reloaded\n%v\noriginal\n%v", again, im)
		}
	})
}
