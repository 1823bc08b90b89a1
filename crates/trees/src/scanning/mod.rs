//! What scans of runs have in common: runs and memtables are merged within a range.
//!
//! *Knows*: how a position is kept between the calls of a scan, how records are decided by the
//! batch, how range deletes are skipped.
//!
//! *Does not know*: which runs count where, and when a scan needs others.
//!
//! *Read in this order*: `segment.rs` (one range), `sources.rs` (what is merged in it),
//! `held.rs` (what all scans of a structure hold between their calls).
//!
//! Invariants:
//!
//! - **W1** Sources stand newest first: of equal keys the newest message comes first.
//! - **W2** Between two calls of a scan a segment holds no memtable, only positions in them.

mod held;
mod segment;
mod sources;

pub(crate) use held::{Held, Hold};
pub(crate) use segment::{Position, Segment, Share, Taken, Wanted};
