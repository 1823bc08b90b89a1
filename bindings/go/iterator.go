package alluvium

import (
	"encoding/binary"
	"iter"
	"runtime"
	"sync"
	"unsafe"
)

// Range is a range of keys. The zero value is a whole keyspace.
type Range struct {
	// The first key; nil for the first of the keyspace.
	Start []byte
	// The range ends before this key; nil for the end of the keyspace.
	End []byte
	// All keys begin with this prefix; then there are no other bounds.
	Prefix []byte
	// The range begins after Start, not with it.
	AfterStart bool
	// The range ends with End, not before it.
	ThroughEnd bool
	// Values are empty, and long ones are not read.
	KeysOnly bool
	// The records have no order, which hashed keyspaces need.
	Unordered bool
	// The records come from the end of the range.
	Reverse bool
}

// The range as the library reads it.
type foreignRange struct {
	start       unsafe.Pointer
	startLength uintptr
	end         unsafe.Pointer
	endLength   uintptr
	flags       uint32
}

func (r *Range) foreign() *foreignRange {
	found := &foreignRange{optionalOf(r.Start), uintptr(len(r.Start)), optionalOf(r.End), uintptr(len(r.End)), 0}
	for i, flag := range []bool{r.Prefix != nil, r.AfterStart, r.ThroughEnd, r.KeysOnly, r.Unordered} {
		if flag {
			found.flags |= 1 << i
		}
	}
	if r.Prefix != nil {
		found.start, found.startLength = dataOf(r.Prefix), uintptr(len(r.Prefix))
	}
	return found
}

// Iterator returns the records of a range, as of the moment in which it was created. Free it, or
// read it to its end.
type Iterator struct {
	handle  *handle
	reverse bool
	lock    sync.Mutex
	err     error
}

func newIterator(address uintptr, r *Range) *Iterator {
	return &Iterator{handle: newHandle(address, lib.IteratorFree), reverse: r.Reverse}
}

// Iterate returns an iterator over a range.
func (k *Keyspace) Iterate(r Range) (*Iterator, error) { return k.iterate(nil, &r) }

func (k *Keyspace) iterate(snapshot *handle, r *Range) (*Iterator, error) {
	var address uintptr
	bounds := r.foreign()
	err := k.handle.with(func(keyspace uintptr) error {
		return snapshot.with(func(snapshot uintptr) error {
			return call(lib.IteratorCreate, keyspace, snapshot, uintptr(unsafe.Pointer(bounds)), uintptr(unsafe.Pointer(&address)))
		})
	})
	runtime.KeepAlive(r)
	if err != nil {
		return nil, err
	}
	return newIterator(address, r), nil
}

// Page fills a buffer with the next records. It returns the number of records and of bytes. If there
// are no records, the number of bytes is what the next one needs, or 0 at the end.
func (i *Iterator) Page(buffer []byte, reverse bool) (records, filled int, err error) {
	var count, bytes, direction uintptr
	if reverse {
		direction = 1
	}
	err = i.handle.with(func(iterator uintptr) error {
		return call(lib.IteratorPage, iterator, direction, uintptr(dataOf(buffer)), uintptr(len(buffer)), uintptr(unsafe.Pointer(&bytes)), uintptr(unsafe.Pointer(&count)))
	})
	return int(count), int(bytes), err
}

// NextRecord splits the first record off a page. It returns false if there is none.
func NextRecord(page []byte) (key, value, rest []byte, found bool) {
	if len(page) < 8 {
		return nil, nil, nil, false
	}
	k, v := int(binary.LittleEndian.Uint32(page)), int(binary.LittleEndian.Uint32(page[4:]))
	if len(page) < 8+k+v {
		return nil, nil, nil, false
	}
	return page[8 : 8+k : 8+k], page[8+k : 8+k+v : 8+k+v], page[8+k+v:], true
}

const pageSize = 64 << 10

// All returns the records that are left. The slices stay valid. Ask Err at the end. The iterator is
// freed at its end.
func (i *Iterator) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		size := 4 << 10
		for {
			page := make([]byte, size)
			records, filled, err := i.Page(page, i.reverse)
			if err != nil {
				i.lock.Lock()
				i.err = err
				i.lock.Unlock()
				return
			}
			if records == 0 && filled > size {
				size = filled
				continue
			}
			if records == 0 {
				i.Free()
				return
			}
			size = max(size, pageSize)
			rest := page[:filled]
			for {
				key, value, behind, found := NextRecord(rest)
				if !found {
					break
				}
				if !yield(key, value) {
					return
				}
				rest = behind
			}
		}
	}
}

// Err returns the error that has ended All, or nil.
func (i *Iterator) Err() error {
	i.lock.Lock()
	defer i.lock.Unlock()
	return i.err
}

// Seek moves the front to the first key that is not less than the given one.
func (i *Iterator) Seek(key []byte) error {
	return i.handle.with(func(iterator uintptr) error {
		return call(lib.IteratorSeek, iterator, uintptr(dataOf(key)), uintptr(len(key)))
	})
}

// Free frees the iterator.
func (i *Iterator) Free() { i.handle.release() }

// Snapshot is the store as of one moment.
type Snapshot struct{ handle *handle }

// Get returns the value of a key, or nil if it was absent.
func (s *Snapshot) Get(k *Keyspace, key []byte) (value []byte, err error) {
	var found uintptr
	err = s.handle.with(func(snapshot uintptr) error {
		return k.handle.with(func(keyspace uintptr) error {
			return call(lib.SnapshotGet, snapshot, keyspace, uintptr(dataOf(key)), uintptr(len(key)), uintptr(unsafe.Pointer(&found)))
		})
	})
	return takeValue(found), err
}

// Iterate returns an iterator over a range as of the snapshot.
func (s *Snapshot) Iterate(k *Keyspace, r Range) (*Iterator, error) { return k.iterate(s.handle, &r) }

// Free frees the snapshot.
func (s *Snapshot) Free() { s.handle.release() }
