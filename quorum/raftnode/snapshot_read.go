package raftnode

import "io"

// Snapshots lists the snapshots on the disk, the newest first.
func (n *Node) Snapshots() ([]string, error) {
	metas, err := n.snapshots.List()
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(metas))
	for i, m := range metas {
		ids[i] = m.ID
	}
	return ids, nil
}

// OpenSnapshot opens one for reading, its checksum checked. It fails when a newer one has taken its place meanwhile.
func (n *Node) OpenSnapshot(id string) (io.ReadCloser, error) {
	_, r, err := n.snapshots.Open(id)
	return r, err
}
