package alluvium

// Runs the cases of bindings/contract, whose README describes their language.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A word of a step. Plain ones are bare.
type word struct {
	data []byte
	bare bool
}

// Splits a line into words: plain ones, or quoted ones with escapes and a count: "ab\x00"*3.
func split(line string) (words []word) {
	for {
		line = strings.TrimLeft(line, " ")
		if line == "" || line[0] == '#' {
			return words
		}
		if line[0] != '"' {
			text, rest, _ := strings.Cut(line, " ")
			words, line = append(words, word{[]byte(text), true}), rest
			continue
		}
		end := 1
		for ; line[end] != '"'; end++ {
			if line[end] == '\\' {
				end++
			}
		}
		text := must(strconv.Unquote(line[:end+1]))
		line = line[end+1:]
		if strings.HasPrefix(line, "*") {
			count, rest, _ := strings.Cut(line[1:], " ")
			text, line = strings.Repeat(text, must(strconv.Atoi(count))), rest
		}
		words = append(words, word{[]byte(text), false})
	}
}

// A case that runs: its variables, and the words of the present step, of which the first is the verb.
type contractRun struct {
	directory string
	variables map[string]any
	words     []word
}

type answer struct {
	values [][]byte
	err    error
}

func one(value []byte, err error) answer { return answer{[][]byte{value}, err} }
func said(value any, err error) answer   { return answer{[][]byte{fmt.Append(nil, value)}, err} }
func done(err error) answer              { return answer{nil, err} }
func just(call func()) answer            { call(); return answer{} }

// Sets a variable, unless there is an error. One with this name is freed first.
func set[T any](c *contractRun) func(T, error) answer {
	return func(value T, err error) answer {
		if err == nil {
			c.free(c.text(1))
			c.variables[c.text(1)] = value
		}
		return done(err)
	}
}

// Returns a variable. One that was freed is an object whose handle is NULL.
func get[T any](c *contractRun, at int) T {
	found, is := c.variables[c.text(at)].(T)
	if !is {
		panic("there is no variable " + c.text(at))
	}
	return found
}

func (c *contractRun) free(name string) {
	if freed, is := c.variables[name].(interface{ Free() }); is {
		freed.Free()
	}
}

func (c *contractRun) store(at int) *Store       { return get[*Store](c, at) }
func (c *contractRun) space(at int) *Keyspace    { return get[*Keyspace](c, at) }
func (c *contractRun) batch() *Batch             { return get[*Batch](c, 1) }
func (c *contractRun) tx() *Transaction          { return get[*Transaction](c, 1) }
func (c *contractRun) snapshot(at int) *Snapshot { return get[*Snapshot](c, at) }
func (c *contractRun) key(at int) []byte         { return c.words[at].data }
func (c *contractRun) number(at int) uint64 {
	if c.text(at) == "soon" {
		return uint64(time.Now().UnixMilli()) + 40
	}
	value, _ := strconv.ParseUint(c.text(at), 10, 64)
	return value
}

func (c *contractRun) text(at int) string {
	if at >= len(c.words) {
		return ""
	}
	return string(c.words[at].data)
}

func (c *contractRun) optional(at int) []byte {
	if c.words[at].bare && c.text(at) == "none" {
		return nil
	}
	return c.key(at)
}

func (c *contractRun) path(at int) string {
	if c.text(at) == "memory" {
		return ""
	}
	return filepath.Join(c.directory, c.text(at)[1:])
}

func (c *contractRun) span(at int) (r Range) {
	for ; at < len(c.words); at++ {
		switch verb := c.text(at); verb {
		case "keys":
			r.KeysOnly = true
		case "unordered":
			r.Unordered = true
		case "from", "after":
			at, r.Start, r.AfterStart = at+1, c.key(at+1), verb == "after"
		case "to", "through":
			at, r.End, r.ThroughEnd = at+1, c.key(at+1), verb == "through"
		case "prefix":
			at, r.Prefix = at+1, c.key(at+1)
		}
	}
	return r
}

func (c *contractRun) pages(reverse bool) (found answer) {
	size := int(c.number(2))
	page := make([]byte, max(size, 200_000*(1-min(size, 1))))
	for {
		records, filled, err := get[*Iterator](c, 1).Page(page, reverse)
		if err != nil {
			return done(err)
		}
		if records == 0 && filled > len(page) {
			found.values = append(found.values, []byte("short"), fmt.Append(nil, filled))
		}
		rest := page[:min(filled, len(page)*min(records, 1))]
		for key, value, behind, is := NextRecord(rest); is; key, value, behind, is = NextRecord(behind) {
			found.values = append(found.values, bytes.Clone(key), append([]byte{}, value...))
		}
		if records == 0 || size > 0 {
			return found
		}
	}
}

