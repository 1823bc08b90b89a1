//! Unordered dictionaries against naive twins, their laws, and their behaviour when writes fail,
//! through the public interface.

mod boa;
mod bot;
mod faults;
mod hosted;
mod mica_cache;
mod mica_cache_mode;
mod mica_hit_ratios;
mod mica_overhead;
mod mica_store_mode;
mod mica_threads;
mod model;
mod silt;
mod skew;
mod support;
mod zipf;
