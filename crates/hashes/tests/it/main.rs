//! Behaviour of the tables through their public interface.

mod mica_cache_mode;
