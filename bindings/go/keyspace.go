package alluvium

import (
	"encoding/binary"
	"sync"
	"unsafe"
)

// Keyspace is a map from keys to values, in the order of the keys or hashed.
type Keyspace struct{ handle *handle }

// Free frees the object; the keyspace remains.
func (k *Keyspace) Free() { k.handle.release() }

// A place for the short value of a key.
type valueBuffer struct {
	length uintptr
	bytes  [1024]byte
}

var buffers = sync.Pool{New: func() any { return new(valueBuffer) }}

const absent = ^uintptr(0)

// Get returns the value of a key, or nil if the key is absent.
func (k *Keyspace) Get(key []byte) (value []byte, err error) {
	buffer := buffers.Get().(*valueBuffer)
	defer buffers.Put(buffer)
	k.handle.lock.RLock()
	defer k.handle.lock.RUnlock()
	err = call(lib.GetInto, k.handle.address, uintptr(dataOf(key)), uintptr(len(key)), uintptr(unsafe.Pointer(&buffer.bytes)), uintptr(len(buffer.bytes)), uintptr(unsafe.Pointer(&buffer.length)))
	if err != nil || buffer.length == absent {
		return nil, err
	}
	if buffer.length <= uintptr(len(buffer.bytes)) {
		return append([]byte{}, buffer.bytes[:buffer.length]...), nil
	}
	var found uintptr
	err = call(lib.Get, k.handle.address, uintptr(dataOf(key)), uintptr(len(key)), uintptr(unsafe.Pointer(&found)))
	return takeValue(found), err
}

// Contains returns whether a key has a value.
func (k *Keyspace) Contains(key []byte) (bool, error) {
	var found int32
	err := k.handle.with(func(keyspace uintptr) error {
		return call(lib.Contains, keyspace, uintptr(dataOf(key)), uintptr(len(key)), uintptr(unsafe.Pointer(&found)))
	})
	return found != 0, err
}

// MultiGet returns the values of keys, which is faster than one after the other.
func (k *Keyspace) MultiGet(keys ...[]byte) (values [][]byte, err error) {
	if len(keys) == 0 {
		return nil, k.handle.with(func(keyspace uintptr) error { return call(lib.MultiGet, keyspace, 0, 0, 0, 0) })
	}
	// The keys stand one after the other, because memory of C may hold no pointers of Go.
	var all []byte
	for _, key := range keys {
		all = append(all, key...)
	}
	all = append(all, 0)
	lengths, found := make([]uintptr, len(keys)), make([]uintptr, len(keys))
	err = k.handle.with(func(keyspace uintptr) error {
		pointers := make([]unsafe.Pointer, len(keys))
		at := 0
		for i, key := range keys {
			pointers[i] = unsafe.Pointer(&all[at])
			lengths[i] = uintptr(len(key))
			at += len(key)
		}
		return call(lib.MultiGet, keyspace, uintptr(len(keys)), uintptr(unsafe.Pointer(&pointers[0])), uintptr(unsafe.Pointer(&lengths[0])), uintptr(unsafe.Pointer(&found[0])))
	})
	if err != nil {
		return nil, err
	}
	for _, value := range found {
		values = append(values, takeValue(value))
	}
	return values, nil
}

// Put sets the value of a key.
func (k *Keyspace) Put(key, value []byte) error { return k.PutUntil(key, value, 0) }

// PutUntil sets a value that expires at a time in milliseconds since 1970, or never for 0.
func (k *Keyspace) PutUntil(key, value []byte, expiresMs uint64) error {
	return k.handle.with(func(keyspace uintptr) error {
		return call(lib.Put, keyspace, uintptr(dataOf(key)), uintptr(len(key)), uintptr(dataOf(value)), uintptr(len(value)), uintptr(expiresMs))
	})
}

// Delete deletes a key. An absent key is no error.
func (k *Keyspace) Delete(key []byte) error { return k.DeleteAt(key, 0) }

