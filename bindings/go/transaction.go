package alluvium

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"time"
	"unsafe"
)

// Transaction is a set of reads and writes that take effect together.
type Transaction struct{ handle *handle }

// Dependence says how a transaction depends on a key that it reads.
type Dependence uintptr

// How a transaction depends on a key.
const (
	// As its isolation says.
	Tracked Dependence = iota
	// Not at all.
	Untracked
	// With a shared lock, or a conflict if the key changes.
	Shared
	// With an exclusive lock, or a conflict if the key changes.
	ForUpdate
)

func (t *Transaction) with(k *Keyspace, body func(transaction, keyspace uintptr) error) error {
	return t.handle.with(func(transaction uintptr) error {
		return k.handle.with(func(keyspace uintptr) error { return body(transaction, keyspace) })
	})
}

// Get returns the value of a key as the transaction sees it, or nil if it is absent.
func (t *Transaction) Get(k *Keyspace, key []byte) ([]byte, error) { return t.GetWith(k, key, Tracked) }

// GetWith is like Get, with a declared dependence.
func (t *Transaction) GetWith(k *Keyspace, key []byte, dependence Dependence) (value []byte, err error) {
	var found uintptr
	err = t.with(k, func(transaction, keyspace uintptr) error {
		return call(lib.TransactionGet, transaction, keyspace, uintptr(dataOf(key)), uintptr(len(key)), uintptr(dependence), uintptr(unsafe.Pointer(&found)))
	})
	return takeValue(found), err
}

// Put sets the value of a key.
func (t *Transaction) Put(k *Keyspace, key, value []byte) error { return t.PutUntil(k, key, value, 0) }

// PutUntil sets a value that expires at a time in milliseconds since 1970, or never for 0.
func (t *Transaction) PutUntil(k *Keyspace, key, value []byte, expiresMs uint64) error {
	return t.with(k, func(transaction, keyspace uintptr) error {
		return call(lib.TransactionPut, transaction, keyspace, uintptr(dataOf(key)), uintptr(len(key)), uintptr(dataOf(value)), uintptr(len(value)), uintptr(expiresMs))
	})
}

// Delete deletes a key, now for 0, or at a time in milliseconds since 1970.
func (t *Transaction) Delete(k *Keyspace, key []byte, atMs uint64) error {
	return t.with(k, func(transaction, keyspace uintptr) error {
		return call(lib.TransactionDelete, transaction, keyspace, uintptr(dataOf(key)), uintptr(len(key)), uintptr(atMs))
	})
}

// DeleteRange deletes all keys from start to before end. An end of nil is the end of the keyspace.
func (t *Transaction) DeleteRange(k *Keyspace, start, end []byte) error {
	return t.with(k, func(transaction, keyspace uintptr) error {
		return call(lib.TransactionDeleteRange, transaction, keyspace, uintptr(dataOf(start)), uintptr(len(start)), uintptr(optionalOf(end)), uintptr(len(end)))
	})
}

// Merge merges an operand into the value of a key.
func (t *Transaction) Merge(k *Keyspace, key, operand []byte) error {
	return t.with(k, func(transaction, keyspace uintptr) error {
		return call(lib.TransactionMerge, transaction, keyspace, uintptr(dataOf(key)), uintptr(len(key)), uintptr(dataOf(operand)), uintptr(len(operand)))
	})
}

// DependOnRange makes the commit conflict if another changes any key of the range.
func (t *Transaction) DependOnRange(k *Keyspace, r Range) error {
	bounds := r.foreign()
	err := t.with(k, func(transaction, keyspace uintptr) error {
		return call(lib.TransactionDependOnRange, transaction, keyspace, uintptr(unsafe.Pointer(bounds)))
	})
	runtime.KeepAlive(&r)
	return err
}

// Iterate returns an iterator over a range as the transaction sees it. It ends with the transaction.
func (t *Transaction) Iterate(k *Keyspace, r Range) (*Iterator, error) {
	var address uintptr
	bounds := r.foreign()
	err := t.with(k, func(transaction, keyspace uintptr) error {
		return call(lib.TransactionIterator, transaction, keyspace, uintptr(unsafe.Pointer(bounds)), uintptr(unsafe.Pointer(&address)))
	})
	runtime.KeepAlive(&r)
	if err != nil {
		return nil, err
	}
	return newIterator(address, &r), nil
}

// Savepoint marks a place to which RollbackTo returns. It returns its number.
func (t *Transaction) Savepoint() (savepoint uint64, err error) {
	err = t.handle.with(func(transaction uintptr) error {
		return call(lib.TransactionSavepoint, transaction, uintptr(unsafe.Pointer(&savepoint)))
	})
	return savepoint, err
}

// RollbackTo takes back all writes after a savepoint, which remains.
func (t *Transaction) RollbackTo(savepoint uint64) error {
	return t.handle.with(func(transaction uintptr) error {
		return call(lib.TransactionRollbackTo, transaction, uintptr(savepoint))
	})
}

// Release removes a savepoint and those after it. Their writes remain.
func (t *Transaction) Release(savepoint uint64) error {
	return t.handle.with(func(transaction uintptr) error {
		return call(lib.TransactionRelease, transaction, uintptr(savepoint))
	})
}

// Commit commits the transaction. It has ended afterwards, also after an error.
func (t *Transaction) Commit() error { return t.CommitWith("") }

// CommitWith is like Commit, with the durability "memory", "process" or "disk".
func (t *Transaction) CommitWith(durability string) error {
	text, err := optionalText(durability)
	if err != nil {
		return err
	}
	return t.handle.with(func(transaction uintptr) error {
		return call(lib.TransactionCommit, transaction, uintptr(text))
	})
}

// Rollback rolls the transaction back.
func (t *Transaction) Rollback() error {
	return t.handle.with(func(transaction uintptr) error { return call(lib.TransactionRollback, transaction) })
}

// Free frees the transaction. One that is open is rolled back.
func (t *Transaction) Free() { t.handle.release() }

// Transact runs body with a transaction and commits it. After a conflict or a deadlock, it runs body
// again, up to 64 times.
func (s *Store) Transact(options string, body func(*Transaction) error) error {
	var err error
	for attempt := range 64 {
		err = s.try(options, body)
		if !errors.Is(err, &Error{Kind: Conflict}) && !errors.Is(err, &Error{Kind: Deadlock}) {
			return err
		}
		time.Sleep(time.Duration(rand.Int64N(int64(100_000 << min(attempt, 10)))))
	}
	return err
}

func (s *Store) try(options string, body func(*Transaction) error) error {
	transaction, err := s.Begin(options)
	if err != nil {
		return err
	}
	defer transaction.Free()
	if err := body(transaction); err != nil {
		return err
	}
	return transaction.Commit()
}
