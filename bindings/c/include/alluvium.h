/* The C interface of Alluvium, a write-optimised key-value store. Generated from bindings/c; docs/c.md describes its use.
 *
 * Functions that can fail return an error, which the caller frees, or NULL. Each handle is freed by the function of its
 * type, in any order; a handle holds its store. Bytes are a pointer and a length; texts end with a zero byte. All
 * functions can be called from any thread. */

#ifndef ALLUVIUM_H
#define ALLUVIUM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

// The store is open in another process or through another handle.
#define ALLUVIUM_LOCKED 1

// The directory contains no store, or it contains other files.
#define ALLUVIUM_NOT_A_STORE 2

// A store, keyspace, snapshot or file with this name already exists.
#define ALLUVIUM_ALREADY_EXISTS 3

// The path, keyspace or snapshot does not exist.
#define ALLUVIUM_NOT_FOUND 4

// A newer version of Alluvium wrote the store or one of its keyspaces.
#define ALLUVIUM_NEWER_VERSION 5

// An earlier version wrote the store, in a format that is no longer supported.
#define ALLUVIUM_OLDER_VERSION 6

// Stored data is damaged.
#define ALLUVIUM_CORRUPT 7

// The disk is full, or the size limit is reached. Reads and deletes still work.
#define ALLUVIUM_FULL 8

// The process or the machine is out of file descriptors, memory or another resource.
#define ALLUVIUM_EXHAUSTED 9

// The store was opened for reading only, or its file system is mounted read-only.
#define ALLUVIUM_READ_ONLY 10

// The operating system denies access to the files.
#define ALLUVIUM_PERMISSION_DENIED 11

// The device or the operating system reported an error.
#define ALLUVIUM_IO 12

// The store rejects writes after an earlier failure: close it and open it again.
#define ALLUVIUM_POISONED 13

// The store was closed.
#define ALLUVIUM_CLOSED 14

// The keyspace was dropped.
#define ALLUVIUM_DROPPED 15

// An argument or an option is out of bounds or incompatible with the store.
#define ALLUVIUM_INVALID_ARGUMENT 16

// A stored value cannot be combined with the operands that were merged into it.
#define ALLUVIUM_BAD_VALUE 17

// The log no longer has the commits, or the transaction has no such savepoint.
#define ALLUVIUM_GONE 18

// Another commit changed data that the transaction depends on: run it again.
#define ALLUVIUM_CONFLICT 19

// The transaction was aborted to resolve a deadlock: run it again.
#define ALLUVIUM_DEADLOCK 20

// Waiting for a lock took too long, or the transaction exceeded its age limit.
#define ALLUVIUM_TIMED_OUT 21

// The transaction was committed, rolled back or aborted earlier.
#define ALLUVIUM_ENDED 22

// A limit on the size of a transaction is reached.
#define ALLUVIUM_LIMIT_REACHED 23

// The store cannot be closed, because iterators, snapshots, transactions or ingests live.
#define ALLUVIUM_IN_USE 24

// The library has a defect, which has ended the call.
#define ALLUVIUM_PANICKED 25

// Keeps the value.
#define ALLUVIUM_FILTER_KEEP 0

// Removes the key.
#define ALLUVIUM_FILTER_REMOVE 1

// Replaces the value by the bytes in the buffer.
#define ALLUVIUM_FILTER_REPLACE 2



// `start` is a prefix, with which all keys of the range begin. `end` is `NULL`.
#define ALLUVIUM_RANGE_PREFIX 1

// The range begins after `start`, not with it.
#define ALLUVIUM_RANGE_AFTER_START 2

// The range ends with `end`, not before it.
#define ALLUVIUM_RANGE_THROUGH_END 4

// Values are empty, and long ones are not read.
#define ALLUVIUM_RANGE_KEYS_ONLY 8

// The records have no order. Hashed keyspaces need this; there must be no bounds.
#define ALLUVIUM_RANGE_UNORDERED 16

// The next records in the order of the keys.
#define ALLUVIUM_FORWARD 0

// The next records from the end of the range, against the order of the keys.
#define ALLUVIUM_BACKWARD 1

