package image

import "iter"

// Bounds on the items of a node; a node on the right edge may hold fewer than the least.
const (
	treeMax = 32
	treeMin = treeMax/2 - 1
)

// tree is a persistent B-tree: an ordered map whose copies are forks. Ownership is by generation, as in a table.
type tree[K, V any] struct {
	compare func(a, b K) int
	root    *treeNode[K, V]
	n       int
}

type treeItem[K, V any] struct {
	key K
	val V
}

type treeNode[K, V any] struct {
	gen   uint64
	items []treeItem[K, V]
	// kids is empty in a leaf, else one longer than items.
	kids []*treeNode[K, V]
}

// find returns the first position whose key is not below k, and whether it is k.
func (t *tree[K, V]) find(n *treeNode[K, V], k K) (int, bool) {
	lo, hi := 0, len(n.items)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		switch c := t.compare(n.items[mid].key, k); {
		case c < 0:
			lo = mid + 1
		case c > 0:
			hi = mid
		default:
			return mid, true
		}
	}
	return lo, false
}

func (t *tree[K, V]) get(k K) (v V, ok bool) {
	for n := t.root; n != nil; {
		i, found := t.find(n, k)
		if found {
			return n.items[i].val, true
		}
		if len(n.kids) == 0 {
			break
		}
		n = n.kids[i]
	}
	return v, false
}

func (t *tree[K, V]) has(k K) bool {
	_, ok := t.get(k)
	return ok
}

// own returns a node that the writer of generation gen may change.
func (n *treeNode[K, V]) own(gen uint64) *treeNode[K, V] {
	if n.gen == gen {
		return n
	}
	c := &treeNode[K, V]{gen: gen}
	c.items = append(make([]treeItem[K, V], 0, len(n.items)+1), n.items...)
	if len(n.kids) > 0 {
		c.kids = append(make([]*treeNode[K, V], 0, len(n.kids)+1), n.kids...)
	}
	return c
}

// set adds the key or replaces its value.
func (t *tree[K, V]) set(gen uint64, k K, v V) {
	if at := t.place(gen, k, v); at != nil {
		*at = v
	}
}

// add adds the key and tells whether it did; a key that is there keeps its value.
func (t *tree[K, V]) add(gen uint64, k K, v V) bool { return t.place(gen, k, v) == nil }

// place adds the key, or returns where its value is.
func (t *tree[K, V]) place(gen uint64, k K, v V) *V {
	if t.root == nil {
		t.root = &treeNode[K, V]{gen: gen, items: []treeItem[K, V]{{k, v}}}
		t.n = 1
		return nil
	}
	t.root = t.root.own(gen)
	if len(t.root.items) >= treeMax {
		t.root = &treeNode[K, V]{gen: gen, kids: []*treeNode[K, V]{t.root}}
		t.split(t.root, 0, k)
	}
	n := t.root
	for {
		i, found := len(n.items), false
		if i == 0 || t.compare(n.items[i-1].key, k) >= 0 { // keys tend to come in order
			i, found = t.find(n, k)
		}
		if found {
			return &n.items[i].val
		}
		if len(n.kids) == 0 {
			n.items = insertAt(n.items, i, treeItem[K, V]{k, v})
			t.n++
			return nil
		}
		n.kids[i] = n.kids[i].own(gen)
		if len(n.kids[i].items) >= treeMax {
			t.split(n, i, k)
			switch c := t.compare(k, n.items[i].key); {
			case c == 0:
				return &n.items[i].val
			case c > 0:
				i++
			}
		}
		n = n.kids[i]
	}
}

// split divides the full, owned child i of the owned node n. When k comes last the left part stays nearly full,
// so that keys that arrive in order fill the nodes.
func (t *tree[K, V]) split(n *treeNode[K, V], i int, k K) {
	c := n.kids[i]
	at := len(c.items) / 2
	if t.compare(k, c.items[len(c.items)-1].key) > 0 {
		at = len(c.items) - 2
	}
	mid := c.items[at]
	right := &treeNode[K, V]{gen: c.gen}
	right.items = append(make([]treeItem[K, V], 0, len(c.items)-at), c.items[at+1:]...)
	clear(c.items[at:])
	c.items = c.items[:at]
	if len(c.kids) > 0 {
		right.kids = append(right.kids, c.kids[at+1:]...)
		clear(c.kids[at+1:])
		c.kids = c.kids[:at+1]
	}
	n.items = insertAt(n.items, i, mid)
	n.kids = insertAt(n.kids, i+1, right)
}

// delete takes the key out and tells whether it was there.
func (t *tree[K, V]) delete(gen uint64, k K) bool {
	if !t.has(k) {
		return false
	}
	t.root = t.root.own(gen)
	t.remove(gen, t.root, k)
	if len(t.root.items) == 0 {
		if len(t.root.kids) > 0 {
			t.root = t.root.kids[0]
		} else {
			t.root = nil
		}
	}
	t.n--
	return true
}

