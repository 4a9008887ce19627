package logtest

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// Freeze has every call fail from now on: the process was killed here, and what it does while it is unwound by the
// test does not reach the disk.
func (f *FS) Freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = true
}

// Restart opens the file system to the next process. Everything that was written is there: the machine went on.
func (f *FS) Restart() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = false
	f.life++
	f.open = 0
}

// PowerCut opens the file system to the next boot. What was synced is there, and of the rest a part.
func (f *FS) PowerCut(random *rand.Rand) {
	f.Restart()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.root.lose(random)
}

func (n *node) lose(random *rand.Rand) {
	if !n.isDir {
		n.loseWrites(random)
		return
	}
	n.entries = maps.Clone(n.durable)
	for i := 0; i < random.IntN(len(n.pending)+1); {
		change := n.pending[i]
		n.apply(change)
		i++
		if change.to == nil && i < len(n.pending) && n.pending[i].to != nil { // maybe a rename: whole
			n.apply(n.pending[i])
			i++
		}
	}
	n.durable = maps.Clone(n.entries)
	n.pending = nil
	for _, name := range slices.Sorted(maps.Keys(n.entries)) {
		n.entries[name].lose(random)
	}
}

func (n *node) apply(c entryChange) {
	if c.to == nil {
		delete(n.entries, c.name)
		return
	}
	n.entries[c.name] = c.to
}

// loseWrites keeps the first few unsynced writes of a file. Of the last one kept a part may be missing, or be zeros: the
// size reached the disk and the bytes did not.
func (n *node) loseWrites(random *rand.Rand) {
	data := append([]byte(nil), n.synced...)
	kept := random.IntN(len(n.writes) + 1)
	for i, w := range n.writes[:kept] {
		if w.truncate {
			data = resize(data, w.at)
			continue
		}
		p := w.data
		if i == kept-1 && len(p) > 0 {
			p = append([]byte(nil), p...)
			switch torn := random.IntN(len(p)); random.IntN(3) {
			case 0:
				p = p[:torn]
			case 1:
				clear(p[torn:])
			}
		}
		data = overwrite(data, p, w.at)
	}
	n.data = data
	n.synced = append([]byte(nil), data...)
	n.writes = nil
}

// Flip changes one byte of a file, as a bad disk does.
func (f *FS) Flip(name string, at int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.lookup(name)
	if err != nil || at >= int64(len(n.data)) {
		panic("logtest: no such byte in " + name)
	}
	n.data[at] ^= 0x40
	if at < int64(len(n.synced)) {
		n.synced[at] ^= 0x40
	}
}
