package image

// The three levels of a table: pages hang in leaves, leaves in branches, branches in one slice.
const (
	leafLen   = 16
	branchLen = 32
	// branchPages is the number of pages below one branch.
	branchPages = leafLen * branchLen
)

// table is a persistent array of pages. A copy of the value is a fork.
//
// Each writer has a generation, one higher than that of the state it forked from. All that a writer can reach was
// made by its ancestors, whose generations are lower, or by itself; so "the generation is mine" means "I made it, and
// nobody else can reach it", and only then is a node written in place. Two forks of one parent bear the same
// generation, but neither can reach what the other made.
type table[P any] struct {
	top []*branch[P]
	gen uint64
}

type branch[P any] struct {
	gen  uint64
	kids [branchLen]*leaf[P]
}

type leaf[P any] struct {
	gen uint64
	// own has a bit for each page that was made by the writer of generation gen.
	own   uint16
	pages [leafLen]*P
}

// get returns the page, nil when there is none.
func (t *table[P]) get(page uint32) *P {
	i := page / branchPages
	if int(i) >= len(t.top) || t.top[i] == nil {
		return nil
	}
	l := t.top[i].kids[page/leafLen%branchLen]
	if l == nil {
		return nil
	}
	return l.pages[page%leafLen]
}

// Pages of a group: 4 KiB of partitions, 1 KiB of bits.
const (
	partitionSlab = 4
	bitSlab       = 8
)

// slab makes pages in groups, which takes less time than one by one. A group stays in memory as long as one of its pages does,
// so groups are small, and only a load, whose pages are of one age, makes them. A nil slab makes single pages.
type slab[P any] struct {
	left []P
	size int
}

func (s *slab[P]) take() *P {
	if s == nil {
		return new(P)
	}
	if len(s.left) == 0 {
		s.left = make([]P, s.size)
	}
	p := &s.left[0]
	s.left = s.left[1:]
	return p
}

// edit returns a page that the writer of generation gen may change; a missing page is made.
func (t *table[P]) edit(gen uint64, page uint32) *P { return t.editFrom(nil, gen, page) }

// editFrom is edit with new pages from the slab.
func (t *table[P]) editFrom(s *slab[P], gen uint64, page uint32) *P {
	l := t.editLeaf(gen, page)
	i := page % leafLen
	if l.own&(1<<i) == 0 {
		p := s.take()
		if old := l.pages[i]; old != nil {
			*p = *old
		}
		l.pages[i] = p
		l.own |= 1 << i
	}
	return l.pages[i]
}

// drop takes the page out. The leaf goes with its last page.
func (t *table[P]) drop(gen uint64, page uint32) {
	if t.get(page) == nil {
		return
	}
	l := t.editLeaf(gen, page)
	l.pages[page%leafLen] = nil
	l.own &^= 1 << (page % leafLen)
	for _, p := range l.pages {
		if p != nil {
			return
		}
	}
	t.top[page/branchPages].kids[page/leafLen%branchLen] = nil
}

func (t *table[P]) editLeaf(gen uint64, page uint32) *leaf[P] {
	i := int(page / branchPages)
	if t.gen == gen && i < len(t.top) {
		if b := t.top[i]; b != nil && b.gen == gen {
			if l := b.kids[page/leafLen%branchLen]; l != nil && l.gen == gen {
				return l
			}
		}
	}
	if t.gen != gen || i >= len(t.top) {
		top := make([]*branch[P], max(len(t.top), i+1))
		copy(top, t.top)
		t.top, t.gen = top, gen
	}
	b := t.top[i]
	if b == nil || b.gen != gen {
		n := new(branch[P])
		if b != nil {
			*n = *b
		}
		n.gen = gen
		t.top[i], b = n, n
	}
	k := page / leafLen % branchLen
	l := b.kids[k]
	if l == nil || l.gen != gen {
		n := new(leaf[P])
		if l != nil {
			n.pages = l.pages
		}
		n.gen = gen
		b.kids[k], l = n, n
	}
	return l
}

// each calls fn for every page in order until fn returns false.
func (t *table[P]) each(fn func(page uint32, p *P) bool) bool {
	for i, b := range t.top {
		if b == nil {
			continue
		}
		for j, l := range b.kids {
			if l == nil {
				continue
			}
			for k, p := range l.pages {
				if p != nil && !fn(uint32(i*branchPages+j*leafLen+k), p) {
					return false
				}
			}
		}
	}
	return true
}

// eachDifference calls fn for every page that is not the same page in both tables; one of the two may be nil.
// Parts that both share are skipped whole.
func eachDifference[P any](a, b *table[P], fn func(page uint32, pa, pb *P)) {
	for i := range max(len(a.top), len(b.top)) {
		var ba, bb *branch[P]
		if i < len(a.top) {
			ba = a.top[i]
		}
		if i < len(b.top) {
			bb = b.top[i]
		}
		if ba != bb {
			branchDifference(uint32(i*branchPages), ba, bb, fn)
		}
	}
}

func branchDifference[P any](base uint32, ba, bb *branch[P], fn func(page uint32, pa, pb *P)) {
	for j := range branchLen {
		var la, lb *leaf[P]
		if ba != nil {
			la = ba.kids[j]
		}
		if bb != nil {
			lb = bb.kids[j]
		}
		if la == lb {
			continue
		}
		for k := range leafLen {
			var pa, pb *P
			if la != nil {
				pa = la.pages[k]
			}
			if lb != nil {
				pb = lb.pages[k]
			}
			if pa != pb {
				fn(base+uint32(j*leafLen+k), pa, pb)
			}
		}
	}
}
