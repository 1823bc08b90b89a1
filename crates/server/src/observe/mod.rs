//! What a running server records about itself, and the reports that are made of it.
//!
//! *Knows*: counters, slow commands and events, the stream of MONITOR, rates and peaks, the health
//! of the server, the figures of its process, the store's tiers, pages and predicted costs as JSON.
//!
//! *Does not know*: commands and protocols, which call it; the page that displays it (`web/`).
//!
//! *Read in this order*: `command_stats.rs` and `item_counts.rs` (counters), `slowlog.rs`,
//! `latency.rs`, `monitor.rs`, `log_level.rs`, `process.rs`, `sampler.rs` (rates and peaks),
//! `health.rs` (what is wrong); then `forecast.rs`, `tiers.rs` and `paged.rs` (the store as JSON).

pub(crate) mod command_stats;
pub(crate) mod forecast;
pub(crate) mod health;
pub(crate) mod item_counts;
pub(crate) mod latency;
pub(crate) mod log_level;
pub(crate) mod monitor;
pub(crate) mod paged;
pub(crate) mod process;
pub(crate) mod sampler;
pub(crate) mod slowlog;
pub(crate) mod tiers;
