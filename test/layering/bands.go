package layering

import "strings"

// module is the path that our own imports begin with.
const module = "github.com/quorate/quorate/"

// column says which of the two sides of the product a package belongs to.
type column int

const (
	both    column = iota // used by both sides
	quorum                // the quorum's side
	brokers               // the brokers' side
)

// band is the place of a package: it may import lower levels of its own column and of both.
type band struct {
	path   string // the package, or with a trailing slash everything below
	level  int
	column column
}

// bands has a line for every package outside test/. The longest matching path decides. Levels of ten are the
// bands of the design; levels between order the parts of one band.
var bands = []band{
	{"cmd/quorate", 59, both},
	{"cmd/quorate/dev", 55, both},
	{"cmd/quorate/node", 50, both},
	{"quorum", 49, quorum},
	{"quorum/recovery", 45, quorum},
	{"quorum/", 40, quorum},
	{"broker", 49, brokers},
	{"broker/kafka", 46, brokers},
	{"broker/replica", 44, brokers},
	{"broker/", 40, brokers},
	{"fsm", 35, quorum},
	{"alterpartition", 35, brokers},
	{"quorum/client", 30, both},
	{"quorum/reader", 30, both},
	{"quorum/controller", 20, quorum},
	{"broker/partition", 20, brokers},
	{"fsm/snapshot", 15, both},
	{"fsm/image", 10, both},
	{"fsm/record", 5, both},
	{"quorum/env", 2, both},
	{"proto/broker/v1", 2, both},
	{"proto/controller/v1", 1, both},
	{"proto/metadata/v1", 0, both},
}

// bandOf finds the place of a package, given without the module's path.
func bandOf(pkg string) (band, bool) {
	best, found := band{}, false
	for _, b := range bands {
		match := pkg == b.path || strings.HasSuffix(b.path, "/") && strings.HasPrefix(pkg, b.path)
		if match && (!found || len(b.path) > len(best.path)) {
			best, found = b, true
		}
	}
	return best, found
}

// mayImport tells whether a package at from may import one at to.
func mayImport(from, to band) bool {
	if from.column != both && to.column != both && from.column != to.column {
		return false
	}
	if from.column == both && from.level < 50 && to.column != both {
		return false // what both sides use belongs to neither
	}
	return to.level < from.level
}

// homes lists modules that only some packages may import, with everything below those packages.
var homes = map[string][]string{
	"github.com/hashicorp/raft":        {"quorum", "fsm"},
	"github.com/hashicorp/raft-boltdb": {"quorum"},
	"go.etcd.io/bbolt":                 {"quorum"},
	"github.com/spf13/cobra":           {"cmd/quorate"},
	"github.com/magiconair/properties": {"cmd/quorate/node"},
	"github.com/twmb/franz-go":         {"broker", "proto/controller/v1"},
}

// purePackages read no clock, start no goroutine and touch nothing outside.
var purePackages = []string{"fsm/record", "fsm/image", "quorum/controller", "broker/partition"}

// impureImports may not be imported by pure packages.
var impureImports = map[string]bool{
	"sync": true, "sync/atomic": true, "context": true, "os": true, "net": true, "log": true, "log/slog": true,
	"math/rand": true, "crypto/rand": true, "syscall": true, "os/exec": true, "net/http": true,
	module + "quorum/env": true, "google.golang.org/grpc": true,
}

// clockReads are functions of package time that read the clock or make a timer.
var clockReads = map[string]bool{
	"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true,
	"NewTimer": true, "NewTicker": true, "Tick": true,
}

// randomSources are the functions of math/rand/v2 that draw from no global source.
var randomSources = map[string]bool{
	"New": true, "NewPCG": true, "NewChaCha8": true, "NewZipf": true,
	"Rand": true, "Source": true, "PCG": true, "ChaCha8": true,
}

// outside lists, a package of the standard library each, what only quorum/env may use.
var outside = map[string]map[string]bool{
	"time": {"Now": true, "Since": true, "Until": true},
	"net":  {"Listen": true, "ListenTCP": true, "ListenConfig": true, "Dial": true, "DialTimeout": true, "DialTCP": true, "Dialer": true},
	"os": {
		"Open": true, "OpenFile": true, "Create": true, "CreateTemp": true, "MkdirTemp": true, "ReadFile": true, "WriteFile": true,
		"ReadDir": true, "Remove": true, "RemoveAll": true, "Rename": true, "Mkdir": true, "MkdirAll": true, "Stat": true,
		"Lstat": true, "Truncate": true, "Link": true, "Symlink": true,
	},
}

// freeOfEnv are the packages that may meet the world without an environment value: the seam itself, the
// commands' terminal, and the supervisor, which is no node.
var freeOfEnv = map[string]bool{"quorum/env": true, "cmd/quorate": true, "cmd/quorate/dev": true}