// The transaction depends on the key as its isolation says.
#define ALLUVIUM_READ_TRACKED 0

// The transaction does not depend on the key.
#define ALLUVIUM_READ_UNTRACKED 1

// The commit conflicts if the key changes, at any isolation; a locking transaction locks it, and
// others may read it.
#define ALLUVIUM_READ_SHARED 2

// Like ALLUVIUM_READ_SHARED, with an exclusive lock.
#define ALLUVIUM_READ_FOR_UPDATE 3

// Writes that take effect together.
typedef struct alluvium_batch alluvium_batch;

// Bytes that a callback returns. It lives until the callback returns.
typedef struct alluvium_buffer alluvium_buffer;

// An error. Functions that can fail return one, or `NULL` if they have succeeded.
typedef struct alluvium_error alluvium_error;

// A load of records in the order of their keys, which does not use the log.
typedef struct alluvium_ingest alluvium_ingest;

// An iterator over the records of a range, as of the moment in which it was created.
typedef struct alluvium_iterator alluvium_iterator;

// A keyspace: an ordered map from keys to values, or a hashed one. All functions can be called
// from any thread, also at the same time.
typedef struct alluvium_keyspace alluvium_keyspace;

// Options for opening a store.
typedef struct alluvium_options alluvium_options;

// The store as of one moment.
typedef struct alluvium_snapshot alluvium_snapshot;

// An open store. All functions can be called from any thread, also at the same time.
typedef struct alluvium_store alluvium_store;

// A transaction. All functions can be called from any thread, also at the same time.
typedef struct alluvium_transaction alluvium_transaction;

// The value of a key, or a report as JSON. It stays the same until it is freed, also when the key
// is overwritten or the store is closed. A long value is not copied: it keeps a page of the cache.
typedef struct alluvium_value alluvium_value;

// A merge operator: an associative function of two values.
typedef struct {
  // Passed to each function.
  void *context;
  // Appends `older` merged with `newer` to `result`.
  void (*merge)(void *context,
                const uint8_t *older,
                size_t older_length,
                const uint8_t *newer,
                size_t newer_length,
                alluvium_buffer *result);
  // Returns 0 if the operator accepts these bytes as an operand and as a value. Otherwise the
  // write of the operand fails, or the read of a value that has operands. `NULL` accepts all.
  int32_t (*check)(void *context, const uint8_t *bytes, size_t length);
  // Frees the context, once the last store with the operator is closed and freed. `NULL` does
  // nothing.
  void (*free)(void *context);
  // Not 0 if the result is the same in whichever order operands are merged. Transactions that
  // merge into a key without reading it do not conflict then.
  int32_t is_commutative;
} alluvium_merge_operator;

// A compaction filter, which decides about the values that a compaction writes again.
typedef struct {
  // Passed to each function.
  void *context;
  // Returns ALLUVIUM_FILTER_KEEP, ALLUVIUM_FILTER_REMOVE, or ALLUVIUM_FILTER_REPLACE after
  // appending the new value to `replacement`. Times are in milliseconds since 1970; a value that
  // never expires has 0.
  int32_t (*decide)(void *context,
                    const uint8_t *key,
                    size_t key_length,
                    const uint8_t *value,
                    size_t value_length,
                    uint64_t expires_ms,
                    uint64_t now_ms,
                    alluvium_buffer *replacement);
  // Frees the context, once the last store with the filter is closed and freed. `NULL` does
  // nothing.
  void (*free)(void *context);
} alluvium_compaction_filter;

// A range of keys. Set it to zero for a whole keyspace.
typedef struct {
  // The first key of the range, or `NULL` for the first of the keyspace.
  const uint8_t *start;
  // Its length.
  size_t start_length;
  // The range ends before this key, or at the end of the keyspace for `NULL`.
  const uint8_t *end;
  // Its length.
  size_t end_length;
  // The sum of any of the ALLUVIUM_RANGE constants.
  uint32_t flags;
} alluvium_range;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the kind of an error, one of the constants above. The kind of `NULL` is 0. Kinds that
// later versions add have numbers that are not listed here.
uint32_t alluvium_error_kind(const alluvium_error *error);

