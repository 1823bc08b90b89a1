// Package alluvium is a write-optimised key-value store.
//
// It calls liballuvium without cgo. The library is the file that the variable ALLUVIUM_LIBRARY
// names, or else liballuvium.so.0 beside the program, or else liballuvium.so.0 where the system
// looks for libraries.
//
// Each object holds its store, and may be freed in any order, or be left to the garbage collector.
// Any goroutine may use any object, also at the same time.
package alluvium

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// The functions of the library. The name of a field is that of the function, in another spelling.
type library struct {
	ErrorKind, ErrorKindName, ErrorText, ErrorFree                                           uintptr
	ValueData, ValueFree                                                                     uintptr
	Open, Close, StoreFree, Write, Sync, Checkpoint, Compact, Check, Stats                   uintptr
	Keyspaces, Backup, Restore, Repair, Version                                              uintptr
	KeyspaceOpen, KeyspaceExisting, KeyspaceFree, KeyspaceDrop, KeyspaceRename               uintptr
	ApproximateCount, Get, GetInto, Contains, MultiGet, Put, Delete, Take                    uintptr
	DeleteRange, Merge, CompareAndSet                                                        uintptr
	BatchCreate, BatchPut, BatchPutPage, BatchDelete, BatchDeleteRange                       uintptr
	BatchMerge, BatchCount, BatchClear, BatchFree                                            uintptr
	IngestBegin, IngestPutPage, IngestFinish, IngestFree                                     uintptr
	SnapshotCreate, SnapshotOpen, SnapshotRemove, SnapshotGet, SnapshotFree                  uintptr
	IteratorCreate, TransactionIterator, IteratorPage, IteratorSeek, IteratorFree            uintptr
	TransactionBegin, TransactionGet, TransactionPut, TransactionDelete                      uintptr
	TransactionDeleteRange, TransactionMerge, TransactionDependOnRange, TransactionSavepoint uintptr
	TransactionRollbackTo, TransactionRelease, TransactionCommit, TransactionRollback        uintptr
	TransactionFree                                                                          uintptr
}

var (
	lib     library
	loading sync.Once
	loadErr error
)

// Load loads the library, if it was not loaded before. Open does so too.
func Load() error {
	loading.Do(func() { loadErr = load() })
	return loadErr
}

func load() error {
	names := []string{os.Getenv("ALLUVIUM_LIBRARY")}
	if names[0] == "" {
		names[0] = "liballuvium.so.0"
		if program, err := os.Executable(); err == nil {
			names = append([]string{filepath.Join(filepath.Dir(program), "liballuvium.so.0")}, names...)
		}
	}
	var handle uintptr
	var reasons []string
	for _, name := range names {
		found, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err == nil {
			handle = found
			break
		}
		reasons = append(reasons, err.Error())
	}
	if handle == 0 {
		return fmt.Errorf("liballuvium cannot be loaded: install it, or name its file in ALLUVIUM_LIBRARY (%s)", strings.Join(reasons, "; "))
	}
	fields := reflect.ValueOf(&lib).Elem()
	for i := range fields.NumField() {
		symbol, err := purego.Dlsym(handle, symbolOf(fields.Type().Field(i).Name))
		if err != nil {
			return fmt.Errorf("this is another version of liballuvium: install the one of this module (%w)", err)
		}
		*(*uintptr)(fields.Field(i).Addr().UnsafePointer()) = symbol
	}
	return nil
}

// Returns the name of a function in C: alluvium_batch_put for BatchPut.
func symbolOf(field string) string {
	var name strings.Builder
	name.WriteString("alluvium")
	for _, letter := range field {
		if letter >= 'A' && letter <= 'Z' {
			name.WriteByte('_')
		}
		name.WriteString(strings.ToLower(string(letter)))
	}
	return name.String()
}

// Calls a function that returns an error of the library.
//
//go:uintptrescapes
func call(function uintptr, arguments ...uintptr) error {
	failed, _, _ := purego.SyscallN(function, arguments...)
	if failed == 0 {
		return nil
	}
	kind, _, _ := purego.SyscallN(lib.ErrorKind, failed)
	name, _, _ := purego.SyscallN(lib.ErrorKindName, kind)
	text, _, _ := purego.SyscallN(lib.ErrorText, failed)
	err := &Error{Kind: Kind(goString(name)), Text: goString(text)}
	purego.SyscallN(lib.ErrorFree, failed)
	return err
}

// Returns a pointer of C, whose memory the garbage collector does not own.
func foreign(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

func goString(address uintptr) string {
	start := (*byte)(foreign(address))
	length := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(start), length)) != 0 {
		length++
	}
	return string(unsafe.Slice(start, length))
}

// An empty slice has a pointer too, because a NULL stands for no bytes.
var noBytes [1]byte

func dataOf(bytes []byte) unsafe.Pointer {
	if len(bytes) == 0 {
		return unsafe.Pointer(&noBytes)
	}
	return unsafe.Pointer(unsafe.SliceData(bytes))
}

// Returns NULL for a nil slice.
func optionalOf(bytes []byte) unsafe.Pointer {
	if bytes == nil {
		return nil
	}
	return dataOf(bytes)
}

// Returns a text with a zero byte at its end.
func textOf(text string) (unsafe.Pointer, error) {
	if strings.IndexByte(text, 0) >= 0 {
		return nil, &Error{Kind: InvalidArgument, Text: fmt.Sprintf("%q has a zero byte: remove it", text)}
	}
	bytes := append([]byte(text), 0)
	return unsafe.Pointer(unsafe.SliceData(bytes)), nil
}

// Returns NULL for an empty text.
func optionalText(text string) (unsafe.Pointer, error) {
	if text == "" {
		return nil, nil
	}
	return textOf(text)
}

// A handle of the library. The lock lets no call use it while it is freed.
type handle struct {
	lock    sync.RWMutex
	address uintptr
	free    uintptr
}

func newHandle(address, free uintptr) *handle {
	h := &handle{address: address, free: free}
	runtime.SetFinalizer(h, (*handle).release)
	return h
}

// Frees the handle. Freeing it again does nothing.
func (h *handle) release() {
	if h == nil {
		return
	}
	h.lock.Lock()
	defer h.lock.Unlock()
	if h.address != 0 {
		purego.SyscallN(h.free, h.address)
		h.address = 0
	}
	runtime.SetFinalizer(h, nil)
}

// Calls body with the address of the handle, or NULL if it was freed.
func (h *handle) with(body func(address uintptr) error) error {
	if h == nil {
		return body(0)
	}
	h.lock.RLock()
	defer h.lock.RUnlock()
	return body(h.address)
}
