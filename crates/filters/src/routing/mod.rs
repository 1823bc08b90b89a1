//! Routing filters: map a prefix of a fingerprint to the runs or children that may contain it.
//!
//! *Scope*: an array of characters that names the latest run of each prefix (Conway §2.3), and a
//! list of sketches that names all of them, with check characters (§2.4).
//!
//! *Must not depend on*: runs, the location of their bytes, their levels.
//!
//! - **F11** [`RoutingArray`] names, for each prefix, the run most recently recorded for it.
//! - **F12** A list's entries are sorted by prefix; entries with equal prefixes are in insertion
//!   order. Each pivot's part can be read without any other part.

mod array;
mod format;
mod list;
mod scan;
#[cfg(test)]
mod tests;

pub use array::{RoutingArray, RoutingUpdate};
pub use list::{PivotSection, RoutingEntry, RoutingGeometry, RoutingListBuilder};
pub use scan::RoutingScan;
