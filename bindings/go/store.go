package alluvium

import (
	"context"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Store is an open store.
type Store struct{ handle *handle }

// Open opens the store in a directory, and creates one if there is none. An empty path opens an
// empty store in memory. The options have the syntax of the command line, such as "--memory 64M
// --durability disk".
func Open(path, options string) (*Store, error) {
	if err := Load(); err != nil {
		return nil, err
	}
	where, err := optionalText(path)
	if err != nil {
		return nil, err
	}
	text, err := textOf(options)
	if err != nil {
		return nil, err
	}
	var address uintptr
	err = call(lib.Open, uintptr(where), uintptr(text), uintptr(unsafe.Pointer(&address)))
	if err != nil {
		return nil, err
	}
	return &Store{newHandle(address, lib.StoreFree)}, nil
}

// Close closes the store. While iterators, snapshots, transactions or ingests live, it fails with
// InUse and their names.
func (s *Store) Close() error { return s.close(0) }

// ForceClose closes the store in any case. What lives on answers Closed.
func (s *Store) ForceClose() error { return s.close(1) }

func (s *Store) close(force uintptr) error {
	return s.handle.with(func(store uintptr) error { return call(lib.Close, store, force) })
}

// Free frees the object. A store that was not closed is closed with its last object.
func (s *Store) Free() { s.handle.release() }

// Sync makes everything that was written survive a power failure.
func (s *Store) Sync() error {
	return s.handle.with(func(store uintptr) error { return call(lib.Sync, store) })
}

// Runs a call that may take long. If the context ends before, its error is returned, and the call
// completes in the background.
func long(ctx context.Context, body func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- body() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Checkpoint writes everything that is in memory to its place on the disk.
func (s *Store) Checkpoint(ctx context.Context) error {
	return long(ctx, func() error {
		return s.handle.with(func(store uintptr) error { return call(lib.Checkpoint, store) })
	})
}

// Compact rewrites the store to free the space of deleted and replaced records.
func (s *Store) Compact(ctx context.Context) error {
	return long(ctx, func() error {
		return s.handle.with(func(store uintptr) error { return call(lib.Compact, store) })
	})
}

// Backup copies the store into an empty directory, while it is used.
func (s *Store) Backup(ctx context.Context, path string) error {
	where, err := textOf(path)
	if err != nil {
		return err
	}
	return long(ctx, func() error {
		return s.handle.with(func(store uintptr) error { return call(lib.Backup, store, uintptr(where)) })
	})
}

func report(function uintptr, store uintptr) (string, error) {
	var value uintptr
	if err := call(function, store, uintptr(unsafe.Pointer(&value))); err != nil {
		return "", err
	}
	return string(takeValue(value)), nil
}

func (s *Store) report(function uintptr) (text string, err error) {
	err = s.handle.with(func(store uintptr) error {
		text, err = report(function, store)
		return err
	})
	return text, err
}

// Check reads the whole store. It returns a JSON object, in which "whole" is true if there is no
// damage.
func (s *Store) Check(ctx context.Context) (string, error) {
	found := make(chan string, 1)
	err := long(ctx, func() error {
		text, err := s.report(lib.Check)
		found <- text
		return err
	})
	if err != nil {
		return "", err
	}
	return <-found, nil
}

// Stats returns the statistics of the store: a JSON object of numbers.
func (s *Store) Stats() (string, error) { return s.report(lib.Stats) }

// Keyspaces returns a JSON array of the keyspaces and their options.
func (s *Store) Keyspaces() (string, error) { return s.report(lib.Keyspaces) }

// Restore creates a store in an empty directory from a backup.
func Restore(ctx context.Context, from, to string) error {
	if err := Load(); err != nil {
		return err
	}
	source, err := textOf(from)
	if err != nil {
		return err
	}
	target, err := textOf(to)
	if err != nil {
		return err
	}
	return long(ctx, func() error { return call(lib.Restore, uintptr(source), uintptr(target), 0) })
}

// Repair repairs a damaged store that is not open. It returns a JSON object, in which "lost" lists
// what is lost.
func Repair(path string) (string, error) {
	if err := Load(); err != nil {
		return "", err
	}
	where, err := textOf(path)
	if err != nil {
		return "", err
	}
	var value uintptr
	if err := call(lib.Repair, uintptr(where), 0, uintptr(unsafe.Pointer(&value))); err != nil {
		return "", err
	}
	return string(takeValue(value)), nil
}

// Copies a value of the library, and frees it. The value of an absent key is nil.
func takeValue(value uintptr) []byte {
	if value == 0 {
		return nil
	}
	var length uintptr
	data, _, _ := purego.SyscallN(lib.ValueData, value, uintptr(unsafe.Pointer(&length)))
	bytes := append([]byte{}, unsafe.Slice((*byte)(foreign(data)), length)...)
	purego.SyscallN(lib.ValueFree, value)
	return bytes
}

// Keyspace returns the keyspace with this name, and creates it if it does not exist.
func (s *Store) Keyspace(name string) (*Keyspace, error) {
	return s.keyspace(lib.KeyspaceOpen, name, nil)
}

// KeyspaceWith is like Keyspace, with options in the syntax of the command line, such as
// "--structure levels,k=4". An existing keyspace must have the same.
func (s *Store) KeyspaceWith(name, options string) (*Keyspace, error) {
	text, err := textOf(options)
	if err != nil {
		return nil, err
	}
	return s.keyspace(lib.KeyspaceOpen, name, text)
}

// ExistingKeyspace returns the existing keyspace with this name.
func (s *Store) ExistingKeyspace(name string) (*Keyspace, error) {
	return s.keyspace(lib.KeyspaceExisting, name, nil)
}

func (s *Store) keyspace(function uintptr, name string, options unsafe.Pointer) (*Keyspace, error) {
	text, err := textOf(name)
	if err != nil {
		return nil, err
	}
	var address uintptr
	err = s.handle.with(func(store uintptr) error {
		if function == lib.KeyspaceExisting {
			return call(function, store, uintptr(text), uintptr(unsafe.Pointer(&address)))
		}
		return call(function, store, uintptr(text), uintptr(options), uintptr(unsafe.Pointer(&address)))
	})
	if err != nil {
		return nil, err
	}
	return &Keyspace{newHandle(address, lib.KeyspaceFree)}, nil
}

// DropKeyspace drops a keyspace and everything in it.
func (s *Store) DropKeyspace(name string) error {
	text, err := textOf(name)
	if err != nil {
		return err
	}
	return s.handle.with(func(store uintptr) error { return call(lib.KeyspaceDrop, store, uintptr(text)) })
}

// RenameKeyspace renames a keyspace. Its objects stay valid.
func (s *Store) RenameKeyspace(from, to string) error {
	source, err := textOf(from)
	if err != nil {
		return err
	}
	target, err := textOf(to)
	if err != nil {
		return err
	}
	return s.handle.with(func(store uintptr) error {
		return call(lib.KeyspaceRename, store, uintptr(source), uintptr(target))
	})
}

// Write writes a batch: all of it takes effect, or nothing.
func (s *Store) Write(batch *Batch) error {
	return s.handle.with(func(store uintptr) error {
		return batch.handle.with(func(batch uintptr) error { return call(lib.Write, store, batch) })
	})
}

// Snapshot returns a snapshot of everything that was committed.
func (s *Store) Snapshot() (*Snapshot, error) { return s.snapshot(lib.SnapshotCreate, nil) }

// CreateSnapshot returns a snapshot that the store keeps until it is removed.
func (s *Store) CreateSnapshot(name string) (*Snapshot, error) {
	text, err := textOf(name)
	if err != nil {
		return nil, err
	}
	return s.snapshot(lib.SnapshotCreate, text)
}

// OpenSnapshot opens a named snapshot.
func (s *Store) OpenSnapshot(name string) (*Snapshot, error) {
	text, err := textOf(name)
	if err != nil {
		return nil, err
	}
	return s.snapshot(lib.SnapshotOpen, text)
}

func (s *Store) snapshot(function uintptr, name unsafe.Pointer) (*Snapshot, error) {
	var address uintptr
	err := s.handle.with(func(store uintptr) error {
		return call(function, store, uintptr(name), uintptr(unsafe.Pointer(&address)))
	})
	if err != nil {
		return nil, err
	}
	return &Snapshot{newHandle(address, lib.SnapshotFree)}, nil
}

// RemoveSnapshot removes a named snapshot.
func (s *Store) RemoveSnapshot(name string) error {
	text, err := textOf(name)
	if err != nil {
		return err
	}
	return s.handle.with(func(store uintptr) error { return call(lib.SnapshotRemove, store, uintptr(text)) })
}

// Begin begins a transaction. The options have the syntax of the command line, such as
// "--isolation snapshot --locking".
func (s *Store) Begin(options string) (*Transaction, error) {
	text, err := textOf(options)
	if err != nil {
		return nil, err
	}
	var address uintptr
	err = s.handle.with(func(store uintptr) error {
		return call(lib.TransactionBegin, store, uintptr(text), uintptr(unsafe.Pointer(&address)))
	})
	if err != nil {
		return nil, err
	}
	return &Transaction{newHandle(address, lib.TransactionFree)}, nil
}

// Batch is a list of writes that take effect together.
type Batch struct{ handle *handle }

// NewBatch returns an empty batch. The durability is "memory", "process" or "disk", or empty for
// that of the store.
func NewBatch(durability string) (*Batch, error) {
	if err := Load(); err != nil {
		return nil, err
	}
	text, err := optionalText(durability)
	if err != nil {
		return nil, err
	}
	var address uintptr
	if err := call(lib.BatchCreate, uintptr(text), uintptr(unsafe.Pointer(&address))); err != nil {
		return nil, err
	}
	return &Batch{newHandle(address, lib.BatchFree)}, nil
}

// Free frees the batch.
func (b *Batch) Free() { b.handle.release() }

func (b *Batch) with(k *Keyspace, body func(batch, keyspace uintptr) error) error {
	return b.handle.with(func(batch uintptr) error {
		return k.handle.with(func(keyspace uintptr) error { return body(batch, keyspace) })
	})
}

// Put adds a put, whose value expires at a time in milliseconds since 1970, or never for 0.
func (b *Batch) Put(k *Keyspace, key, value []byte, expiresMs uint64) error {
	return b.with(k, func(batch, keyspace uintptr) error {
		return call(lib.BatchPut, batch, keyspace, uintptr(dataOf(key)), uintptr(len(key)), uintptr(dataOf(value)), uintptr(len(value)), uintptr(expiresMs))
	})
}

// Delete adds a delete, now for 0, or at a time in milliseconds since 1970.
func (b *Batch) Delete(k *Keyspace, key []byte, atMs uint64) error {
	return b.with(k, func(batch, keyspace uintptr) error {
		return call(lib.BatchDelete, batch, keyspace, uintptr(dataOf(key)), uintptr(len(key)), uintptr(atMs))
	})
}

// DeleteRange adds a range delete. An end of nil is the end of the keyspace.
func (b *Batch) DeleteRange(k *Keyspace, start, end []byte) error {
	return b.with(k, func(batch, keyspace uintptr) error {
		return call(lib.BatchDeleteRange, batch, keyspace, uintptr(dataOf(start)), uintptr(len(start)), uintptr(optionalOf(end)), uintptr(len(end)))
	})
}

// Merge adds a merge.
func (b *Batch) Merge(k *Keyspace, key, operand []byte) error {
	return b.with(k, func(batch, keyspace uintptr) error {
		return call(lib.BatchMerge, batch, keyspace, uintptr(dataOf(key)), uintptr(len(key)), uintptr(dataOf(operand)), uintptr(len(operand)))
	})
}

// PutPage adds a put for each record of a page, which AppendRecord builds. It needs one call of the
// library for all of them.
func (b *Batch) PutPage(k *Keyspace, page []byte) error {
	return b.with(k, func(batch, keyspace uintptr) error {
		return call(lib.BatchPutPage, batch, keyspace, uintptr(dataOf(page)), uintptr(len(page)))
	})
}

// Len returns the number of writes.
func (b *Batch) Len() (length int) {
	_ = b.handle.with(func(batch uintptr) error {
		count, _, _ := purego.SyscallN(lib.BatchCount, batch)
		length = int(count)
		return nil
	})
	return length
}

// Clear removes all writes.
func (b *Batch) Clear() {
	_ = b.handle.with(func(batch uintptr) error {
		purego.SyscallN(lib.BatchClear, batch)
		return nil
	})
	runtime.KeepAlive(b)
}
