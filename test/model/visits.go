package model

// visit is a state in the order in which states were reached: by which step from which other.
type visit struct {
	from uint32
	// by is a place in the model's list of actions.
	by uint16
}

// visits are the states of a search. Their worlds are made anew when they are wanted: in the order of the visits, two that
// follow each other mostly share their way, so that a world costs little more than its last step.
type visits struct {
	list []visit
	root *World
	// way leads to the world that was made last, way[0] is the root's.
	way []waypoint
	// chain is room for a way.
	chain []uint32
}

type waypoint struct {
	index uint32
	world *World
}

func (v *visits) len() int { return len(v.list) }

func (v *visits) add(x visit) { v.list = append(v.list, x) }

// world makes the world of a visit. Every step of its way was possible once, and steps are repeatable.
func (v *visits) world(index int, actions []action) *World {
	v.chain = v.chain[:0]
	for i := uint32(index); i > 0; i = v.list[i].from {
		v.chain = append(v.chain, i)
	}
	if len(v.way) == 0 {
		v.way = append(v.way, waypoint{0, v.root})
	}
	depth := len(v.chain)
	same := 0
	for same < depth && same+1 < len(v.way) && v.way[same+1].index == v.chain[depth-1-same] {
		same++
	}
	v.way = v.way[:same+1]
	w := v.way[same].world
	for d := same; d < depth; d++ {
		i := v.chain[depth-1-d]
		w = w.do(actions[v.list[i].by])
		v.way = append(v.way, waypoint{i, w})
	}
	return w
}