var background = context.Background()
var dependences = map[string]Dependence{"untracked": Untracked, "shared": Shared, "update": ForUpdate}

var steps = map[string]func(*contractRun) answer{
	"open": func(c *contractRun) answer {
		c.free(c.text(1))
		return set[*Store](c)(Open(c.path(2), c.text(3)))
	},
	"close":       func(c *contractRun) answer { return done(c.store(1).Close()) },
	"force-close": func(c *contractRun) answer { return done(c.store(1).ForceClose()) },
	"free":        func(c *contractRun) answer { return just(func() { c.free(c.text(1)) }) },
	"sync":        func(c *contractRun) answer { return done(c.store(1).Sync()) },
	"checkpoint":  func(c *contractRun) answer { return done(c.store(1).Checkpoint(background)) },
	"compact":     func(c *contractRun) answer { return done(c.store(1).Compact(background)) },
	"check":       func(c *contractRun) answer { return said(c.store(1).Check(background)) },
	"stats":       func(c *contractRun) answer { return said(c.store(1).Stats()) },
	"keyspaces":   func(c *contractRun) answer { return said(c.store(1).Keyspaces()) },
	"backup":      func(c *contractRun) answer { return done(c.store(1).Backup(background, c.path(2))) },
	"restore":     func(c *contractRun) answer { return done(Restore(background, c.path(1), c.path(2))) },
	"repair":      func(c *contractRun) answer { return said(Repair(c.path(1))) },
	"keyspace": func(c *contractRun) answer {
		if len(c.words) > 4 {
			return set[*Keyspace](c)(c.store(2).KeyspaceWith(c.text(3), c.text(4)))
		}
		return set[*Keyspace](c)(c.store(2).Keyspace(c.text(3)))
	},
	"existing": func(c *contractRun) answer { return set[*Keyspace](c)(c.store(2).ExistingKeyspace(c.text(3))) },
	"drop":     func(c *contractRun) answer { return done(c.store(1).DropKeyspace(c.text(2))) },
	"rename":   func(c *contractRun) answer { return done(c.store(1).RenameKeyspace(c.text(2), c.text(3))) },
	"write":    func(c *contractRun) answer { return done(c.store(1).Write(get[*Batch](c, 2))) },
	"snapshot": func(c *contractRun) answer {
		if len(c.words) > 3 {
			return set[*Snapshot](c)(c.store(2).CreateSnapshot(c.text(3)))
		}
		return set[*Snapshot](c)(c.store(2).Snapshot())
	},
	"snapshot-open":   func(c *contractRun) answer { return set[*Snapshot](c)(c.store(2).OpenSnapshot(c.text(3))) },
	"snapshot-remove": func(c *contractRun) answer { return done(c.store(1).RemoveSnapshot(c.text(2))) },
	"sleep": func(c *contractRun) answer {
		return just(func() { time.Sleep(time.Duration(c.number(1)) * time.Millisecond) })
	},
	"put":      func(c *contractRun) answer { return done(c.space(1).PutUntil(c.key(2), c.key(3), c.number(4))) },
	"get":      func(c *contractRun) answer { return one(c.space(1).Get(c.key(2))) },
	"take":     func(c *contractRun) answer { return one(c.space(1).Take(c.key(2))) },
	"contains": func(c *contractRun) answer { return said(c.space(1).Contains(c.key(2))) },
	"cas": func(c *contractRun) answer {
		return said(c.space(1).CompareAndSet(c.key(2), c.optional(3), c.optional(4)))
	},
	"delete":       func(c *contractRun) answer { return done(c.space(1).DeleteAt(c.key(2), c.number(3))) },
	"delete-range": func(c *contractRun) answer { return done(c.space(1).DeleteRange(c.key(2), c.optional(3))) },
	"merge":        func(c *contractRun) answer { return done(c.space(1).Merge(c.key(2), c.key(3))) },
	"multi-get": func(c *contractRun) (found answer) {
		var keys [][]byte
		for _, word := range c.words[2:] {
			keys = append(keys, word.data)
		}
		found.values, found.err = c.space(1).MultiGet(keys...)
		return found
	},
	"ingest": func(c *contractRun) answer { return set[*Ingest](c)(c.space(2).Ingest()) },
	"ingest-put": func(c *contractRun) answer {
		return done(get[*Ingest](c, 1).PutPage(AppendRecord(nil, c.key(2), c.key(3))))
	},
	"ingest-finish":      func(c *contractRun) answer { return said(get[*Ingest](c, 1).Finish()) },
	"iter":               func(c *contractRun) answer { return set[*Iterator](c)(c.space(2).Iterate(c.span(3))) },
	"snapshot-get":       func(c *contractRun) answer { return one(c.snapshot(1).Get(c.space(2), c.key(3))) },
	"snapshot-iter":      func(c *contractRun) answer { return set[*Iterator](c)(c.snapshot(2).Iterate(c.space(3), c.span(4))) },
	"rest":               func(c *contractRun) answer { return c.pages(false) },
	"rest-back":          func(c *contractRun) answer { return c.pages(true) },
	"page":               func(c *contractRun) answer { return c.pages(false) },
	"page-back":          func(c *contractRun) answer { return c.pages(true) },
	"seek":               func(c *contractRun) answer { return done(get[*Iterator](c, 1).Seek(c.key(2))) },
	"batch":              func(c *contractRun) answer { return set[*Batch](c)(NewBatch(c.text(2))) },
	"batch-put":          func(c *contractRun) answer { return done(c.batch().Put(c.space(2), c.key(3), c.key(4), c.number(5))) },
	"batch-delete":       func(c *contractRun) answer { return done(c.batch().Delete(c.space(2), c.key(3), c.number(4))) },
	"batch-delete-range": func(c *contractRun) answer { return done(c.batch().DeleteRange(c.space(2), c.key(3), c.optional(4))) },
	"batch-merge":        func(c *contractRun) answer { return done(c.batch().Merge(c.space(2), c.key(3), c.key(4))) },
	"batch-count":        func(c *contractRun) answer { return said(c.batch().Len(), nil) },
	"batch-clear":        func(c *contractRun) answer { return just(c.batch().Clear) },
	"begin":              func(c *contractRun) answer { return set[*Transaction](c)(c.store(2).Begin(c.text(3))) },
	"tx-iter": func(c *contractRun) answer {
		return set[*Iterator](c)(get[*Transaction](c, 2).Iterate(c.space(3), c.span(4)))
	},
	"tx-get":          func(c *contractRun) answer { return one(c.tx().GetWith(c.space(2), c.key(3), dependences[c.text(4)])) },
	"tx-put":          func(c *contractRun) answer { return done(c.tx().PutUntil(c.space(2), c.key(3), c.key(4), c.number(5))) },
	"tx-delete":       func(c *contractRun) answer { return done(c.tx().Delete(c.space(2), c.key(3), c.number(4))) },
	"tx-delete-range": func(c *contractRun) answer { return done(c.tx().DeleteRange(c.space(2), c.key(3), c.optional(4))) },
	"tx-merge":        func(c *contractRun) answer { return done(c.tx().Merge(c.space(2), c.key(3), c.key(4))) },
	"tx-depend":       func(c *contractRun) answer { return done(c.tx().DependOnRange(c.space(2), c.span(3))) },
	"savepoint":       func(c *contractRun) answer { return set[uint64](c)(get[*Transaction](c, 2).Savepoint()) },
	"rollback-to":     func(c *contractRun) answer { return done(c.tx().RollbackTo(get[uint64](c, 2))) },
	"release":         func(c *contractRun) answer { return done(c.tx().Release(get[uint64](c, 2))) },
	"commit":          func(c *contractRun) answer { return done(c.tx().CommitWith(c.text(2))) },
	"rollback":        func(c *contractRun) answer { return done(c.tx().Rollback()) },
}

