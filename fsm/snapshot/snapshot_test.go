package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand"
	"strings"
	"testing"
	"testing/iotest"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/fsm/image"
	metadatapb "github.com/quorate/quorate/proto/metadata/v1"
)

func id(n byte) []byte { return bytes.Repeat([]byte{n}, 16) }

// fixture returns an image with an element of each kind.
func fixture(t testing.TB, partitions int) *image.Image {
	t.Helper()
	d := image.Empty().Fork()
	offset := image.NoOffset
	replay := func(r *metadatapb.Record) {
		t.Helper()
		offset++
		if err := d.Replay(offset, r); err != nil {
			t.Fatal(err)
		}
	}
	value, leader := "2", int32(1)
	replay(&metadatapb.Record{Kind: &metadatapb.Record_FeatureLevel{FeatureLevel: &metadatapb.FeatureLevel{Name: image.FeatureMetadataVersion, Level: 1}}})
	for b := range int32(3) {
		replay(&metadatapb.Record{Kind: &metadatapb.Record_RegisterBroker{RegisterBroker: &metadatapb.RegisterBroker{
			BrokerId: b + 1, IncarnationId: id(1), DirectoryId: id(2), BrokerEpoch: int64(offset) + 1,
			Listeners: []*metadatapb.Listener{{Name: "KAFKA", Host: "h", Port: 9092}}}}})
	}
	replay(&metadatapb.Record{Kind: &metadatapb.Record_RegisterController{RegisterController: &metadatapb.RegisterController{
		ControllerId: 1, IncarnationId: id(3), DirectoryId: id(4)}}})
	replay(&metadatapb.Record{Kind: &metadatapb.Record_RemovedController{RemovedController: &metadatapb.RemovedController{
		ControllerId: 2, DirectoryId: id(5), RemovedAtMs: 9}}})
	for n := byte(1); n <= 2; n++ {
		replay(&metadatapb.Record{Kind: &metadatapb.Record_Topic{Topic: &metadatapb.Topic{Name: "t" + string('0'+n), TopicId: id(n)}}})
		for p := range partitions {
			replay(&metadatapb.Record{Kind: &metadatapb.Record_Partition{Partition: &metadatapb.Partition{
				TopicId: id(n), Partition: int32(p), Replicas: []int32{1, 2, 3}, Isr: []int32{2, 1}, Leader: &leader}}})
		}
	}
	replay(&metadatapb.Record{Kind: &metadatapb.Record_Config{Config: &metadatapb.Config{
		ResourceType: metadatapb.ResourceType_RESOURCE_TYPE_TOPIC, ResourceName: "t1", Key: "min.insync.replicas", Value: &value}}})
	replay(&metadatapb.Record{Kind: &metadatapb.Record_ProducerIds{ProducerIds: &metadatapb.ProducerIds{NextProducerId: 1000}}})
	replay(&metadatapb.Record{Kind: &metadatapb.Record_Lineage{Lineage: &metadatapb.Lineage{Number: 1, DirectoryId: id(4)}}})
	replay(&metadatapb.Record{Kind: &metadatapb.Record_LineageConfirmed{LineageConfirmed: &metadatapb.LineageConfirmed{Number: 1, TimeMs: 5}}})
	replay(&metadatapb.Record{Kind: &metadatapb.Record_RemoveTopic{RemoveTopic: &metadatapb.RemoveTopic{TopicId: id(2)}}})
	return d.Seal(offset, 0x1234)
}

func header() *metadatapb.SnapshotHeader {
	return &metadatapb.SnapshotHeader{ClaimIndex: 3, ClaimTerm: 2, ExpectedSequence: 9, TimeMs: 77, ClusterId: "c", RaftIndex: 40}
}

