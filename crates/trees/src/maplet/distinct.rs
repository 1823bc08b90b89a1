//! Estimates the number of distinct keys in maplets from a sample of their fingerprints.

use super::Maplet;
use alluvium_storage::{Result, TierFiles};
use std::collections::HashSet;

/// Minimum size of the sample, if there are as many fingerprints.
const SAMPLE: u64 = 20_000;

/// Returns the approximate number of distinct keys in maplets. Reads at least one page of each.
///
/// # Errors
/// I/O errors, or [`Error::Corrupt`](alluvium_storage::Error::Corrupt).
pub(crate) fn different_keys(maplets: &[Maplet], tiers: &TierFiles) -> Result<f64> {
    // One page of the largest maplet, unless that is too small a sample. All maplets are sampled
    // over the same range of fingerprints.
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
