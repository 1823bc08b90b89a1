//! Adapters to the engines that Alluvium is compared with, each behind a feature of its name; `all`
//! has all of them.
//!
//! *Knows*: how each engine is opened, tuned as its own documentation recommends for the memory
//! there is, and used; which options it has besides.
//!
//! *Does not know*: workloads, accounting.
//!
//! *Read in this order*: this file; then any; `transactions/`, and `rocksdb/transactions.rs`, are
//! those of the engines that have transactions. `studies/` measures what the Lab asks of
//! single systems, `mariadb/` a server that is no engine here. `c.rs` and `failure.rs` are what
//! those with a C API share.
//!
//! Invariants:
//!
//! - **Y1** The same durability for all: what was written survives the death of the process,
//!   nothing is synced for each write. An engine that has no such mode takes the nearest, and its
//!   settings say so: Bf-Tree keeps nothing, and SplinterDB's log cannot be replayed.
//! - **Y2** No engine compresses: the values of the workloads do not compress.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

#[cfg(feature = "berkeley-db")]
mod berkeley;
#[cfg(feature = "bf-tree")]
mod bf_tree;
#[cfg(any(
    feature = "rocksdb",
    feature = "leveldb",
    feature = "lmdb",
    feature = "berkeley-db",
    feature = "splinterdb"
))]
mod c;
#[cfg(any(feature = "rocksdb", feature = "leveldb"))]
mod failure;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "leveldb")]
mod leveldb;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(feature = "mariadb")]
mod mariadb;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(feature = "splinterdb")]
mod splinterdb;
#[cfg(feature = "sqlite")]
mod sqlite;
pub mod studies;
#[cfg(any(feature = "rocksdb", feature = "fjall", feature = "redb", feature = "sqlite"))]
mod transactions;

#[cfg(feature = "leveldb")]
pub use leveldb::writes as leveldb_writes;

use alluvium_bench::engine::Entry;
use alluvium_bench::transactions::engine as transactional;

/// The engines that this was built with.
pub const ENGINES: &[Entry] = &[
    #[cfg(feature = "rocksdb")]
    Entry {
        name: "rocksdb",
        options: rocksdb::OPTIONS,
        open: rocksdb::open_buffered,
    },
    #[cfg(feature = "rocksdb")]
    Entry {
        name: "rocksdb-direct",
        options: rocksdb::OPTIONS,
        open: rocksdb::open_direct,
    },
    #[cfg(feature = "rocksdb")]
    Entry {
        name: "rocksdb-universal",
        options: rocksdb::OPTIONS,
        open: rocksdb::open_universal,
    },
    #[cfg(feature = "leveldb")]
    Entry {
        name: "leveldb",
        options: &[],
        open: leveldb::open,
    },
    #[cfg(feature = "lmdb")]
    Entry {
        name: "lmdb",
        options: &[],
        open: lmdb::open,
    },
    #[cfg(feature = "sqlite")]
    Entry {
        name: "sqlite",
        options: &[],
        open: sqlite::open,
    },
    #[cfg(feature = "berkeley-db")]
    Entry {
        name: "berkeley-db",
        options: berkeley::OPTIONS,
        open: berkeley::open,
    },
    #[cfg(feature = "fjall")]
    Entry {
        name: "fjall",
        options: &[],
        open: fjall::open,
    },
    #[cfg(feature = "redb")]
    Entry {
        name: "redb",
        options: &[],
        open: redb::open,
    },
    #[cfg(feature = "bf-tree")]
    Entry {
        name: "bf-tree",
        options: &[],
        open: bf_tree::open,
    },
    #[cfg(feature = "splinterdb")]
    Entry {
        name: "splinterdb",
        options: &["library", "memtable-threads", "background-threads"],
        open: splinterdb::open,
    },
];

/// The engines with transactions that this was built with.
pub const TRANSACTIONAL: &[transactional::Entry] = &[
    #[cfg(feature = "rocksdb")]
    transactional::Entry {
        name: "rocksdb",
        mechanism: transactional::Mechanism::Locking,
        open: rocksdb::transactions::open_locking,
    },
    #[cfg(feature = "rocksdb")]
    transactional::Entry {
        name: "rocksdb-optimistic",
        mechanism: transactional::Mechanism::Optimistic,
        open: rocksdb::transactions::open_optimistic,
    },
    #[cfg(feature = "fjall")]
    transactional::Entry {
        name: "fjall",
        mechanism: transactional::Mechanism::Optimistic,
        open: transactions::fjall::open,
    },
    #[cfg(feature = "redb")]
    transactional::Entry {
        name: "redb",
        mechanism: transactional::Mechanism::OneWriter,
        open: transactions::redb::open,
    },
    #[cfg(feature = "sqlite")]
    transactional::Entry {
        name: "sqlite",
        mechanism: transactional::Mechanism::OneWriter,
        open: transactions::sqlite::open,
    },
];
