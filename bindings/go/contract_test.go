package alluvium

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func runCase(steps, structure string) error {
	c := &contractRun{directory: must(os.MkdirTemp("", "contract")), variables: map[string]any{}}
	defer os.RemoveAll(c.directory)
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
		"put k a 1\niter i k\nrest i = a 1 b 2", "put k a 1\niter i k\nrest i =",
	} {
		if runCase(wrong, "tiered") == nil {
			t.Error(wrong)
		}
	}
}
