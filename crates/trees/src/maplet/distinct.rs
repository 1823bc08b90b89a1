//! Estimates the number of distinct keys in several maplets from a sample of their fingerprints.

use super::Maplet;
use alluvium_storage::{Result, TierFiles};
use std::collections::HashSet;

/// Minimum number of fingerprints in the sample, if the maplets have that many.
const SAMPLE: u64 = 20_000;

/// Estimates the number of distinct keys in the union of `maplets`. Reads at least one page of each
/// maplet.
///
/// # Errors
/// I/O errors; [`Error::Corrupt`](alluvium_storage::Error::Corrupt) if a page is damaged.
pub(crate) fn different_keys(maplets: &[Maplet], tiers: &TierFiles) -> Result<f64> {
    // The sample is a range of fingerprints, the same for all maplets. It is one page of the
    // largest maplet, or more if one page has too few fingerprints.
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
