//! Routing filters, which map a fingerprint prefix to the runs or children that may contain the
//! fingerprint.
//!
//! *Scope*: an array of characters with the latest run for each prefix (Conway §2.3); a list of
//! sketches with all runs for each prefix, including check characters (§2.4).
//!
//! *Must not depend on*: runs, where their bytes are stored, their levels.
//!
//! - **F11** A [`RoutingArray`] maps each prefix to the most recently added run that contains it.
//! - **F12** The entries of a list are sorted by prefix, and those with the same prefix are in
//!   insertion order. The section of a pivot can be read without any other section.

mod array;
mod format;
mod list;
mod scan;
#[cfg(test)]
mod tests;

pub use array::{RoutingArray, RoutingUpdate};
pub use list::{PivotSection, RoutingEntry, RoutingGeometry, RoutingListBuilder};
pub use scan::RoutingScan;