// remove takes k, which is below the owned node n, out of it.
func (t *tree[K, V]) remove(gen uint64, n *treeNode[K, V], k K) {
	for {
		i, found := t.find(n, k)
		if len(n.kids) == 0 {
			n.items = removeAt(n.items, i)
			return
		}
		if len(n.kids[i].items) <= treeMin {
			t.grow(gen, n, i)
			continue // positions have moved
		}
		n.kids[i] = n.kids[i].own(gen)
		if found {
			n.items[i] = t.removeLast(gen, n.kids[i])
			return
		}
		n = n.kids[i]
	}
}

// removeLast takes the greatest item out from below the owned node n.
func (t *tree[K, V]) removeLast(gen uint64, n *treeNode[K, V]) treeItem[K, V] {
	for len(n.kids) > 0 {
		i := len(n.kids) - 1
		if len(n.kids[i].items) <= treeMin {
			t.grow(gen, n, i)
			continue
		}
		n.kids[i] = n.kids[i].own(gen)
		n = n.kids[i]
	}
	last := n.items[len(n.items)-1]
	n.items = removeAt(n.items, len(n.items)-1)
	return last
}

// grow gives child i of the owned node n an item more, from a sibling or by merging with one.
func (t *tree[K, V]) grow(gen uint64, n *treeNode[K, V], i int) {
	switch {
	case i > 0 && len(n.kids[i-1].items) > treeMin:
		n.kids[i-1], n.kids[i] = n.kids[i-1].own(gen), n.kids[i].own(gen)
		l, c := n.kids[i-1], n.kids[i]
		c.items = insertAt(c.items, 0, n.items[i-1])
		n.items[i-1] = l.items[len(l.items)-1]
		l.items = removeAt(l.items, len(l.items)-1)
		if len(l.kids) > 0 {
			c.kids = insertAt(c.kids, 0, l.kids[len(l.kids)-1])
			l.kids = removeAt(l.kids, len(l.kids)-1)
		}
	case i < len(n.items) && len(n.kids[i+1].items) > treeMin:
		n.kids[i], n.kids[i+1] = n.kids[i].own(gen), n.kids[i+1].own(gen)
		c, r := n.kids[i], n.kids[i+1]
		c.items = append(c.items, n.items[i])
		n.items[i] = r.items[0]
		r.items = removeAt(r.items, 0)
		if len(r.kids) > 0 {
			c.kids = append(c.kids, r.kids[0])
			r.kids = removeAt(r.kids, 0)
		}
	default:
		if i == len(n.items) {
			i--
		}
		n.kids[i] = n.kids[i].own(gen)
		c, r := n.kids[i], n.kids[i+1]
		c.items = append(append(c.items, n.items[i]), r.items...)
		c.kids = append(c.kids, r.kids...)
		n.items = removeAt(n.items, i)
		n.kids = removeAt(n.kids, i+1)
	}
}

// from returns the items whose key is not below k, in order.
func (t *tree[K, V]) from(k K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if t.root != nil {
			t.walk(t.root, &k, yield)
		}
	}
}

// all returns every item in order.
func (t *tree[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if t.root != nil {
			t.walk(t.root, nil, yield)
		}
	}
}

func (t *tree[K, V]) walk(n *treeNode[K, V], from *K, yield func(K, V) bool) bool {
	i := 0
	if from != nil {
		var found bool
		if i, found = t.find(n, *from); found {
			from = nil
			if !yield(n.items[i].key, n.items[i].val) {
				return false
			}
			i++
		}
	}
	for ; i <= len(n.items); i++ {
		if len(n.kids) > 0 && !t.walk(n.kids[i], from, yield) {
			return false
		}
		from = nil
		if i < len(n.items) && !yield(n.items[i].key, n.items[i].val) {
			return false
		}
	}
	return true
}

// below returns the greatest item whose key is below k.
func (t *tree[K, V]) below(k K) (it treeItem[K, V], ok bool) {
	for n := t.root; n != nil; {
		i, _ := t.find(n, k)
		if i > 0 {
			it, ok = n.items[i-1], true
		}
		if len(n.kids) == 0 {
			break
		}
		n = n.kids[i]
	}
	return it, ok
}

// first returns the least item.
func (t *tree[K, V]) first() (it treeItem[K, V], ok bool) {
	for n := t.root; n != nil; n = n.kids[0] {
		if len(n.kids) == 0 {
			return n.items[0], true
		}
	}
	return it, false
}

func insertAt[T any](s []T, i int, v T) []T {
	var zero T
	s = append(s, zero)
	copy(s[i+1:], s[i:])
	s[i] = v
	return s
}

func removeAt[T any](s []T, i int) []T {
	var zero T
	copy(s[i:], s[i+1:])
	s[len(s)-1] = zero
	return s[:len(s)-1]
}
