//! Tests that compare unordered dictionaries with naive models through the public interface: their
//! invariants, and how they behave when writes fail.

mod crashes;
mod mica_cache;
mod mica_cache_mode;
mod mica_hit_ratios;
mod mica_overhead;
mod mica_store_mode;
mod mica_threads;
mod skew;
mod zipf;
