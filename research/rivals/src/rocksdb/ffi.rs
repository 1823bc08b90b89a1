//! The part of RocksDB's C API (`rocksdb/c.h`, 7.8) used here. Names and types follow the header.

use std::ffi::{c_char, c_double, c_int, c_uchar};

macro_rules! opaque {
    ($($name:ident)*) => {$(
        #[repr(C)]
        pub(super) struct $name {
            _private: [u8; 0],
        }
    )*};
}

opaque! {
    Db Options TableOptions Cache FilterPolicy ReadOptions WriteOptions FlushOptions Iterator PinnableSlice Family
    Transaction TransactionDb TransactionDbOptions TransactionOptions OptimisticTransactionDb OptimisticTransactionOptions
}

pub(super) const NO_COMPRESSION: c_int = 0;
pub(super) const UNIVERSAL_COMPACTION: c_int = 1;

#[link(name = "rocksdb")]
unsafe extern "C" {
    pub(super) fn rocksdb_open_column_families(
        options: *const Options,
        name: *const c_char,
        families: c_int,
        names: *const *const c_char,
        family_options: *const *const Options,
        handles: *mut *mut Family,
        error: *mut *mut c_char,
    ) -> *mut Db;
    pub(super) fn rocksdb_column_family_handle_destroy(family: *mut Family);
    pub(super) fn rocksdb_close(db: *mut Db);
    pub(super) fn rocksdb_free(pointer: *mut std::ffi::c_void);
    pub(super) fn rocksdb_property_value(db: *mut Db, name: *const c_char) -> *mut c_char;

    pub(super) fn rocksdb_options_create() -> *mut Options;
    pub(super) fn rocksdb_options_destroy(options: *mut Options);
    pub(super) fn rocksdb_options_set_create_if_missing(options: *mut Options, on: c_uchar);
    pub(super) fn rocksdb_options_increase_parallelism(options: *mut Options, threads: c_int);
    pub(super) fn rocksdb_options_set_max_background_jobs(options: *mut Options, jobs: c_int);
    pub(super) fn rocksdb_options_set_compression(options: *mut Options, kind: c_int);
    pub(super) fn rocksdb_options_set_compaction_style(options: *mut Options, style: c_int);
    pub(super) fn rocksdb_options_set_write_buffer_size(options: *mut Options, bytes: usize);
    pub(super) fn rocksdb_options_set_max_write_buffer_number(options: *mut Options, count: c_int);
    pub(super) fn rocksdb_options_set_target_file_size_base(options: *mut Options, bytes: u64);
    pub(super) fn rocksdb_options_set_max_bytes_for_level_base(options: *mut Options, bytes: u64);
    pub(super) fn rocksdb_options_set_level_compaction_dynamic_level_bytes(
        options: *mut Options,
        on: c_uchar,
    );
    pub(super) fn rocksdb_options_set_bytes_per_sync(options: *mut Options, bytes: u64);
    pub(super) fn rocksdb_options_set_use_direct_reads(options: *mut Options, on: c_uchar);
    pub(super) fn rocksdb_options_set_use_direct_io_for_flush_and_compaction(
        options: *mut Options,
        on: c_uchar,
    );
    pub(super) fn rocksdb_options_compaction_readahead_size(options: *mut Options, bytes: usize);
    pub(super) fn rocksdb_options_set_max_open_files(options: *mut Options, count: c_int);
    pub(super) fn rocksdb_options_set_block_based_table_factory(
        options: *mut Options,
        table: *mut TableOptions,
    );

    pub(super) fn rocksdb_block_based_options_create() -> *mut TableOptions;
    pub(super) fn rocksdb_block_based_options_destroy(table: *mut TableOptions);
    pub(super) fn rocksdb_block_based_options_set_block_size(table: *mut TableOptions, bytes: usize);
    pub(super) fn rocksdb_block_based_options_set_format_version(table: *mut TableOptions, version: c_int);
    pub(super) fn rocksdb_block_based_options_set_filter_policy(
        table: *mut TableOptions,
        policy: *mut FilterPolicy,
    );
    pub(super) fn rocksdb_block_based_options_set_block_cache(table: *mut TableOptions, cache: *mut Cache);
    pub(super) fn rocksdb_block_based_options_set_cache_index_and_filter_blocks(
        table: *mut TableOptions,
        on: c_uchar,
    );
    pub(super) fn rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(
        table: *mut TableOptions,
        on: c_uchar,
    );
    pub(super) fn rocksdb_cache_create_lru(bytes: usize) -> *mut Cache;
    pub(super) fn rocksdb_cache_destroy(cache: *mut Cache);
    pub(super) fn rocksdb_filterpolicy_create_bloom_full(bits_per_key: c_double) -> *mut FilterPolicy;

    pub(super) fn rocksdb_readoptions_create() -> *mut ReadOptions;
    pub(super) fn rocksdb_readoptions_destroy(options: *mut ReadOptions);
    pub(super) fn rocksdb_writeoptions_create() -> *mut WriteOptions;
    pub(super) fn rocksdb_writeoptions_destroy(options: *mut WriteOptions);
    pub(super) fn rocksdb_writeoptions_disable_WAL(options: *mut WriteOptions, disable: c_int);
    pub(super) fn rocksdb_flushoptions_create() -> *mut FlushOptions;
    pub(super) fn rocksdb_flushoptions_destroy(options: *mut FlushOptions);
    pub(super) fn rocksdb_flushoptions_set_wait(options: *mut FlushOptions, on: c_uchar);
    pub(super) fn rocksdb_flush(db: *mut Db, options: *const FlushOptions, error: *mut *mut c_char);

    pub(super) fn rocksdb_put(
        db: *mut Db,
        options: *const WriteOptions,
        key: *const c_char,
        key_bytes: usize,
        value: *const c_char,
        value_bytes: usize,
        error: *mut *mut c_char,
    );
    pub(super) fn rocksdb_delete(
        db: *mut Db,
        options: *const WriteOptions,
        key: *const c_char,
        key_bytes: usize,
        error: *mut *mut c_char,
    );
    pub(super) fn rocksdb_get_pinned(
        db: *mut Db,
        options: *const ReadOptions,
        key: *const c_char,
        key_bytes: usize,
        error: *mut *mut c_char,
    ) -> *mut PinnableSlice;
    pub(super) fn rocksdb_pinnableslice_value(
        slice: *const PinnableSlice,
        bytes: *mut usize,
    ) -> *const c_char;
    pub(super) fn rocksdb_pinnableslice_destroy(slice: *mut PinnableSlice);
    pub(super) fn rocksdb_batched_multi_get_cf(
        db: *mut Db,
        options: *const ReadOptions,
        family: *mut Family,
        keys: usize,
        key_list: *const *const c_char,
        key_bytes: *const usize,
        values: *mut *mut PinnableSlice,
        errors: *mut *mut c_char,
        is_sorted: bool,
    );

    pub(super) fn rocksdb_create_iterator(db: *mut Db, options: *const ReadOptions) -> *mut Iterator;
    pub(super) fn rocksdb_iter_destroy(iterator: *mut Iterator);
    pub(super) fn rocksdb_iter_seek(iterator: *mut Iterator, key: *const c_char, bytes: usize);
    pub(super) fn rocksdb_iter_valid(iterator: *const Iterator) -> c_uchar;
    pub(super) fn rocksdb_iter_next(iterator: *mut Iterator);
    pub(super) fn rocksdb_iter_key(iterator: *const Iterator, bytes: *mut usize) -> *const c_char;
    pub(super) fn rocksdb_iter_value(iterator: *const Iterator, bytes: *mut usize) -> *const c_char;
    pub(super) fn rocksdb_iter_get_error(iterator: *const Iterator, error: *mut *mut c_char);

    pub(super) fn rocksdb_options_set_create_missing_column_families(options: *mut Options, on: c_uchar);
    pub(super) fn rocksdb_writeoptions_set_sync(options: *mut WriteOptions, on: c_uchar);
    pub(super) fn rocksdb_transactiondb_options_create() -> *mut TransactionDbOptions;
    pub(super) fn rocksdb_transactiondb_options_destroy(options: *mut TransactionDbOptions);
    pub(super) fn rocksdb_transactiondb_open_column_families(
        options: *const Options,
        own: *const TransactionDbOptions,
        name: *const c_char,
        families: c_int,
        names: *const *const c_char,
        family_options: *const *const Options,
        handles: *mut *mut Family,
        error: *mut *mut c_char,
    ) -> *mut TransactionDb;
    pub(super) fn rocksdb_transactiondb_close(db: *mut TransactionDb);
    pub(super) fn rocksdb_transaction_options_create() -> *mut TransactionOptions;
    pub(super) fn rocksdb_transaction_options_destroy(options: *mut TransactionOptions);
    pub(super) fn rocksdb_transaction_options_set_deadlock_detect(
        options: *mut TransactionOptions,
        on: c_uchar,
    );
    pub(super) fn rocksdb_transaction_options_set_lock_timeout(options: *mut TransactionOptions, ms: i64);
    pub(super) fn rocksdb_transaction_begin(
        db: *mut TransactionDb,
        write: *const WriteOptions,
        options: *const TransactionOptions,
        old: *mut Transaction,
    ) -> *mut Transaction;

    pub(super) fn rocksdb_optimistictransactiondb_open_column_families(
        options: *const Options,
        name: *const c_char,
        families: c_int,
        names: *const *const c_char,
        family_options: *const *const Options,
        handles: *mut *mut Family,
        error: *mut *mut c_char,
    ) -> *mut OptimisticTransactionDb;
    pub(super) fn rocksdb_optimistictransactiondb_close(db: *mut OptimisticTransactionDb);
    pub(super) fn rocksdb_optimistictransaction_options_create() -> *mut OptimisticTransactionOptions;
    pub(super) fn rocksdb_optimistictransaction_options_destroy(options: *mut OptimisticTransactionOptions);
    pub(super) fn rocksdb_optimistictransaction_begin(
        db: *mut OptimisticTransactionDb,
        write: *const WriteOptions,
        options: *const OptimisticTransactionOptions,
        old: *mut Transaction,
    ) -> *mut Transaction;

    pub(super) fn rocksdb_transaction_commit(transaction: *mut Transaction, error: *mut *mut c_char);
    pub(super) fn rocksdb_transaction_rollback(transaction: *mut Transaction, error: *mut *mut c_char);
    pub(super) fn rocksdb_transaction_destroy(transaction: *mut Transaction);
    pub(super) fn rocksdb_transaction_get_pinned_for_update_cf(
        transaction: *mut Transaction,
        options: *const ReadOptions,
        family: *mut Family,
        key: *const c_char,
        key_bytes: usize,
        exclusive: c_uchar,
        error: *mut *mut c_char,
    ) -> *mut PinnableSlice;
    pub(super) fn rocksdb_transaction_put_cf(
        transaction: *mut Transaction,
        family: *mut Family,
        key: *const c_char,
        key_bytes: usize,
        value: *const c_char,
        value_bytes: usize,
        error: *mut *mut c_char,
    );
}
