//! Behaviour of the tables through their public interface.

mod mica_cache;
mod mica_cache_mode;
mod mica_store_mode;
