//! Adapters to the engines that Alluvium is compared with. Each has a feature of the same name; the
//! feature `all` enables all of them.
//!
//! *Scope*: how each engine is opened, used, and tuned for the available memory as its own
//! documentation recommends; its additional options.
//!
//! *Must not depend on*: workloads, accounting.
//!
//! Invariants:
//!
//! - **Y1** All engines have the same durability: writes survive the death of the process, and
//!   individual writes are not synced. An engine without such a mode uses the nearest one, and its
//!   settings report the difference: Bf-Tree persists nothing, and SplinterDB's log cannot be
//!   replayed.
//! - **Y2** No engine compresses: the values of the workloads are incompressible.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

#[cfg(feature = "agentfs")]
pub mod agent_fs;
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
mod c_interop;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "leveldb")]
mod leveldb;
#[cfg(any(feature = "rocksdb", feature = "leveldb"))]
mod library_error;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(feature = "mariadb")]
mod mariadb;
pub mod queue;
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

use alluvium_bench::engine::EngineEntry;
use alluvium_bench::transactions::engine as transactional;

/// The engines compiled into this build.
pub const ENGINES: &[EngineEntry] = &[
    #[cfg(feature = "rocksdb")]
    EngineEntry {
        name: "rocksdb",
        options: rocksdb::OPTIONS,
        open: rocksdb::open_buffered,
    },
    #[cfg(feature = "rocksdb")]
    EngineEntry {
        name: "rocksdb-direct",
        options: rocksdb::OPTIONS,
        open: rocksdb::open_direct,
    },
    #[cfg(feature = "rocksdb")]
    EngineEntry {
        name: "rocksdb-universal",
        options: rocksdb::OPTIONS,
        open: rocksdb::open_universal,
    },
    #[cfg(feature = "leveldb")]
    EngineEntry {
        name: "leveldb",
        options: &[],
        open: leveldb::open,
    },
    #[cfg(feature = "lmdb")]
    EngineEntry {
        name: "lmdb",
        options: &[],
        open: lmdb::open,
    },
    #[cfg(feature = "sqlite")]
    EngineEntry {
        name: "sqlite",
        options: &[],
        open: sqlite::open,
    },
    #[cfg(feature = "berkeley-db")]
    EngineEntry {
        name: "berkeley-db",
        options: berkeley::OPTIONS,
        open: berkeley::open,
    },
    #[cfg(feature = "fjall")]
    EngineEntry {
        name: "fjall",
        options: &[],
        open: fjall::open,
    },
    #[cfg(feature = "redb")]
    EngineEntry {
        name: "redb",
        options: &[],
        open: redb::open,
    },
    #[cfg(feature = "bf-tree")]
    EngineEntry {
        name: "bf-tree",
        options: &[],
        open: bf_tree::open,
    },
    #[cfg(feature = "splinterdb")]
    EngineEntry {
        name: "splinterdb",
        options: &["library", "memtable-threads", "background-threads"],
        open: splinterdb::open,
    },
];

/// The engines with transactions compiled into this build.
pub const TRANSACTIONAL: &[transactional::TransactionalEntry] = &[
    #[cfg(feature = "rocksdb")]
    transactional::TransactionalEntry {
        name: "rocksdb",
        mechanism: transactional::IsolationMechanism::Locking,
        open: rocksdb::transactions::open_locking,
    },
    #[cfg(feature = "rocksdb")]
    transactional::TransactionalEntry {
        name: "rocksdb-optimistic",
        mechanism: transactional::IsolationMechanism::Optimistic,
        open: rocksdb::transactions::open_optimistic,
    },
    #[cfg(feature = "fjall")]
    transactional::TransactionalEntry {
        name: "fjall",
        mechanism: transactional::IsolationMechanism::Optimistic,
        open: transactions::fjall::open,
    },
    #[cfg(feature = "redb")]
    transactional::TransactionalEntry {
        name: "redb",
        mechanism: transactional::IsolationMechanism::OneWriter,
        open: transactions::redb::open,
    },
    #[cfg(feature = "sqlite")]
    transactional::TransactionalEntry {
        name: "sqlite",
        mechanism: transactional::IsolationMechanism::OneWriter,
        open: transactions::sqlite::open,
    },
];
