//! A standalone in-memory cache, bounded by bytes.
//!
//! ```
//! use alluvium::cache::{Cache, CacheOptions};
//! let cache = Cache::new(&CacheOptions::new(4 << 20))?;
//! cache.set(b"river", b"Rhine")?;
//! assert_eq!(cache.get(b"river").as_deref(), Some(&b"Rhine"[..]));
//! # Ok::<(), alluvium::cache::Error>(())
//! ```

pub use alluvium_hashes::mica::{Content, Error, Eviction, MAX_KEY_BYTES, MAX_VALUE_BYTES, Stats};
pub use alluvium_hashes::{Cache, CacheOptions};