// Runs a line, and compares what comes of it: `= words`, `has part`, `! kind [part]`, or nothing.
func (c *contractRun) line(line string) error {
	words := split(line)
	if len(words) == 0 {
		return nil
	}
	end := slices.IndexFunc(append(words, word{[]byte("="), true}), func(w word) bool {
		return w.bare && slices.Contains([]string{"=", "!", "has"}, string(w.data))
	})
	c.words = words[:end]
	came := steps[c.text(0)](c)
	c.words = words[end:]
	expected := c.words[min(1, len(c.words)):]
	var failed *Error
	agrees := came.err == nil
	switch c.text(0) {
	case "!":
		agrees = errors.As(came.err, &failed) && string(failed.Kind) == c.text(1) && strings.Contains(failed.Text, c.text(2))
	case "has":
		agrees = agrees && strings.Contains(string(came.values[0]), c.text(1))
	case "=":
		agrees = agrees && slices.EqualFunc(came.values, expected, func(value []byte, w word) bool {
			isAbsent := w.bare && string(w.data) == "absent"
			return isAbsent == (value == nil) && (isAbsent || bytes.Equal(value, w.data))
		})
	}
	if agrees {
		return nil
	}
	return fmt.Errorf("%s  came to %q, %v", line, came.values, came.err)
}
