package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// suggestionDistance is how many letters off a mistyped command may be to be recognized.
const suggestionDistance = 2

// arguments says in the command's own words what is wrong with a command line.
func arguments(c *cobra.Command, err error) error {
	var unknown unknownCommandError
	if errors.As(err, &unknown) {
		return err
	}
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		return fmt.Errorf("--%s is %q; it is %s", value.GetFlag().Name, value.GetValue(), kindOf(value.GetFlag().Value.Type()))
	}
	text := err.Error()
	if stray, ok := strings.CutPrefix(text, "unknown command "); ok {
		stray, _, _ = strings.Cut(stray, " for ")
		if c.HasSubCommands() {
			return unknownCommand(c, strings.Trim(stray, `"`))
		}
		return fmt.Errorf("unexpected argument %s", stray)
	}
	var wanted, given int
	few := strings.HasPrefix(text, "requires at least ")
	if n, _ := fmt.Sscanf(text, "accepts %d arg(s), received %d", &wanted, &given); n == 2 {
		few = given < wanted
	}
	_, takes, _ := strings.Cut(c.Use, " ")
	switch {
	case few:
		return fmt.Errorf("too few arguments; %s takes %s", c.CommandPath(), takes)
	case strings.HasPrefix(text, "accepts "):
		return fmt.Errorf("too many arguments; %s takes %s", c.CommandPath(), takes)
	}
	return err
}

// wantsJSON tells whether a command line that could not be read asks for JSON.
func wantsJSON(args []string) bool {
	for i, arg := range args {
		switch arg {
		case "-ojson", "-o=json", "--output=json":
			return true
		case "-o", "--output":
			return i+1 < len(args) && args[i+1] == "json"
		}
	}
	return false
}

// kindOf is a type of flags in words.
func kindOf(flagType string) string {
	switch flagType {
	case "int", "int32", "int32Slice":
		return "a whole number of at most 2147483647"
	case "int64":
		return "a whole number of at most 9223372036854775807"
	case "duration":
		return "a duration, such as 500ms, 30s or 5m"
	case "bool":
		return "true or false"
	}
	return "a " + flagType
}

// unknownCommandError is an error of unknownCommand, which says all there is to say.
type unknownCommandError struct{ error }

func unknownCommand(c *cobra.Command, name string) error {
	hint := ""
	c.SuggestionsMinimumDistance = suggestionDistance
	if s := c.SuggestionsFor(name); len(s) > 0 {
		hint = fmt.Sprintf("; did you mean %s?", strings.Join(s, " or "))
	}
	return unknownCommandError{fmt.Errorf("unknown command %q for %q%s", name, c.CommandPath(), hint)}
}

// noun groups verbs. Alone it prints its help; an unknown verb is a usage error.
func (a *app) noun(name, short string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: name, Short: short}
	onlyGroups(c)
	c.AddCommand(verbs...)
	return c
}

func onlyGroups(c *cobra.Command) {
	c.Args = cobra.ArbitraryArgs
	c.DisableFlagsInUseLine = true
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return unknownCommand(c, args[0])
	}
}

// strictHelp makes help and completion refuse what they do not know, as every other command does. The root knows its output.
func strictHelp(root *cobra.Command) {
	root.SetHelpCommand(&cobra.Command{
		Use:   "help [COMMAND...]",
		Short: "Help about any command",
		Args:  cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil {
				return arguments(root, err)
			}
			if len(rest) > 0 {
				return unknownCommand(c, rest[0])
			}
			c.InitDefaultHelpFlag()
			c.InitDefaultVersionFlag()
			return c.Help()
		},
	})
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			onlyGroups(c)
		}
	}
}