func write(t testing.TB, im *image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, header(), im); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	for _, partitions := range []int{1, 5000} { // one block, and several
		im := fixture(t, partitions)
		data := write(t, im)
		h, again, err := Read(iotest.OneByteReader(bytes.NewReader(data)))
		if err != nil {
			t.Fatal(err)
		}
		want := header()
		want.Version, want.MetadataOffset, want.Chain = FormatVersion, int64(im.Offset()), uint64(im.Chain())
		want.Lineage = 1
		if d := cmp.Diff(want, h, protocmp.Transform()); d != "" {
			t.Fatal(d)
		}
		if again.Fingerprint() != im.Fingerprint() || again.Offset() != im.Offset() || again.Chain() != im.Chain() || again.String() != im.String() {
			t.Fatalf("read\n%v\nwrote\n%v", again, im)
		}
		if !bytes.Equal(write(t, again), data) {
			t.Fatal("the same image gives other bytes")
		}
	}
}

// TestEveryFlippedByteIsRefused (F26): whichever byte is changed, the snapshot is refused, and the error names a block
// and its position.
func TestEveryFlippedByteIsRefused(t *testing.T) {
	data := write(t, fixture(t, 1))
	for i := range data {
		for _, bit := range []byte{1, 0x80, 0xff} {
			data[i] ^= bit
			_, im, err := Read(bytes.NewReader(data))
			data[i] ^= bit
			if err == nil || im != nil || !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnknownBlock) {
				t.Fatalf("byte %d ^ %x: %v, %v", i, bit, im, err)
			}
			if !strings.Contains(err.Error(), "at byte") {
				t.Fatalf("byte %d: %q does not name the place", i, err)
			}
		}
	}
}

// TestEveryCutIsRefused: a snapshot that ends early, or goes on, is none.
func TestEveryCutIsRefused(t *testing.T) {
	data := write(t, fixture(t, 1))
	for i := range data {
		if _, im, err := Read(bytes.NewReader(data[:i])); !errors.Is(err, ErrCorrupt) || im != nil {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
	if _, _, err := Read(bytes.NewReader(append(bytes.Clone(data), 0))); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "after the footer") {
		t.Fatalf("a byte more: %v", err)
	}
}

// rewrite writes blocks with good checksums.
func rewrite(t testing.TB, blocks ...func(*blockWriter)) []byte {
	t.Helper()
	var out bytes.Buffer
	b := &blockWriter{w: &out}
	b.write([]byte(magic))
	for _, f := range blocks {
		f(b)
	}
	if b.err != nil {
		t.Fatal(b.err)
	}
	return out.Bytes()
}

func message(kind byte, m proto.Message) func(*blockWriter) {
	return func(b *blockWriter) { b.message(kind, m) }
}

func records(raw ...[]byte) func(*blockWriter) {
	return func(b *blockWriter) {
		b.open()
		for _, r := range raw {
			b.block = append(binary.AppendUvarint(b.block, uint64(len(r))), r...)
		}
		b.close(blockRecords)
	}
}

// TestUnknownContentIsRefused (F26 c): a snapshot with good checksums that this build does not understand whole is an
// error that names the section; nothing is skipped.
func TestUnknownContentIsRefused(t *testing.T) {
	h := &metadatapb.SnapshotHeader{Version: FormatVersion, MetadataOffset: 4}
	footer := message(blockFooter, &metadatapb.SnapshotFooter{})
	newer := proto.CloneOf(h)
	newer.Version = 9
	for _, c := range []struct {
		name, want string
		is         error
		data       []byte
	}{
		{"unknown block", "block 2 ('Q')", ErrUnknownBlock, rewrite(t, message(blockHeader, h), message('Q', h), footer)},
		{"unknown version", "version 9", ErrUnknownBlock, rewrite(t, message(blockHeader, newer), footer)},
		{"no header", "in place of the header", ErrUnknownBlock, rewrite(t, footer)},
		{"wrong count", "the footer says 7", ErrCorrupt, rewrite(t, message(blockHeader, h), message(blockFooter, &metadatapb.SnapshotFooter{Records: 7}))},
		{"unknown record", "a record of kind 77", nil, rewrite(t, message(blockHeader, h), records([]byte{0xea, 4, 0}), footer)},
		{"record that does not fit", "RemoveTopic", image.ErrReplay, rewrite(t, message(blockHeader, h), records([]byte{66, 18, 10, 16, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}), footer)},
		{"record beyond its block", "longer than its block", ErrCorrupt, rewrite(t, message(blockHeader, h), func(b *blockWriter) {
			b.open()
			b.block = append(b.block, 200, 1, 0)
			b.close(blockRecords)
		}, footer)},
		{"another lineage", "of lineage 2, the image of 0", ErrCorrupt, rewrite(t, message(blockHeader, &metadatapb.SnapshotHeader{Version: FormatVersion, Lineage: 2}), footer)},
		{"huge block", "allowed are", ErrCorrupt, append([]byte(magic), blockHeader, 0xff, 0xff, 0xff, 0x7f)},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, im, err := Read(bytes.NewReader(c.data))
			if err == nil || im != nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want %q", err, c.want)
			}
		})
	}
}

