package controller

// nameComparedMax is the longest name that is compared with others, in bytes: no key is nearly as long.
const nameComparedMax = 249

// Nearest returns the known name that a mistyped one is nearest to: the one with the fewest letters to insert, delete or
// replace, the first among equals. It is empty if none takes fewer than within.
func Nearest(name string, known []string, within int) string {
	best := ""
	if len(name) > nameComparedMax {
		return best
	}
	for _, k := range known {
		if d := editDistance(name, k); d < within {
			best, within = k, d
		}
	}
	return best
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
