package alluvium

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func memory(t *testing.T) (*Store, *Keyspace) {
	t.Helper()
	store, err := Open("", "--memory 16M --workers 1")
	check(t, err)
	keyspace, err := store.Keyspace("k")
	check(t, err)
	return store, keyspace
}

func TestEveryFunctionOfTheHeaderIsBound(t *testing.T) {
	header := string(must(os.ReadFile("../c/include/alluvium.h")))
	declared := regexp.MustCompile(`(?m)^(?:const )?[a-z0-9_]+ [*]?(alluvium_[a-z_]+)\(`).FindAllStringSubmatch(header, -1)
	if len(declared) < 70 {
		t.Fatalf("only %d functions are found", len(declared))
	}
	for _, match := range declared {
		name := match[1]
		// Operators and filters of a program would call Go from threads of the library.
		if strings.HasPrefix(name, "alluvium_options") || name == "alluvium_open_with" || name == "alluvium_buffer_append" {
			continue
		}
		if !bound(name) {
			t.Errorf("%s is not bound", name)
		}
	}
}

func bound(name string) bool {
	source := string(must(os.ReadFile("library.go")))
	var field strings.Builder
	for _, part := range strings.Split(strings.TrimPrefix(name, "alluvium_"), "_") {
		field.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return strings.Contains(source, field.String())
}

func TestIteratorsAreRangedOver(t *testing.T) {
	store, k := memory(t)
	var page []byte
	for n := range 5000 {
		page = AppendRecord(page, fmt.Appendf(nil, "%05d", n), bytes.Repeat([]byte("v"), n%50))
	}
	batch, err := NewBatch("disk")
	check(t, err)
	check(t, batch.PutPage(k, page))
	check(t, store.Write(batch))
	check(t, k.Put([]byte("long"), make([]byte, 300_000)))
	for _, reverse := range []bool{false, true} {
		i, err := k.Iterate(Range{Reverse: reverse})
		check(t, err)
		count, kept := 0, [][]byte{}
		for key, value := range i.All() {
			if string(key) != "long" && len(value) != must(strconv.Atoi(string(key)))%50 {
				t.Fatalf("%s has %d bytes", key, len(value))
			}
			count, kept = count+1, append(kept, key)
		}
		check(t, i.Err())
		if count != 5001 || len(kept[2500]) != 5 {
			t.Fatalf("%d records", count)
		}
	}
	i, err := k.Iterate(Range{Prefix: []byte("012")})
	check(t, err)
	for key := range i.All() {
		if string(key) == "01205" {
			break
		}
	}
	var busy *Error
	if err := store.Close(); !errors.As(err, &busy) || busy.Kind != InUse {
		t.Fatal(err)
	}
	i.Free()
	check(t, store.Close())
	if _, err := k.Get([]byte("a")); !errors.Is(err, &Error{Kind: Closed}) {
		t.Fatal(err)
	}
}

func TestTextsWithZeroBytesAreRefused(t *testing.T) {
	store, _ := memory(t)
	if _, err := store.Keyspace("a\x00b"); !errors.Is(err, &Error{Kind: InvalidArgument}) {
		t.Fatal(err)
	}
}

func TestLongCallsEndWithTheirContext(t *testing.T) {
	store, k := memory(t)
	check(t, k.Put([]byte("a"), []byte("1")))
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, err := range []error{store.Checkpoint(ended), store.Compact(ended), store.Backup(ended, t.TempDir()+"/b")} {
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	text, err := store.Check(context.Background())
	if err != nil || !strings.Contains(text, `"whole":true`) {
		t.Fatal(text, err)
	}
}

func TestTransactionsAreRunAgain(t *testing.T) {
	store, k := memory(t)
	check(t, k.Put([]byte("n"), []byte("0")))
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 50 {
				err := store.Transact("", func(tx *Transaction) error {
					value, err := tx.Get(k, []byte("n"))
					if err != nil {
						return err
					}
					return tx.Put(k, []byte("n"), fmt.Appendf(nil, "%d", must(strconv.Atoi(string(value)))+1))
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if value := must(k.Get([]byte("n"))); string(value) != "200" {
		t.Fatalf("%s", value)
	}
}

func TestGoroutinesUseAStoreThatIsClosed(t *testing.T) {
	for range 10 {
		store, k := memory(t)
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for n := 0; ; n++ {
					err := k.Put(fmt.Appendf(nil, "%d", n%500), []byte("v"))
					var i *Iterator
					if err == nil {
						i, err = k.Iterate(Range{})
					}
					if err == nil {
						for range i.All() {
						}
						err = i.Err()
						i.Free()
					}
					if err != nil {
						if !errors.Is(err, &Error{Kind: Closed}) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		time.Sleep(time.Millisecond)
		check(t, store.ForceClose())
		store.Free()
		group.Wait()
	}
}

// Returns the memory of the process in KiB.
func resident() int {
	fields := strings.Fields(string(must(os.ReadFile("/proc/self/statm"))))
	return must(strconv.Atoi(fields[1])) * os.Getpagesize() / 1024
}

func TestAThousandOpeningsKeepNoMemory(t *testing.T) {
	if os.Getenv("MALLOC_ARENA_MAX") == "" {
		// The allocator of C keeps memory for each thread that has used it. With one arena for all, what
		// grows is what is kept.
		command := exec.Command(os.Args[0], "-test.run", t.Name())
		command.Env = append(os.Environ(), "MALLOC_ARENA_MAX=1")
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s", output)
		}
		return
	}
	before := 0
	for n := range 1000 {
		store, k := memory(t)
		check(t, k.Put([]byte("a"), []byte("1")))
		i := must(k.Iterate(Range{}))
		tx := must(store.Begin(""))
		check(t, tx.Put(k, []byte("b"), []byte("2")))
		if n%2 == 0 {
			check(t, store.ForceClose())
		}
		i.Free()
		tx.Free()
		k.Free()
		store.Free()
		if n == 299 {
			before = resident()
		}
	}
	if grown := resident() - before; grown > 16<<10 {
		t.Fatalf("700 openings kept %d KiB", grown)
	}
}

func TestObjectsThatAreLeftToTheCollectorAreFreed(t *testing.T) {
	path := t.TempDir() + "/store"
	func() {
		store, err := Open(path, "--memory 16M")
		check(t, err)
		k := must(store.Keyspace("k"))
		check(t, k.Put([]byte("a"), []byte("1")))
		must(k.Iterate(Range{}))
		check(t, must(store.Begin("")).Put(k, []byte("b"), []byte("2")))
	}()
	for {
		runtime.GC()
		store, err := Open(path, "--memory 16M")
		if err == nil {
			if value := must(must(store.Keyspace("k")).Get([]byte("a"))); string(value) != "1" {
				t.Fatalf("%s", value)
			}
			check(t, store.Close())
			return
		}
		if !errors.Is(err, &Error{Kind: Locked}) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// Random orders of open, read, write, iterate, close, free and use after close.
func TestNoOrderOfCallsIsACrash(t *testing.T) {
	steps := 100_000
	if os.Getenv("ALLUVIUM_TESTS") == "all" {
		steps = 1_000_000
	}
	draw := rand.New(rand.NewPCG(62, 20261130))
	var stores [3]*Store
	var keyspaces [6]*Keyspace
	var iterators [8]*Iterator
	var snapshots [5]*Snapshot
	var transactions [5]*Transaction
	structures := []string{"tiered", "levels,k=4", "paged", "volatile,bytes=1M", "hashed"}
	kinds := map[Kind]int{}
	note := func(err error) {
		var failed *Error
		if errors.As(err, &failed) {
			kinds[failed.Kind]++
			if failed.Kind == Panicked || failed.Kind == Corrupt || failed.Kind == IO {
				t.Fatal(err)
			}
		}
	}
	for range steps {
		s, k := draw.IntN(len(stores)), draw.IntN(len(keyspaces))
		i, p, x := draw.IntN(len(iterators)), draw.IntN(len(snapshots)), draw.IntN(len(transactions))
		store, keyspace, key := stores[s], keyspaces[k], []byte{byte('a' + draw.IntN(8))}
		verb := draw.IntN(22)
		if store == nil && verb > 0 || keyspace == nil && verb > 5 {
			verb = draw.IntN(6)
		}
		var err error
		switch {
		case verb == 0 && store == nil:
			stores[s], err = Open("", "--memory 16M --workers 1")
		case store == nil:
		case verb == 1 && draw.IntN(60) == 0:
			err = store.Close()
		case verb == 2 && draw.IntN(100) == 0:
			err = store.ForceClose()
		case verb == 3 && draw.IntN(40) == 0:
			if draw.IntN(2) == 0 {
				store.Free()
			}
			stores[s] = nil
		case verb == 4 || verb == 5:
			structure := draw.IntN(5)
			found, failed := store.KeyspaceWith(fmt.Sprint("k", structure), "--structure "+structures[structure])
			if err = failed; err == nil {
				keyspaces[k] = found
			}
		case keyspace == nil:
		case verb == 6:
			err = keyspace.Put(key, make([]byte, draw.IntN(3000)))
		case verb == 7:
			_, err = keyspace.Get(key)
		case verb == 8:
			err = keyspace.DeleteRange(key, []byte("h"))
		case verb == 9 && draw.IntN(8) == 0:
			keyspace.Free()
		case verb == 10:
			found, failed := keyspace.Iterate(Range{Start: key, Reverse: draw.IntN(2) == 0})
			if err = failed; err == nil {
				iterators[i] = found
			}
		case verb == 11 && iterators[i] != nil:
			_, _, err = iterators[i].Page(make([]byte, draw.IntN(400)), draw.IntN(2) == 0)
		case verb == 12 && iterators[i] != nil:
			for range iterators[i].All() {
				if draw.IntN(4) == 0 {
					break
				}
			}
			err = iterators[i].Err()
		case verb == 13 && iterators[i] != nil:
			iterators[i].Free()
		case verb == 14:
			found, failed := store.Snapshot()
			if err = failed; err == nil {
				snapshots[p] = found
			}
		case verb == 15 && snapshots[p] != nil:
			found, failed := snapshots[p].Iterate(keyspace, Range{})
			if err = failed; err == nil {
				iterators[i] = found
			}
		case verb == 16 && snapshots[p] != nil:
			_, err = snapshots[p].Get(keyspace, key)
		case verb == 17:
			found, failed := store.Begin("")
			if err = failed; err == nil {
				transactions[x] = found
			}
		case transactions[x] == nil:
		case verb == 18:
			err = transactions[x].Put(keyspace, key, key)
		case verb == 19:
			found, failed := transactions[x].Iterate(keyspace, Range{})
			if err = failed; err == nil {
				iterators[i] = found
			}
		case verb == 20:
			err = transactions[x].Commit()
		case verb == 21:
			transactions[x].Free()
		}
		note(err)
	}
	for _, kind := range []Kind{Closed, Ended, InUse, InvalidArgument} {
		if kinds[kind] == 0 {
			t.Errorf("no step came to %s", kind)
		}
	}
	fmt.Println("steps:", steps, "answers:", kinds)
}

func TestTheProgramOfThePageRuns(t *testing.T) {
	text := string(must(os.ReadFile("../../docs/go.md")))
	program := strings.Split(strings.Split(text, "```go\n")[1], "```")[0]
	folder, err := os.MkdirTemp(".", "page")
	check(t, err)
	defer os.RemoveAll(folder)
	check(t, os.WriteFile(filepath.Join(folder, "main.go"), []byte(program), 0o644))
	command := exec.Command("go", "run", "./"+filepath.Base(folder))
	command.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	output, err := command.CombinedOutput()
	if err != nil || string(output) != "Rhine 1233 km\nOder 840 km\nElbe 1094 km\n" {
		t.Fatalf("%v: %s", err, output)
	}
}
