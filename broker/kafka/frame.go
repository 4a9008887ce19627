package kafka

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// headerFixed is the length of the part of a request header that has the same form in every version: key, version,
// correlation id.
const headerFixed = 8

// produceItemsMax bounds topics and partitions of one Produce request. The decoder allocates by the announced counts,
// which a hostile peer can make 40 times larger than its bytes; a batch is at least 61 bytes.
const produceItemsMax = 100_000

var errMalformed = errors.New("kafka: malformed request")

// header is a request header.
type header struct {
	key, version  int16
	correlationID int32
	clientID      string
}

// parseFixed reads the part of the header that never changes.
func parseFixed(frame []byte) (header, error) {
	if len(frame) < headerFixed {
		return header{}, fmt.Errorf("%w: %d bytes hold no header", errMalformed, len(frame))
	}
	r := kbin.Reader{Src: frame}
	return header{key: r.Int16(), version: r.Int16(), correlationID: r.Int32()}, nil
}

// parseRest reads the client id, which has its old form in flexible requests too, and the tags of a flexible header,
// which are skipped. It returns the body.
func (h *header) parseRest(frame []byte, flexible bool) ([]byte, error) {
	r := kbin.Reader{Src: frame[headerFixed:]}
	if id := r.NullableString(); id != nil {
		h.clientID = *id
	}
	if flexible {
		kmsg.SkipTags(&r)
	}
	if !r.Ok() {
		return nil, fmt.Errorf("%w: header is cut", errMalformed)
	}
	return r.Src, nil
}

// decode fills a request from its body. Everything is data from strangers: a panic of the decoder is a malformed request.
func decode(req kmsg.Request, body []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errMalformed, p)
		}
	}()
	if _, ok := req.(*kmsg.ProduceRequest); ok {
		if err := checkProduceCounts(body, req.GetVersion()); err != nil {
			return err
		}
	}
	if err := req.ReadFrom(body); err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	return nil
}

// checkProduceCounts walks a Produce request without allocating.
func checkProduceCounts(body []byte, version int16) error {
	r := kbin.Reader{Src: body}
	flexible := version >= 9
	if flexible {
		r.UnsafeCompactNullableString()
	} else {
		r.UnsafeNullableString()
	}
	r.Int16()
	r.Int32()
	items := 0
	for topics := arrayLen(&r, flexible); topics > 0 && r.Ok(); topics-- {
		switch {
		case version >= 13:
			r.Span(16)
		case flexible:
			r.UnsafeCompactString()
		default:
			r.UnsafeString()
		}
		partitions := arrayLen(&r, flexible)
		items++
		for ; partitions > 0 && r.Ok(); partitions-- {
			r.Int32()
			if flexible {
				r.CompactNullableBytes()
				kmsg.SkipTags(&r)
			} else {
				r.NullableBytes()
			}
			if items++; items > produceItemsMax {
				return fmt.Errorf("%w: more than %d topics and partitions in one Produce", errMalformed, produceItemsMax)
			}
		}
		if flexible {
			kmsg.SkipTags(&r)
		}
	}
	if !r.Ok() {
		return fmt.Errorf("%w: Produce is cut", errMalformed)
	}
	return nil
}

func arrayLen(r *kbin.Reader, flexible bool) int32 {
	if flexible {
		return r.CompactArrayLen()
	}
	return r.ArrayLen()
}

// foreignProtocol names what a peer speaks that begins with these four bytes, or "".
func foreignProtocol(b [4]byte) string {
	switch string(b[:]) {
	case "GET ", "POST", "HEAD", "PUT ", "OPTI", "DELE", "PATC", "CONN", "PRI ":
		return "HTTP"
	case "SSH-":
		return "SSH"
	}
	if b[0] == 0x16 && b[1] == 0x03 {
		return "TLS"
	}
	return ""
}

// appendResponse appends a whole answer: size, header, body. The header carries the empty tag list of a flexible
// answer, except for ApiVersions, whose header every client must be able to read.
func appendResponse(dst []byte, correlationID int32, resp kmsg.Response) []byte {
	start := len(dst)
	dst = kbin.AppendInt32(dst, 0)
	dst = kbin.AppendInt32(dst, correlationID)
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		dst = append(dst, 0)
	}
	dst = resp.AppendTo(dst)
	kbin.AppendInt32(dst[start:start], int32(len(dst)-start-4))
	return dst
}
