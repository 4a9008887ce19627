package image

import "math/bits"

// A page of a bitset covers 1024 ordinals in 128 bytes.
const (
	bitWords    = 16
	bitsPerPage = bitWords * 64
)

type bitPage [bitWords]uint64

// bitset is a persistent sparse set of ordinals; pages without a member are not kept.
type bitset struct {
	t table[bitPage]
	n int
}

func (s *bitset) has(i uint32) bool {
	p := s.t.get(i / bitsPerPage)
	return p != nil && p[i/64%bitWords]&(1<<(i%64)) != 0
}

// put makes i a member or takes it out.
func (s *bitset) put(gen uint64, i uint32, member bool) {
	if s.has(i) == member {
		return
	}
	p := s.t.edit(gen, i/bitsPerPage)
	p[i/64%bitWords] ^= 1 << (i % 64)
	if member {
		s.n++
		return
	}
	s.n--
	if *p == (bitPage{}) {
		s.t.drop(gen, i/bitsPerPage)
	}
}

// eachWithout calls fn for every member that is not one of not, which may be nil, in ascending order until fn returns
// false.
func (s *bitset) eachWithout(not *bitset, fn func(i uint32) bool) bool {
	return s.t.each(func(page uint32, p *bitPage) bool {
		var mask *bitPage
		if not != nil {
			mask = not.t.get(page)
		}
		for w, word := range p {
			if mask != nil {
				word &^= mask[w]
			}
			for word != 0 {
				if !fn(page*bitsPerPage + uint32(w*64+bits.TrailingZeros64(word))) {
					return false
				}
				word &= word - 1
			}
		}
		return true
	})
}

// eachBoth calls fn for every member that is one of other, too, in ascending order until fn returns false.
func (s *bitset) eachBoth(other *bitset, fn func(i uint32) bool) bool {
	return s.t.each(func(page uint32, p *bitPage) bool {
		q := other.t.get(page)
		if q == nil {
			return true
		}
		for w, word := range p {
			for word &= q[w]; word != 0; word &= word - 1 {
				if !fn(page*bitsPerPage + uint32(w*64+bits.TrailingZeros64(word))) {
					return false
				}
			}
		}
		return true
	})
}
