//! Routing filters. They map a prefix of a fingerprint to the runs or children that may contain the
//! fingerprint.
//!
//! *Scope*: an array of characters that has the latest run for each prefix (Conway §2.3); a list of
//! sketches that has all runs for each prefix, with check characters (§2.4).
//!
//! *Must not depend on*: runs, the location of their bytes, their levels.
//!
//! - **F11** A [`RoutingArray`] maps each prefix to the run that was added last among those that
//!   contain the prefix.
//! - **F12** The entries of a list are sorted by prefix. Entries with the same prefix are in the
//!   order of insertion. The section of a pivot can be read without any other section.

mod array;
mod format;
mod list;
mod scan;
#[cfg(test)]
mod tests;

pub use array::{RoutingArray, RoutingUpdate};
pub use list::{PivotSection, RoutingEntry, RoutingGeometry, RoutingListBuilder};
pub use scan::RoutingScan;