// Returns the name of a kind, such as "not_found". It lives as long as the library.
const char *alluvium_error_kind_name(uint32_t kind);

// Returns what was wrong, where, and what to do. The text lives as long as the error.
const char *alluvium_error_text(const alluvium_error *error);

// Frees an error. `NULL` is allowed.
void alluvium_error_free(alluvium_error *error);

// Returns the bytes of a value, and writes their number to `length`. They live as long as the
// value. No zero byte follows them.
const uint8_t *alluvium_value_data(const alluvium_value *value, size_t *length);

// Frees a value. `NULL` is allowed.
void alluvium_value_free(alluvium_value *value);

// Creates options from a text in the syntax of the command line, such as "--memory 64M
// --durability disk". `NULL` is the same as an empty text: every option has a default.
alluvium_error *alluvium_options_create(const char *options_text, alluvium_options **options);

// Registers a merge operator, to which keyspaces refer by its name. If a keyspace uses it, the
// store cannot be opened without it. The library owns the context from now on, also after an
// error, and frees it with the operator's `free`.
alluvium_error *alluvium_options_merge_operator(const alluvium_options *options,
                                                const char *name,
                                                const alluvium_merge_operator *merge_operator);

// Registers a compaction filter, to which keyspaces refer by its name. If a keyspace uses it, the
// store cannot be opened without it. The library owns the context from now on, also after an
// error, and frees it with the filter's `free`.
alluvium_error *alluvium_options_compaction_filter(const alluvium_options *options,
                                                   const char *name,
                                                   const alluvium_compaction_filter *filter);

// Frees options. Stores that were opened with them are not affected. `NULL` is allowed.
void alluvium_options_free(alluvium_options *options);

// Appends bytes to a buffer. Does nothing if a pointer is `NULL`.
void alluvium_buffer_append(alluvium_buffer *buffer, const uint8_t *data, size_t length);

// Returns the version of the library. It lives as long as the library.
const char *alluvium_version(void);

// Opens the store in a directory, and creates one if there is none. A `path` of `NULL` opens an
// empty store in memory. `options_text` has the syntax of the command line, such as "--memory 64M
// --durability disk"; `NULL` is the same as an empty text.
alluvium_error *alluvium_open(const char *path, const char *options_text, alluvium_store **store);

// Opens a store like `alluvium_open`, with options that have merge operators and compaction
// filters.
alluvium_error *alluvium_open_with(const char *path,
                                   const alluvium_options *options,
                                   alluvium_store **store);

// Closes the store. While iterators, snapshots, transactions or ingests of it live, it fails with
// ALLUVIUM_IN_USE and their names, unless `force` is not 0. Handles that live on after a forced
// close answer with ALLUVIUM_CLOSED. They and the store must be freed in any case.
alluvium_error *alluvium_close(const alluvium_store *store, int32_t force);

// Frees the handle of a store. A store that was not closed is closed when its last handle is
// freed, whether that is a keyspace, an iterator, a snapshot or a transaction; then the caller
// learns of no error. `NULL` is allowed.
void alluvium_store_free(alluvium_store *store);

// Writes a batch: all of it takes effect, or nothing. The batch can be changed and written again.
alluvium_error *alluvium_write(const alluvium_store *store, const alluvium_batch *batch);

// Makes everything that was written survive a power failure.
alluvium_error *alluvium_sync(const alluvium_store *store);

// Writes everything that is in memory to its place on the disk, so that the log is short.
alluvium_error *alluvium_checkpoint(const alluvium_store *store);

// Rewrites the store to free the space of deleted and replaced records.
alluvium_error *alluvium_compact(const alluvium_store *store);

// Reads the whole store. Returns a JSON object: "whole" is true if there is no damage; "findings"
// lists the damage.
alluvium_error *alluvium_check(const alluvium_store *store, alluvium_value **report);

// Returns the statistics of the store: a JSON object of numbers.
alluvium_error *alluvium_stats(const alluvium_store *store, alluvium_value **report);

