package log

// DirOf is the directory of a log.
func DirOf(l *Log) string { return l.dir }
