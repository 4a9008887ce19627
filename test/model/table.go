package model

// harmLeft is how much harm can still be done: of each kind, and altogether. Each has three bits, of which the highest is
// free, so that two can be compared at once.
type harmLeft uint32

const (
	harmBits = 3
	// harmMax is the most harm that a budget can hold.
	harmMax = 1<<(harmBits-1) - 1
	// harmGuards are the highest bits.
	harmGuards harmLeft = 0o4_444_444_444
)

// There is room for every kind and for the whole.
var _ [32/harmBits - int(harms) - 1]struct{}

// pack is what a budget allows.
func (b *Budget) pack() harmLeft {
	left := harmLeft(b.Total)
	for _, n := range b.Of {
		left = left<<harmBits | harmLeft(min(n, b.Total))
	}
	return left
}

// within tells whether what may follow with this much harm left is among what may follow with other.
func (l harmLeft) within(other harmLeft) bool { return ((other|harmGuards)-l)&harmGuards == harmGuards }

// table is the set of the states that were reached: the fingerprint of each with the harm that was left. A state that was
// reached with two amounts of harm left, neither of which allows all that the other does, has a place for each. It is an
// open-addressing table without deletions, twelve bytes a place.
type table struct {
	keys []uint64 // 0 marks a free place
	left []harmLeft
	used int
	// states counts different fingerprints.
	states int
}

const tableMin = 1 << 10

// add takes a state in and tells whether more may follow from it than from what was known.
func (t *table) add(key uint64, left harmLeft) bool {
	if t.used >= len(t.keys)*3/4 {
		t.grow()
	}
	key = max(key, 1)
	mask := uint64(len(t.keys) - 1)
	known := false
	for i := key & mask; ; i = (i + 1) & mask {
		switch t.keys[i] {
		case 0:
			t.keys[i], t.left[i] = key, left
			t.used++
			if !known {
				t.states++
			}
			return true
		case key:
			if left.within(t.left[i]) {
				return false
			}
			if t.left[i].within(left) {
				t.left[i] = left
				return true
			}
			known = true
		}
	}
}

func (t *table) grow() {
	old := *t
	size := max(tableMin, 2*len(old.keys))
	t.keys, t.left = make([]uint64, size), make([]harmLeft, size)
	mask := uint64(size - 1)
	for j, key := range old.keys {
		if key == 0 {
			continue
		}
		i := key & mask
		for t.keys[i] != 0 {
			i = (i + 1) & mask
		}
		t.keys[i], t.left[i] = key, old.left[j]
	}
}
