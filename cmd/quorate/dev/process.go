package dev

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/quorate/quorate/cmd/quorate/node"
)

// tailLines is how much of a dead node's log is shown.
const tailLines = 20

// childDescriptor is the number of the first extra descriptor in a child.
const childDescriptor = 3

// process is a node that the supervisor started.
type process struct {
	node Node
	cmd  *exec.Cmd
	// logFrom is where this process's part of the log begins.
	logFrom int64
	// ended is closed when the process is gone; state is set then.
	ended chan struct{}
	state *os.ProcessState
}

// start runs a node in its own process group. It watches the read end of a pipe whose other end dies with the supervisor.
// Each node has a pipe of its own: whether a pipe blocks is a property of the pipe, not of a descriptor, and starting one node
// would change it under another that reads.
func start(n Node, environ []string) (*process, error) {
	log, err := os.OpenFile(n.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		return nil, err
	}
	parent, hold, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	cmd := exec.Command(n.Argv[0], n.Argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(nodeEnviron(environ), fmt.Sprintf("%s=%d", node.ParentVariable, childDescriptor))
	cmd.ExtraFiles = []*os.File{parent}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		hold.Close()
		return nil, fmt.Errorf("cannot start %s %d: %w", n.role(), n.ID, err)
	}
	p := &process{node: n, cmd: cmd, logFrom: info.Size(), ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		defer hold.Close()
		_ = cmd.Wait() // the state says it all
		p.state = cmd.ProcessState
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// alive tells whether the process has not ended.
func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// why says how the process ended, with the reason that its log gives last.
func (p *process) why() string {
	return fmt.Sprintf("%s %d (pid %d) ended: %s", p.node.role(), p.node.ID, p.pid(), p.state)
}

// tail is the end of the log that this process wrote.
func (p *process) tail() string {
	data, err := os.ReadFile(p.node.Log)
	if err != nil {
		return err.Error() + "\n"
	}
	lines := strings.SplitAfter(string(data[min(int64(len(data)), p.logFrom):]), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines-1):], "")
}