// Returns the keyspaces of the store: a JSON array of objects with "name", "structure",
// "compression", "value_threshold", "merge_operator" and "compaction_filter".
alluvium_error *alluvium_keyspaces(const alluvium_store *store, alluvium_value **report);

// Copies the store into an empty directory, while it is used. The copy is a store that can be
// opened.
alluvium_error *alluvium_backup(const alluvium_store *store, const char *path);

// Creates a store in an empty directory from a backup, and checks it. `options` is `NULL`, or has
// the merge operators and compaction filters of the store.
alluvium_error *alluvium_restore(const char *from, const char *to, const alluvium_options *options);

// Repairs a damaged store that is not open, as far as possible. Returns a JSON object: "whole" is
// true if nothing was lost; "done", "lost" and "left" list what was repaired, what is lost, and
// what is still damaged.
alluvium_error *alluvium_repair(const char *path,
                                const alluvium_options *options,
                                alluvium_value **report);

// Returns the keyspace with this name, and creates it if it does not exist. `options_text` is
// `NULL`, or has the syntax of the command line, such as "--structure levels,k=4 --compression
// zstd"; then an existing keyspace must have the same options.
alluvium_error *alluvium_keyspace_open(const alluvium_store *store,
                                       const char *name,
                                       const char *options_text,
                                       alluvium_keyspace **keyspace);

// Returns the existing keyspace with this name.
alluvium_error *alluvium_keyspace_existing(const alluvium_store *store,
                                           const char *name,
                                           alluvium_keyspace **keyspace);

// Frees the handle of a keyspace; the keyspace remains. `NULL` is allowed.
void alluvium_keyspace_free(alluvium_keyspace *keyspace);

// Drops a keyspace and everything in it.
alluvium_error *alluvium_keyspace_drop(const alluvium_store *store, const char *name);

// Renames a keyspace. Its handles stay valid.
alluvium_error *alluvium_keyspace_rename(const alluvium_store *store,
                                         const char *from,
                                         const char *to);

// Estimates the number of keys of a keyspace.
alluvium_error *alluvium_approximate_count(const alluvium_keyspace *keyspace, uint64_t *count);

// Returns the value of a key, or `NULL` if the key is absent.
alluvium_error *alluvium_get(const alluvium_keyspace *keyspace,
                             const uint8_t *key,
                             size_t key_length,
                             alluvium_value **value);

// Copies the value of a key into a buffer, as much as fits, and writes the length of the value to
// `length`, or ALLUVIUM_ABSENT.
alluvium_error *alluvium_get_into(const alluvium_keyspace *keyspace,
                                  const uint8_t *key,
                                  size_t key_length,
                                  uint8_t *buffer,
                                  size_t size,
                                  size_t *length);

// Writes 1 to `found` if the key has a value, or else 0.
alluvium_error *alluvium_contains(const alluvium_keyspace *keyspace,
                                  const uint8_t *key,
                                  size_t key_length,
                                  int32_t *found);

// Reads many keys at once, which is faster than one after the other. Writes a value or `NULL` for
// each of `count` keys. After an error, all values are `NULL`.
alluvium_error *alluvium_multi_get(const alluvium_keyspace *keyspace,
                                   size_t count,
                                   const uint8_t *const *keys,
                                   const size_t *key_lengths,
                                   alluvium_value **values);

// Sets the value of a key. It expires `expires_ms` milliseconds after the beginning of 1970, or
// never if that is 0.
alluvium_error *alluvium_put(const alluvium_keyspace *keyspace,
                             const uint8_t *key,
                             size_t key_length,
                             const uint8_t *value,
                             size_t value_length,
                             uint64_t expires_ms);

// Deletes a key, `at_ms` milliseconds after the beginning of 1970, or now if that is 0. An absent
// key is no error.
alluvium_error *alluvium_delete(const alluvium_keyspace *keyspace,
                                const uint8_t *key,
                                size_t key_length,
                                uint64_t at_ms);

// Deletes a key and returns the value that it had, or `NULL` if it was absent.
alluvium_error *alluvium_take(const alluvium_keyspace *keyspace,
                              const uint8_t *key,
                              size_t key_length,
                              alluvium_value **value);

