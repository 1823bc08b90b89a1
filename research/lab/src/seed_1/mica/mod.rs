//! Chapter 5 of Lim's thesis: MICA's tables in memory, in one process and over loopback.
//!
//! *Read in this order*: `requests.rs` (items, and who asks for which), `tables.rs` (tables that
//! serve them in one process), `modes.rs` (M4, M7, M9, M10: without a network), `ways.rs` (M1, M2,
//! M3, M5, M6, M8, M11: by rings of memory and by datagrams).

mod modes;
mod requests;
mod tables;
mod ways;

use crate::entry::Experiment;

/// All of them.
pub(super) const EXPERIMENTS: [&Experiment; 11] = [
    &ways::M1,
    &ways::M2,
    &ways::M3,
    &modes::M4,
    &ways::M5,
    &ways::M6,
    &modes::M7,
    &ways::M8,
    &modes::M9,
    &modes::M10,
    &ways::M11,
];

/// The machine of section 5.4.
const SETTING: &str = "Two Xeon E5-2680 with 8 cores each at 2.7 GHz, 64 GiB of memory, half of it in huge pages, 8 ports of 10 Gb/s; \
                       two client machines; 192 Mi tiny items (8 B, 8 B), 128 Mi small (16 B, 64 B), 8 Mi large (128 B, 1,024 B).";

/// What holds of all that is measured without a network.
const LOCAL: &str = "Two threads and two partitions in one process. Requests are drawn and their keys hashed before time is taken, as the document's clients do. \
                     The document's tiny items need 12 GB: `--records 201326592`.";

/// What holds of all that passes loopback or rings.
const LOOPBACK: &str = "Client and server share one machine, and no network card directs requests to cores. Compare quotients, not rates.";