// TestReaderErrorIsKept: an error of the disk is not taken for corruption.
func TestReaderErrorIsKept(t *testing.T) {
	data := write(t, fixture(t, 1))
	broken := errors.New("disk on fire")
	r := io.MultiReader(bytes.NewReader(data[:20]), iotest.ErrReader(broken))
	if _, _, err := Read(r); !errors.Is(err, broken) || errors.Is(err, ErrCorrupt) {
		t.Fatalf("error %v", err)
	}
	if err := Write(writerFunc(func([]byte) (int, error) { return 0, broken }), header(), image.Empty()); !errors.Is(err, broken) {
		t.Fatalf("error %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestRandomDamage changes several bytes at once in a snapshot of many blocks.
func TestRandomDamage(t *testing.T) {
	data := write(t, fixture(t, 5000))
	rnd := rand.New(rand.NewSource(1))
	for range 100 {
		bad := bytes.Clone(data)
		for range 1 + rnd.Intn(4) {
			bad[rnd.Intn(len(bad))] ^= byte(1 + rnd.Intn(255))
		}
		if _, im, err := Read(bytes.NewReader(bad)); err == nil || im != nil {
			if !bytes.Equal(bad, data) {
				t.Fatal("damage was not found")
			}
		}
	}
}

// FuzzRead: whatever is read is refused, or is a snapshot that gives the same bytes again.
func FuzzRead(f *testing.F) {
	f.Add(write(f, fixture(f, 1)))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, im, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := Write(&b, h, im); err != nil {
			t.Fatal(err)
		}
		if _, again, err := Read(&b); err != nil || again.Fingerprint() != im.Fingerprint() {
			t.Fatalf("not the same when read again: %v", err)
		}
	})
}

// FuzzRecords: a snapshot whose checksums are good, with any payload between header and footer, is refused, or is an
// image that gives the same records again.
func FuzzRecords(f *testing.F) {
	var payload []byte
	n := uint64(0)
	for raw := range fixture(f, 2).EncodedRecords() {
		payload, n = append(binary.AppendUvarint(payload, uint64(len(raw))), raw...), n+1
	}
	f.Add(payload, n)
	f.Fuzz(func(t *testing.T, payload []byte, n uint64) {
		data := rewrite(t, message(blockHeader, header()), func(b *blockWriter) {
			b.open()
			b.block = append(b.block, payload...)
			b.close(blockRecords)
		}, message(blockFooter, &metadatapb.SnapshotFooter{Records: n}))
		h, im, err := Read(bytes.NewReader(data))
		if err != nil {
			if im != nil {
				t.Fatal("refused, and yet there is an image")
			}
			return
		}
		var b bytes.Buffer
		if err := Write(&b, h, im); err != nil {
			t.Fatal(err)
		}
		if _, again, err := Read(&b); err != nil || again.Fingerprint() != im.Fingerprint() {
			t.Fatalf("not the same when read again: %v", err)
		}
	})
}