// Deletes all keys from `start` to before `end`. An `end` of `NULL` stands for the end of the
// keyspace. A hashed keyspace can only be deleted as a whole, from the empty key to `NULL`.
alluvium_error *alluvium_delete_range(const alluvium_keyspace *keyspace,
                                      const uint8_t *start,
                                      size_t start_length,
                                      const uint8_t *end,
                                      size_t end_length);

// Merges an operand into the value of a key, with the merge operator of the keyspace.
alluvium_error *alluvium_merge(const alluvium_keyspace *keyspace,
                               const uint8_t *key,
                               size_t key_length,
                               const uint8_t *operand,
                               size_t operand_length);

// Sets a key to `new_value` if its value is `expected`, and writes 1 to `is_set`, or else 0.
// `NULL` stands for an absent key.
alluvium_error *alluvium_compare_and_set(const alluvium_keyspace *keyspace,
                                         const uint8_t *key,
                                         size_t key_length,
                                         const uint8_t *expected,
                                         size_t expected_length,
                                         const uint8_t *new_value,
                                         size_t new_length,
                                         int32_t *is_set);

// Creates an empty batch. `durability` is "memory", "process" or "disk", or `NULL` for that of the
// store.
alluvium_error *alluvium_batch_create(const char *durability, alluvium_batch **batch);

// Adds a put: see `alluvium_put`.
alluvium_error *alluvium_batch_put(const alluvium_batch *batch,
                                   const alluvium_keyspace *keyspace,
                                   const uint8_t *key,
                                   size_t key_length,
                                   const uint8_t *value,
                                   size_t value_length,
                                   uint64_t expires_ms);

// Adds a put for each record of a page, whose layout is that of `alluvium_iterator_page`. After
// an error, the batch has some of them.
alluvium_error *alluvium_batch_put_page(const alluvium_batch *batch,
                                        const alluvium_keyspace *keyspace,
                                        const uint8_t *records,
                                        size_t length);

// Adds a delete: see `alluvium_delete`.
alluvium_error *alluvium_batch_delete(const alluvium_batch *batch,
                                      const alluvium_keyspace *keyspace,
                                      const uint8_t *key,
                                      size_t key_length,
                                      uint64_t at_ms);

// Adds a range delete: see `alluvium_delete_range`.
alluvium_error *alluvium_batch_delete_range(const alluvium_batch *batch,
                                            const alluvium_keyspace *keyspace,
                                            const uint8_t *start,
                                            size_t start_length,
                                            const uint8_t *end,
                                            size_t end_length);

// Adds a merge: see `alluvium_merge`.
alluvium_error *alluvium_batch_merge(const alluvium_batch *batch,
                                     const alluvium_keyspace *keyspace,
                                     const uint8_t *key,
                                     size_t key_length,
                                     const uint8_t *operand,
                                     size_t operand_length);

// Returns the number of writes in a batch, or 0 for `NULL`.
size_t alluvium_batch_count(const alluvium_batch *batch);

// Removes all writes from a batch.
void alluvium_batch_clear(const alluvium_batch *batch);

// Frees a batch. `NULL` is allowed.
void alluvium_batch_free(alluvium_batch *batch);

// Begins to load records in the order of their keys. They become visible together.
alluvium_error *alluvium_ingest_begin(const alluvium_keyspace *keyspace, alluvium_ingest **ingest);

// Adds the records of a page, whose layout is that of `alluvium_iterator_page`. Each key must be
// greater than the one before it. A record that is refused, and those after it, are left out; the
// ingest can continue with other records.
alluvium_error *alluvium_ingest_put_page(const alluvium_ingest *ingest,
                                         const uint8_t *records,
                                         size_t length);

// Makes all records of an ingest visible, and writes their number to `count`.
alluvium_error *alluvium_ingest_finish(const alluvium_ingest *ingest, uint64_t *count);

// Frees an ingest. One that was not finished writes nothing. `NULL` is allowed.
void alluvium_ingest_free(alluvium_ingest *ingest);

