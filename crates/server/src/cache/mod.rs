//! The data of a server that keeps it only in memory: a cache with a limit in bytes.
//!
//! *Scope*: the state shared by all connections, the layout of an item in memory.
//!
//! *Must not depend on*: commands (`redis/cached/`, `protocol/memcached/cached/`), start and
//! shutdown of the server (`server/cache.rs`), the disk.
//!
//! Both protocols access the same items. All threads share one table of `alluvium::cache`: the
//! thread that receives a request executes it (CRCW), without involving another thread.
//!
//! Invariants:
//!
//! - **S25** A command that changes an item holds the lock of its key from the first read that the
//!   change depends on until the write. Readers take no locks.
//! - **S26** A key has the last value that it was set to, or none because it was deleted, has
//!   expired, or was evicted.

mod content;
mod item;

pub(crate) use content::ItemCache;
pub use content::{CacheEvictionPolicy, CacheMemory};
pub(crate) use item::CachedItemHeader;

use crate::shared::ServerContext;
use std::sync::Arc;

/// State shared by all connections to a cache.
pub(crate) struct CacheContext {
    pub(crate) common: Arc<ServerContext>,
    pub(crate) content: ItemCache,
}
