package raftnode

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/quorate/quorate/quorum/env"
)

// levelTrace is below slog's lowest name.
const levelTrace = slog.LevelDebug - 4

// hcLog hands the library's lines to slog. What the library says of a peer that does not answer, several times a second for as
// long as that lasts, is said once in an interval.
type hcLog struct {
	logger  *slog.Logger
	repeats *repeats
	name    string
	args    []any
}

var _ hclog.Logger = (*hcLog)(nil)

func newHCLog(logger *slog.Logger, clock env.Clock) hclog.Logger {
	return &hcLog{logger: logger, repeats: newRepeats(clock), name: "raft"}
}

// repeatedPrefix begins the lines about calls that failed.
const repeatedPrefix = "failed to "

// toldElsewhere are lines of the library about snapshots on the disk; this package names each that is refused, once.
var toldElsewhere = []string{"CRC checksum failed", "failed to open snapshot", "failed to read metadata", "starting restore from snapshot"}

func slogLevel(level hclog.Level) slog.Level {
	switch level {
	case hclog.Trace:
		return levelTrace
	case hclog.Debug:
		return slog.LevelDebug
	case hclog.Warn:
		return slog.LevelWarn
	case hclog.Error:
		return slog.LevelError
	}
	return slog.LevelInfo
}

func (l *hcLog) Log(level hclog.Level, msg string, args ...any) {
	ctx, at := context.Background(), slogLevel(level)
	if slices.Contains(toldElsewhere, msg) {
		at = min(at, slog.LevelDebug)
	}
	if level == hclog.Off || !l.logger.Enabled(ctx, at) {
		return
	}
	all := make([]any, 0, 2+len(l.args)+len(args))
	all = append(all, "library", l.name)
	for _, list := range [][]any{l.args, args} {
		for _, arg := range list {
			if f, ok := arg.(hclog.Format); ok && len(f) > 0 {
				arg = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
			}
			all = append(all, arg)
		}
	}
	if at >= slog.LevelWarn && strings.HasPrefix(msg, repeatedPrefix) {
		if strings.Contains(fmt.Sprint(all...), net.ErrClosed.Error()) {
			at = slog.LevelDebug // a connection that was closed on purpose
		}
		skipped, ok := l.repeats.allow(msg + fmt.Sprint(firstOf(args)))
		if !ok {
			return
		}
		all = append(all, "repeated", skipped)
	}
	l.logger.Log(ctx, at, msg, all...)
}

// firstOf is the first value of a line, which names the peer.
func firstOf(args []any) any {
	if len(args) < 2 {
		return nil
	}
	return args[1]
}

func (l *hcLog) enabled(level slog.Level) bool {
	return l.logger.Enabled(context.Background(), level)
}

func (l *hcLog) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }
func (l *hcLog) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }
func (l *hcLog) Info(msg string, args ...any)  { l.Log(hclog.Info, msg, args...) }
func (l *hcLog) Warn(msg string, args ...any)  { l.Log(hclog.Warn, msg, args...) }
func (l *hcLog) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

func (l *hcLog) IsTrace() bool { return l.enabled(levelTrace) }
func (l *hcLog) IsDebug() bool { return l.enabled(slog.LevelDebug) }
func (l *hcLog) IsInfo() bool  { return l.enabled(slog.LevelInfo) }
func (l *hcLog) IsWarn() bool  { return l.enabled(slog.LevelWarn) }
func (l *hcLog) IsError() bool { return l.enabled(slog.LevelError) }

func (l *hcLog) ImpliedArgs() []any { return l.args }

func (l *hcLog) With(args ...any) hclog.Logger {
	return &hcLog{logger: l.logger, repeats: l.repeats, name: l.name, args: append(l.args[:len(l.args):len(l.args)], args...)}
}

func (l *hcLog) Name() string { return l.name }

func (l *hcLog) Named(name string) hclog.Logger { return l.ResetNamed(l.name + "." + name) }

func (l *hcLog) ResetNamed(name string) hclog.Logger {
	return &hcLog{logger: l.logger, repeats: l.repeats, name: name, args: l.args}
}

// SetLevel does nothing: slog's handler decides.
func (l *hcLog) SetLevel(hclog.Level) {}

func (l *hcLog) GetLevel() hclog.Level {
	switch {
	case l.IsTrace():
		return hclog.Trace
	case l.IsDebug():
		return hclog.Debug
	case l.IsInfo():
		return hclog.Info
	case l.IsWarn():
		return hclog.Warn
	}
	return hclog.Error
}

func (l *hcLog) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return slog.NewLogLogger(l.logger.Handler(), slog.LevelInfo)
}

func (l *hcLog) StandardWriter(opts *hclog.StandardLoggerOptions) io.Writer {
	return l.StandardLogger(opts).Writer()
}
