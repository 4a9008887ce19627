package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/quorate/quorate/test/bench"
)

const module = "github.com/quorate/quorate"

func main() {
	markdown := flag.Bool("markdown", false, "print the table of figures as Markdown")
	flag.Parse()
	o, err := bench.Read(os.Stdin, module, func(line string) {
		if strings.HasPrefix(line, "Benchmark") {
			fmt.Fprintln(os.Stderr, line) // progress
		}
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, r := range o.Results {
		fmt.Println(r)
	}
	fmt.Println()
	if err := bench.WriteTable(os.Stdout, o, *markdown); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, line := range o.Failures {
		fmt.Fprintln(os.Stderr, line)
	}
	if len(o.Failures) > 0 {
		os.Exit(1)
	}
}
