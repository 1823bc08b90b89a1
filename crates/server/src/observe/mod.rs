//! Statistics that a running server keeps about itself, and reports on them.
//!
//! *Scope*: counters, slow commands and events, the stream of MONITOR, rates and peaks, the health
//! of the server, measurements of its process, and the store's tiers, levels, pages and predicted
//! costs as JSON.
//!
//! *Must not depend on*: commands and protocols, which call it; the page that displays it (`web/`).

pub(crate) mod command_stats;
pub(crate) mod forecast;
pub(crate) mod health;
pub(crate) mod item_counts;
pub(crate) mod latency;
pub(crate) mod levels;
pub(crate) mod log_level;
pub(crate) mod monitor;
pub(crate) mod paged;
pub(crate) mod process;
pub(crate) mod sampler;
pub(crate) mod slowlog;
pub(crate) mod tiers;