// Returns a snapshot of everything that was committed. With a `name`, the store keeps it until it
// is removed, also when the store is closed.
alluvium_error *alluvium_snapshot_create(const alluvium_store *store,
                                         const char *name,
                                         alluvium_snapshot **snapshot);

// Opens a named snapshot.
alluvium_error *alluvium_snapshot_open(const alluvium_store *store,
                                       const char *name,
                                       alluvium_snapshot **snapshot);

// Removes a named snapshot. Handles to it stay valid.
alluvium_error *alluvium_snapshot_remove(const alluvium_store *store, const char *name);

// Returns the value of a key as of a snapshot, or `NULL` if the key was absent.
alluvium_error *alluvium_snapshot_get(const alluvium_snapshot *snapshot,
                                      const alluvium_keyspace *keyspace,
                                      const uint8_t *key,
                                      size_t key_length,
                                      alluvium_value **value);

// Frees the handle of a snapshot. `NULL` is allowed.
void alluvium_snapshot_free(alluvium_snapshot *snapshot);

// Creates an iterator over a range of a keyspace. `snapshot` is `NULL`, or the moment to read. A
// `range` of `NULL` is the whole keyspace.
alluvium_error *alluvium_iterator_create(const alluvium_keyspace *keyspace,
                                         const alluvium_snapshot *snapshot,
                                         const alluvium_range *range,
                                         alluvium_iterator **iterator);

// Creates an iterator over a range of a keyspace as a transaction sees it. When the transaction
// ends, the iterator answers with ALLUVIUM_ENDED.
alluvium_error *alluvium_transaction_iterator(const alluvium_transaction *transaction,
                                              const alluvium_keyspace *keyspace,
                                              const alluvium_range *range,
                                              alluvium_iterator **iterator);

// Fills a buffer with the next records from one end of the range, and writes the number of bytes
// to `filled` and the number of records to `count`. Read the records with `alluvium_page_next`. At
// the end, both are 0. If the buffer is too short for the next record, `count` is 0 and `filled`
// is the size that it needs; nothing is skipped. An iterator can be used from both ends, and is at
// its end where they meet.
//
// A record is the length of its key and the length of its value, both with 4 bytes in
// little-endian order, and then the key and the value.
alluvium_error *alluvium_iterator_page(const alluvium_iterator *iterator,
                                       uint32_t direction,
                                       uint8_t *buffer,
                                       size_t size,
                                       size_t *filled,
                                       size_t *count);

// Moves the front of an iterator to the first key that is not less than `key`. Unordered iterators
// and those of transactions cannot seek.
alluvium_error *alluvium_iterator_seek(const alluvium_iterator *iterator,
                                       const uint8_t *key,
                                       size_t key_length);

// Frees an iterator. `NULL` is allowed.
void alluvium_iterator_free(alluvium_iterator *iterator);

// Begins a transaction. `options_text` is `NULL`, or has the syntax of the command line, such as
// "--isolation snapshot --locking --lock-timeout 5s".
alluvium_error *alluvium_transaction_begin(const alluvium_store *store,
                                           const char *options_text,
                                           alluvium_transaction **transaction);

// Returns the value of a key as the transaction sees it, or `NULL` if the key is absent.
alluvium_error *alluvium_transaction_get(const alluvium_transaction *transaction,
                                         const alluvium_keyspace *keyspace,
                                         const uint8_t *key,
                                         size_t key_length,
                                         uint32_t dependence,
                                         alluvium_value **value);

// Sets the value of a key in the transaction: see `alluvium_put`.
alluvium_error *alluvium_transaction_put(const alluvium_transaction *transaction,
                                         const alluvium_keyspace *keyspace,
                                         const uint8_t *key,
                                         size_t key_length,
                                         const uint8_t *value,
                                         size_t value_length,
                                         uint64_t expires_ms);

// Deletes a key in the transaction: see `alluvium_delete`.
alluvium_error *alluvium_transaction_delete(const alluvium_transaction *transaction,
                                            const alluvium_keyspace *keyspace,
                                            const uint8_t *key,
                                            size_t key_length,
                                            uint64_t at_ms);

