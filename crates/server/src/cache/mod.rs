//! The data of a server in cache mode, kept only in memory and limited in bytes.
//!
//! *Scope*: the state that all connections of a cache share, and the layout of an item in memory.
//!
//! *Must not depend on*: commands (`redis/cached/`, `protocol/memcached/cached/`), start and
//! shutdown of the server (`server/cache.rs`), the disk.
//!
//! Both protocols access the same items. All threads share one table of `alluvium::cache`. The
//! thread that receives a request also executes it, without involving another thread (concurrent
//! reads and concurrent writes, CRCW).
//!
//! Invariants:
//!
//! - **S25** A command that changes an item holds the lock of the item's key from the first read on
//!   which the change depends until the write. Readers take no locks.
//! - **S26** A key has the last value written to it, unless its item was deleted, has expired, or
//!   was evicted.

mod content;
mod item;

pub(crate) use content::ItemCache;
pub use content::{CacheEvictionPolicy, CacheMemory};
pub(crate) use item::CachedItemHeader;

use crate::shared::ServerContext;
use std::sync::Arc;

/// The state that all connections to a cache server share.
pub(crate) struct CacheContext {
    pub(crate) common: Arc<ServerContext>,
    pub(crate) content: ItemCache,
}
