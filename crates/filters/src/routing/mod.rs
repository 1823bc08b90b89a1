//! Routing filters: from a prefix of a fingerprint to the runs or children that may hold it.
//!
//! *Knows*: an array of characters that names the latest run with each prefix (Conway §2.3),
//! and a list of sketches that names all of them, with check characters (§2.4).
//!
//! *Does not know*: what a run is, where its bytes are, which level it is on.
//!
//! *Read in this order*: [`Latest`], [`Update`]; [`Geometry`], [`Builder`], [`Scan`];
//! `format.rs`.
//!
//! - **F11** [`Latest`] names, for each prefix, the run that was last put in with it.
//! - **F12** A list's entries are in rising order of prefix, and of equal prefixes in the order
//!   they were put in. Each pivot's part is read without any other.

mod format;
mod latest;
mod list;
mod scan;
#[cfg(test)]
mod tests;

pub use latest::{Latest, Update};
pub use list::{Builder, Entry, Geometry, Part};
pub use scan::Scan;
