package main

import "runtime/debug"

// release is the version that the changelog names.
const release = "0.1.0-dev"

// version is the release with the revision that the binary was built from, if the build recorded one.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return release
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	if revision == "" {
		return release
	}
	return release + "+" + revision + dirty
}
