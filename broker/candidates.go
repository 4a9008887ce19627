package broker

import (
	"net"
	"slices"
	"strconv"

	"github.com/quorate/quorate/fsm/image"
)

// candidates chooses the controller whose stream is followed next. It is a value without locks; the follower's
// goroutine owns it.
type candidates struct {
	first   int             // where the first choice begins, so that brokers spread over the controllers
	tried   map[string]bool // failed since the last stream that was of use
	current string
}

func newCandidates(id image.BrokerID) *candidates {
	return &candidates{first: int(id), tried: make(map[string]bool)}
}

// failed notes that the current stream has ended. A stream that was of use is forgiven all failures before it.
func (ca *candidates) failed(wasUseful bool) {
	if wasUseful {
		clear(ca.tried)
	}
	ca.tried[ca.current] = true
}

// next is the address to follow: after a failure the active controller if it has not failed too, else the next one
// in the list that has not. When all have failed the round is over: again is true, and all are tried anew.
func (ca *candidates) next(addresses []string, active string) (address string, again bool) {
	if len(addresses) == 0 {
		return "", true
	}
	if ca.current == "" {
		ca.current = addresses[ca.first%len(addresses)]
		return ca.current, false
	}
	if active != "" && !ca.tried[active] {
		ca.current = active
		return active, false
	}
	from := slices.Index(addresses, ca.current)
	for i := 1; i <= len(addresses); i++ {
		if a := addresses[(from+i+len(addresses))%len(addresses)]; !ca.tried[a] {
			ca.current = a
			return a, false
		}
	}
	clear(ca.tried)
	ca.current = addresses[(from+1)%len(addresses)]
	return ca.current, true
}

// controllerAddresses are the configured addresses, then those that the image names besides.
func controllerAddresses(configured []string, im *image.Image) []string {
	all := slices.Clone(configured)
	for c := range im.Controllers() {
		l, ok := findListener(c.Listeners, listenerGRPC)
		if !ok {
			continue
		}
		if a := net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))); !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}
