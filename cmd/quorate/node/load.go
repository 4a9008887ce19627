package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/magiconair/properties"

	"github.com/quorate/quorate/quorum/env"
)

// configBytesMax bounds a configuration file.
const configBytesMax = 1 << 20

// Sources says where a node's configuration comes from.
type Sources struct {
	// File is a properties file; empty: none.
	File string
	// Set are key=value pairs of the command line.
	Set []string
	// Environ is the environment as os.Environ gives it.
	Environ []string
	// Partial: what is not set is not missed, and keys are not compared. Such a configuration is for showing.
	Partial bool
}

// Where a value came from, strongest first.
const (
	sourceSet         = "--set"
	sourceEnvironment = "environment"
	sourceFile        = "file"
	sourceDefault     = "default"
)

// ConfigError says what is wrong with a configuration.
type ConfigError struct{ err error }

func (e *ConfigError) Error() string { return e.err.Error() }

// Unwrap gives the reason.
func (e *ConfigError) Unwrap() error { return e.err }

// Load reads a configuration: --set before environment before file before default. An unknown key is an error that
// names the nearest known one; the warnings name Kafka's keys that mean nothing here. The error is a [*ConfigError].
func Load(fs env.FS, s Sources) (c *Config, warnings []string, err error) {
	if c, warnings, err = load(fs, s); err != nil {
		if s.File == "" {
			err = fmt.Errorf("%w; no file was named with --config", err)
		}
		return nil, nil, &ConfigError{err}
	}
	return c, warnings, nil
}

func load(fs env.FS, s Sources) (c *Config, warnings []string, err error) {
	c = &Config{settings: make(map[string]Setting, len(keys))}
	for _, k := range keys {
		c.settings[k.name] = Setting{Key: k.name, Value: k.def, Source: sourceDefault, Default: k.def, Unit: k.unit}
	}
	file, err := readProperties(fs, s.File)
	if err != nil {
		return nil, nil, err
	}
	for _, pair := range file {
		w, err := c.take(pair[0], pair[1], sourceFile)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", s.File, err)
		}
		warnings = append(warnings, w...)
	}
	for _, variable := range s.Environ {
		name, value, _ := strings.Cut(variable, "=")
		if k, ok := keyOfVariable(name); ok {
			if _, err := c.take(k, value, sourceEnvironment); err != nil {
				return nil, nil, fmt.Errorf("environment %s: %w", name, err)
			}
		}
	}
	for _, pair := range s.Set {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, nil, fmt.Errorf("--set %s: want key=value", pair)
		}
		w, err := c.take(strings.TrimSpace(name), strings.TrimSpace(value), sourceSet)
		if err != nil {
			return nil, nil, fmt.Errorf("--set: %w", err)
		}
		warnings = append(warnings, w...)
	}
	if err := c.parse(s.Partial); err != nil {
		return nil, nil, err
	}
	slices.Sort(warnings)
	return c, slices.Compact(warnings), nil
}

// readProperties reads a file in Java's syntax, without expanding ${…}: Kafka expands nothing either.
func readProperties(fs env.FS, name string) ([][2]string, error) {
	if name == "" {
		return nil, nil
	}
	if info, err := fs.Stat(name); err == nil && info.Size() > configBytesMax {
		return nil, fmt.Errorf("%s: %d bytes, limit %d", name, info.Size(), configBytesMax)
	}
	data, err := env.ReadFile(fs, name)
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := loader.LoadBytes(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var pairs [][2]string
	for _, k := range p.Keys() {
		v, _ := p.Get(k)
		pairs = append(pairs, [2]string{k, strings.TrimSpace(v)})
	}
	return pairs, nil
}

// take notes a value, unless its key is none of ours.
func (c *Config) take(name, value, source string) (warnings []string, err error) {
	k, ok := keyByName(name)
	if !ok {
		if here, renamed := renamedKeys[name]; renamed {
			return nil, fmt.Errorf("key %s is called %s here", name, here)
		}
		if meaningless(name) {
			return []string{fmt.Sprintf("%s has no meaning here and is ignored", name)}, nil
		}
		return nil, unknownKey(name)
	}
	c.settings[name] = Setting{Key: name, Value: value, Source: source, Default: k.def, Unit: k.unit}
	return nil, nil
}

// parse turns the texts into values and checks them one by one, then, unless it is partial, together.
func (c *Config) parse(partial bool) error {
	c.NodeID = -1
	for _, k := range keys {
		s := c.settings[k.name]
		if s.Value == "" {
			continue
		}
		if err := k.set(c, s.Value); err != nil {
			return fmt.Errorf("%s (%s): %w", k.name, s.Source, err)
		}
	}
	if partial {
		return nil
	}
	return errors.Join(c.validate())
}

// VariableOf is the environment variable of a key: QUORATE_NODE_ID for node.id.
func VariableOf(key string) string {
	return "QUORATE_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

func keyOfVariable(variable string) (string, bool) {
	for _, k := range keys {
		if VariableOf(k.name) == variable {
			return k.name, true
		}
	}
	return "", false
}
