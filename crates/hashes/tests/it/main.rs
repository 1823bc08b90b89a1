//! Unordered dictionaries against naive twins, through the public interface.

mod mica_cache;
mod mica_cache_mode;
mod mica_hit_ratios;
mod mica_overhead;
mod mica_store_mode;
mod mica_threads;
mod silt;
mod skew;
mod zipf;
