package alluvium

// Runs the steps of the cases.

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

type contractRun struct {
	directory string
	variables map[string]any
}

// Returns a variable. One that was freed is an object whose handle is NULL.
func get[T any](c *contractRun, name word) T {
	found, is := c.variables[string(name.data)].(T)
	if !is {
		panic(fmt.Sprintf("there is no variable %s", name.data))
	}
	return found
}

// Sets a variable, unless there is an error. One with this name is freed first.
func set[T any](c *contractRun, name word, value T, err error) ([][]byte, error) {
	c.free(string(name.data))
	if err == nil {
		c.variables[string(name.data)] = value
	}
	return nil, err
}

func (c *contractRun) free(name string) {
	if freed, is := c.variables[name].(interface{ Free() }); is {
		freed.Free()
	}
}

func (c *contractRun) path(w word) string {
	if string(w.data) == "memory" {
		return ""
	}
	return filepath.Join(c.directory, string(w.data[1:]))
}

func (c *contractRun) pages(i *Iterator, reverse bool, size int) (answer [][]byte, err error) {
	page := make([]byte, max(size, 200_000*(1-min(size, 1))))
	for {
		records, filled, err := i.Page(page, reverse)
		if err != nil {
			return nil, err
		}
		if records == 0 && filled > len(page) {
			answer = append(answer, []byte("short"), []byte(strconv.Itoa(filled)))
		}
		rest := page[:min(filled, len(page)*min(records, 1))]
		for key, value, behind, found := NextRecord(rest); found; key, value, behind, found = NextRecord(behind) {
			answer = append(answer, bytes.Clone(key), append([]byte{}, value...))
		}
		if records == 0 || size > 0 {
			return answer, nil
		}
	}
}

func one(value []byte, err error) ([][]byte, error) { return [][]byte{value}, err }
func said(value any, err error) ([][]byte, error)   { return [][]byte{fmt.Append(nil, value)}, err }
func done(err error) ([][]byte, error)              { return nil, err }

func (c *contractRun) storeStep(verb string, w []word) ([][]byte, error) {
	background := context.Background()
	store := func(at int) *Store { return get[*Store](c, w[at]) }
	switch verb {
	case "open":
		c.free(string(w[0].data))
		opened, err := Open(c.path(w[1]), textAt(w, 2))
		return set(c, w[0], opened, err)
	case "close":
		return done(store(0).Close())
	case "force-close":
		return done(store(0).ForceClose())
	case "free":
		c.free(string(w[0].data))
		return nil, nil
	case "sync":
		return done(store(0).Sync())
	case "checkpoint":
		return done(store(0).Checkpoint(background))
	case "compact":
		return done(store(0).Compact(background))
	case "check":
		return said(store(0).Check(background))
	case "stats":
		return said(store(0).Stats())
	case "keyspaces":
		return said(store(0).Keyspaces())
	case "backup":
		return done(store(0).Backup(background, c.path(w[1])))
	case "restore":
		return done(Restore(background, c.path(w[0]), c.path(w[1])))
	case "repair":
		return said(Repair(c.path(w[0])))
	case "keyspace":
		if len(w) > 3 {
			found, err := store(1).KeyspaceWith(textAt(w, 2), textAt(w, 3))
			return set(c, w[0], found, err)
		}
		found, err := store(1).Keyspace(textAt(w, 2))
		return set(c, w[0], found, err)
	case "existing":
		found, err := store(1).ExistingKeyspace(textAt(w, 2))
		return set(c, w[0], found, err)
	case "drop":
		return done(store(0).DropKeyspace(textAt(w, 1)))
	case "rename":
		return done(store(0).RenameKeyspace(textAt(w, 1), textAt(w, 2)))
	case "write":
		return done(store(0).Write(get[*Batch](c, w[1])))
	case "snapshot":
		if len(w) > 2 {
			found, err := store(1).CreateSnapshot(textAt(w, 2))
			return set(c, w[0], found, err)
		}
		found, err := store(1).Snapshot()
		return set(c, w[0], found, err)
	case "snapshot-open":
		found, err := store(1).OpenSnapshot(textAt(w, 2))
		return set(c, w[0], found, err)
	case "snapshot-remove":
		return done(store(0).RemoveSnapshot(textAt(w, 1)))
	case "begin":
		found, err := store(1).Begin(textAt(w, 2))
		return set(c, w[0], found, err)
	case "sleep":
		time.Sleep(time.Duration(number(w, 0)) * time.Millisecond)
		return nil, nil
	}
	return c.recordStep(verb, w)
}