// DeleteAt deletes a key at a time in milliseconds since 1970.
func (k *Keyspace) DeleteAt(key []byte, atMs uint64) error {
	return k.handle.with(func(keyspace uintptr) error {
		return call(lib.Delete, keyspace, uintptr(dataOf(key)), uintptr(len(key)), uintptr(atMs))
	})
}

// Take deletes a key and returns its value, or nil if it was absent.
func (k *Keyspace) Take(key []byte) (value []byte, err error) {
	var found uintptr
	err = k.handle.with(func(keyspace uintptr) error {
		return call(lib.Take, keyspace, uintptr(dataOf(key)), uintptr(len(key)), uintptr(unsafe.Pointer(&found)))
	})
	return takeValue(found), err
}

// DeleteRange deletes all keys from start to before end. An end of nil is the end of the keyspace.
func (k *Keyspace) DeleteRange(start, end []byte) error {
	return k.handle.with(func(keyspace uintptr) error {
		return call(lib.DeleteRange, keyspace, uintptr(dataOf(start)), uintptr(len(start)), uintptr(optionalOf(end)), uintptr(len(end)))
	})
}

// Merge merges an operand into the value of a key.
func (k *Keyspace) Merge(key, operand []byte) error {
	return k.handle.with(func(keyspace uintptr) error {
		return call(lib.Merge, keyspace, uintptr(dataOf(key)), uintptr(len(key)), uintptr(dataOf(operand)), uintptr(len(operand)))
	})
}

// CompareAndSet sets a key to a value if it has the expected one. A nil is an absent key.
func (k *Keyspace) CompareAndSet(key, expected, value []byte) (bool, error) {
	var isSet int32
	err := k.handle.with(func(keyspace uintptr) error {
		return call(lib.CompareAndSet, keyspace, uintptr(dataOf(key)), uintptr(len(key)), uintptr(optionalOf(expected)), uintptr(len(expected)), uintptr(optionalOf(value)), uintptr(len(value)), uintptr(unsafe.Pointer(&isSet)))
	})
	return isSet != 0, err
}

// ApproximateCount estimates the number of keys.
func (k *Keyspace) ApproximateCount() (count uint64, err error) {
	err = k.handle.with(func(keyspace uintptr) error {
		return call(lib.ApproximateCount, keyspace, uintptr(unsafe.Pointer(&count)))
	})
	return count, err
}

// AppendRecord appends a record to a page.
func AppendRecord(page, key, value []byte) []byte {
	page = binary.LittleEndian.AppendUint32(page, uint32(len(key)))
	page = binary.LittleEndian.AppendUint32(page, uint32(len(value)))
	return append(append(page, key...), value...)
}

// Ingest is a load of records in the order of their keys.
type Ingest struct{ handle *handle }

// Ingest begins to load records in the order of their keys. They become visible together.
func (k *Keyspace) Ingest() (*Ingest, error) {
	var address uintptr
	err := k.handle.with(func(keyspace uintptr) error {
		return call(lib.IngestBegin, keyspace, uintptr(unsafe.Pointer(&address)))
	})
	if err != nil {
		return nil, err
	}
	return &Ingest{newHandle(address, lib.IngestFree)}, nil
}

// PutPage adds the records of a page, which AppendRecord builds.
func (i *Ingest) PutPage(page []byte) error {
	return i.handle.with(func(ingest uintptr) error {
		return call(lib.IngestPutPage, ingest, uintptr(dataOf(page)), uintptr(len(page)))
	})
}

// Finish makes all records visible, and returns their number.
func (i *Ingest) Finish() (count uint64, err error) {
	err = i.handle.with(func(ingest uintptr) error {
		return call(lib.IngestFinish, ingest, uintptr(unsafe.Pointer(&count)))
	})
	return count, err
}

// Free frees the ingest. One that was not finished writes nothing.
func (i *Ingest) Free() { i.handle.release() }