// Deletes a range in the transaction: see `alluvium_delete_range`.
alluvium_error *alluvium_transaction_delete_range(const alluvium_transaction *transaction,
                                                  const alluvium_keyspace *keyspace,
                                                  const uint8_t *start,
                                                  size_t start_length,
                                                  const uint8_t *end,
                                                  size_t end_length);

// Merges an operand in the transaction: see `alluvium_merge`.
alluvium_error *alluvium_transaction_merge(const alluvium_transaction *transaction,
                                           const alluvium_keyspace *keyspace,
                                           const uint8_t *key,
                                           size_t key_length,
                                           const uint8_t *operand,
                                           size_t operand_length);

// Makes the commit conflict if another changes any key of a range, at any isolation.
alluvium_error *alluvium_transaction_depend_on_range(const alluvium_transaction *transaction,
                                                     const alluvium_keyspace *keyspace,
                                                     const alluvium_range *range);

// Marks a place to which `alluvium_transaction_rollback_to` returns, and writes its number to
// `savepoint`. Nothing needs to be freed.
alluvium_error *alluvium_transaction_savepoint(const alluvium_transaction *transaction,
                                               uint64_t *savepoint);

// Takes back all writes of the transaction after a savepoint, which remains.
alluvium_error *alluvium_transaction_rollback_to(const alluvium_transaction *transaction,
                                                 uint64_t savepoint);

// Removes a savepoint and those after it. Their writes remain.
alluvium_error *alluvium_transaction_release(const alluvium_transaction *transaction,
                                             uint64_t savepoint);

// Commits the transaction: all of it takes effect, or nothing and there is an error. It has ended
// in both cases. `durability` is "memory", "process" or "disk", or `NULL` for that of the
// transaction.
alluvium_error *alluvium_transaction_commit(const alluvium_transaction *transaction,
                                            const char *durability);

// Rolls the transaction back.
alluvium_error *alluvium_transaction_rollback(const alluvium_transaction *transaction);

// Frees a transaction. One that is open is rolled back. `NULL` is allowed.
void alluvium_transaction_free(alluvium_transaction *transaction);

/* The length of a value whose key is absent: see alluvium_get_into. */
#define ALLUVIUM_ABSENT SIZE_MAX

/* Reads the record at the front of a page, and moves `page` and `length` behind it. Returns 1, or 0 if there is no whole
 * record. */
static inline int alluvium_page_next(const uint8_t **page,
                                     size_t *length,
                                     const uint8_t **key,
                                     size_t *key_length,
                                     const uint8_t **value,
                                     size_t *value_length) {
  const uint8_t *at = *page;
  if (*length < 8) {
    return 0;
  }
  uint64_t k = at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 | (uint64_t)at[3] << 24;
  uint64_t v = at[4] | (uint64_t)at[5] << 8 | (uint64_t)at[6] << 16 | (uint64_t)at[7] << 24;
  if (k + v > *length - 8) {
    return 0;
  }
  *key = at + 8;
  *key_length = (size_t)k;
  *value = at + 8 + k;
  *value_length = (size_t)v;
  *page = at + 8 + k + v;
  *length -= (size_t)(8 + k + v);
  return 1;
}

/* Writes a record to the front of a page of `size` bytes, for alluvium_batch_put_page and alluvium_ingest_put_page. Returns
 * the bytes that it occupies, or 0 if the page is too short. */
static inline size_t alluvium_page_put(uint8_t *page,
                                       size_t size,
                                       const void *key,
                                       size_t key_length,
                                       const void *value,
                                       size_t value_length) {
  uint64_t k = key_length, v = value_length;
  if (k > UINT32_MAX || v > UINT32_MAX || k + v + 8 > size) {
    return 0;
  }
  for (int i = 0; i < 4; i++) {
    page[i] = (uint8_t)(k >> (8 * i));
    page[4 + i] = (uint8_t)(v >> (8 * i));
  }
  if (k > 0) {
    memcpy(page + 8, key, (size_t)k);
  }
  if (v > 0) {
    memcpy(page + 8 + k, value, (size_t)v);
  }
  return (size_t)(8 + k + v);
}

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ALLUVIUM_H */
