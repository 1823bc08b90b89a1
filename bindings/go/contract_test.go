package alluvium

// Runs the cases of bindings/contract, whose README describes their language.

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Runs a line, and compares what comes of it: `= words`, `has part`, `! kind [part]`, or nothing.
func (c *contractRun) line(line string) error {
	words := split(line)
	if len(words) == 0 {
		return nil
	}
	end := 0
	for end < len(words) && !(words[end].bare && slices.Contains([]string{"=", "!", "has"}, string(words[end].data))) {
		end++
	}
	answer, err := c.storeStep(string(words[0].data), words[1:end])
	mark, expected := textAt(words, end), words[min(end+1, len(words)):]
	var failed *Error
	agrees := err == nil
	switch {
	case mark == "!":
		agrees = errors.As(err, &failed) && string(failed.Kind) == textAt(expected, 0) && strings.Contains(failed.Text, textAt(expected, 1))
	case mark == "has":
		agrees = agrees && strings.Contains(string(answer[0]), textAt(expected, 0))
	case mark == "=":
		agrees = agrees && len(answer) == len(expected)
		for i := 0; agrees && i < len(answer); i++ {
			isAbsent := expected[i].bare && string(expected[i].data) == "absent"
			agrees = isAbsent == (answer[i] == nil) && (isAbsent || bytes.Equal(answer[i], expected[i].data))
		}
	}
	if agrees {
		return nil
	}
	return fmt.Errorf("%s  came to %q, %v", line, answer, err)
}

func runCase(steps, structure string) error {
	directory, err := os.MkdirTemp("", "contract")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	c := &contractRun{directory, map[string]any{}}
	defer func() {
		for name := range c.variables {
			c.free(name)
		}
	}()
	first := "open s memory \"--memory 16M --workers 1\"\nkeyspace k s k \"--structure " + structure + "\"\n"
	for _, line := range strings.Split(first+steps, "\n") {
		if err := c.line(line); err != nil {
			return err
		}
	}
	return nil
}

func TestTheContractSuiteHolds(t *testing.T) {
	structures := []string{"tiered", "levels,k=4", "paged", "volatile,bytes=1M", "hashed"}
	files, _ := filepath.Glob("../contract/*.toml")
	cases, runs, failed := 0, 0, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split(string(text), "[[case]]\n")[1:] {
			head, rest, _ := strings.Cut(part, "steps = '''\n")
			steps, _, _ := strings.Cut(rest, "\n'''")
			count := 1
			if strings.Contains(head, `on = "all"`) {
				count = 5
			} else if strings.Contains(head, `on = "ordered"`) {
				count = 4
			}
			cases++
			for _, structure := range structures[:count] {
				runs++
				if err := runCase(steps, structure); err != nil {
					failed++
					t.Errorf("%s (%s, %s): %v", strings.Split(head, "\n")[0], file, structure, err)
				}
			}
		}
	}
	fmt.Printf("contract: %d cases, %d runs, %d failed\n", cases, runs, failed)
	if cases < 300 {
		t.Errorf("there are only %d cases", cases)
	}
}

func TestACaseThatDoesNotHoldIsFound(t *testing.T) {
	for _, wrong := range []string{
		"get k a = 1", "put k a 1\nget k a = absent", "put k a 1\nget k a ! closed",
		`open d memory "--colour" ! closed`, `open d memory "--colour" ! invalid_argument elephant`,
		"put k a 1\niter i k\nrest i = a 1 b 2",
	} {
		if runCase(wrong, "tiered") == nil {
			t.Error(wrong)
		}
	}
}