func (c *contractRun) recordStep(verb string, w []word) ([][]byte, error) {
	key := func(at int) []byte { return w[at].data }
	keyspace := func(at int) *Keyspace { return get[*Keyspace](c, w[at]) }
	switch verb {
	case "put":
		return done(keyspace(0).PutUntil(key(1), key(2), number(w, 3)))
	case "get":
		return one(keyspace(0).Get(key(1)))
	case "take":
		return one(keyspace(0).Take(key(1)))
	case "contains":
		return said(keyspace(0).Contains(key(1)))
	case "cas":
		return said(keyspace(0).CompareAndSet(key(1), optionalWord(w[2]), optionalWord(w[3])))
	case "delete":
		return done(keyspace(0).DeleteAt(key(1), number(w, 2)))
	case "delete-range":
		return done(keyspace(0).DeleteRange(key(1), optionalWord(w[2])))
	case "merge":
		return done(keyspace(0).Merge(key(1), key(2)))
	case "multi-get":
		var keys [][]byte
		for _, w := range w[1:] {
			keys = append(keys, w.data)
		}
		return keyspace(0).MultiGet(keys...)
	case "ingest":
		found, err := keyspace(1).Ingest()
		return set(c, w[0], found, err)
	case "ingest-put":
		return done(get[*Ingest](c, w[0]).PutPage(AppendRecord(nil, key(1), key(2))))
	case "ingest-finish":
		return said(get[*Ingest](c, w[0]).Finish())
	case "iter":
		found, err := keyspace(1).Iterate(rangeOf(w[2:]))
		return set(c, w[0], found, err)
	case "snapshot-get":
		return one(get[*Snapshot](c, w[0]).Get(keyspace(1), key(2)))
	case "snapshot-iter":
		found, err := get[*Snapshot](c, w[1]).Iterate(keyspace(2), rangeOf(w[3:]))
		return set(c, w[0], found, err)
	case "rest", "rest-back", "page", "page-back":
		return c.pages(get[*Iterator](c, w[0]), strings.HasSuffix(verb, "-back"), int(number(w, 1)))
	case "seek":
		return done(get[*Iterator](c, w[0]).Seek(key(1)))
	case "batch":
		found, err := NewBatch(textAt(w, 1))
		return set(c, w[0], found, err)
	case "batch-put":
		return done(get[*Batch](c, w[0]).Put(keyspace(1), key(2), key(3), number(w, 4)))
	case "batch-delete":
		return done(get[*Batch](c, w[0]).Delete(keyspace(1), key(2), number(w, 3)))
	case "batch-delete-range":
		return done(get[*Batch](c, w[0]).DeleteRange(keyspace(1), key(2), optionalWord(w[3])))
	case "batch-merge":
		return done(get[*Batch](c, w[0]).Merge(keyspace(1), key(2), key(3)))
	case "batch-count":
		return said(get[*Batch](c, w[0]).Len(), nil)
	case "batch-clear":
		get[*Batch](c, w[0]).Clear()
		return nil, nil
	}
	return c.transactionStep(verb, w)
}

func (c *contractRun) transactionStep(verb string, w []word) ([][]byte, error) {
	key := func(at int) []byte { return w[at].data }
	keyspace := func(at int) *Keyspace { return get[*Keyspace](c, w[at]) }
	tx := func(at int) *Transaction { return get[*Transaction](c, w[at]) }
	switch verb {
	case "tx-iter":
		found, err := tx(1).Iterate(keyspace(2), rangeOf(w[3:]))
		return set(c, w[0], found, err)
	case "tx-get":
		kinds := map[string]Dependence{"untracked": Untracked, "shared": Shared, "update": ForUpdate}
		return one(tx(0).GetWith(keyspace(1), key(2), kinds[textAt(w, 3)]))
	case "tx-put":
		return done(tx(0).PutUntil(keyspace(1), key(2), key(3), number(w, 4)))
	case "tx-delete":
		return done(tx(0).Delete(keyspace(1), key(2), number(w, 3)))
	case "tx-delete-range":
		return done(tx(0).DeleteRange(keyspace(1), key(2), optionalWord(w[3])))
	case "tx-merge":
		return done(tx(0).Merge(keyspace(1), key(2), key(3)))
	case "tx-depend":
		return done(tx(0).DependOnRange(keyspace(1), rangeOf(w[2:])))
	case "savepoint":
		savepoint, err := tx(1).Savepoint()
		return set(c, w[0], savepoint, err)
	case "rollback-to":
		return done(tx(0).RollbackTo(get[uint64](c, w[1])))
	case "release":
		return done(tx(0).Release(get[uint64](c, w[1])))
	case "commit":
		return done(tx(0).CommitWith(textAt(w, 1)))
	case "rollback":
		return done(tx(0).Rollback())
	}
	panic(verb + " is no verb")
}
