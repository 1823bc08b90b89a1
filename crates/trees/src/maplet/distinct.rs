//! How many different keys maplets have, without their keys: from a share of all fingerprints.

use super::Maplet;
use alluvium_storage::{Result, Tiers};
use std::collections::HashSet;

/// Fingerprints that a sample of them should have at least, where there are as many.
const SAMPLE: u64 = 20_000;

/// Returns about how many different keys maplets have. It reads a page or more of each.
///
/// # Errors
/// As the device says, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt).
pub(crate) fn different_keys(maplets: &[Maplet], tiers: &Tiers) -> Result<f64> {
    // A page of the largest maplet, unless that is too few: what is in one page there is in one of
    // each.
    let pages = maplets.iter().map(|maplet| maplet.geometry().pages()).max();
    let entries: u64 = maplets.iter().map(Maplet::entries).sum();
    let slices = u64::from(pages.unwrap_or(1)).min(entries / SAMPLE).max(1);
    let last = u64::MAX / slices;
    let mut found = HashSet::new();
    for maplet in maplets {
        let last = maplet.geometry().fingerprint(last);
        maplet.read_fingerprints(last, tiers, &mut |fingerprint| {
            found.insert(fingerprint);
        })?;
    }
    Ok(found.len() as f64 * slices as f64)
}
