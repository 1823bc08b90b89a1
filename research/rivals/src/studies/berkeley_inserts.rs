//! Random inserts into Berkeley DB, which has no buffer in front of its leaves. Once the leaves
//! exceed the cache, each insert reads one leaf and writes one (Conway 2020, §5.5, Figure 5.1).

use super::line;
use crate::berkeley::{BerkeleySizes, BerkeleyStore, LoggingMode};
use alluvium_lab::{InsertPlan, MeasurementSet};
use alluvium_model::SplitMix64;
use anyhow::{Result, ensure};
use std::path::Path;

/// Page size in bytes; equal to InnoDB's.
const PAGE: u32 = 16 << 10;
/// Approximate bytes of a leaf's entry in its parent node.
const ENTRY: u64 = 40;
/// Minimum cache size of the library.
const LEAST_CACHE: u64 = 512 << 10;

pub(super) fn measure(directory: &Path, records: u64) -> Result<MeasurementSet> {
    let inserts = InsertPlan::new(records)?;
    let leaves = records / InsertPlan::LEAF as u64 * 2;
    // Nodes above the leaves share the cache; with our trees, they need no memory from the budget.
    let cache_bytes = (inserts.memory_bytes() + leaves * ENTRY).max(LEAST_CACHE);
    let sizes = BerkeleySizes {
        page_bytes: PAGE,
        cache_bytes,
    };
    let store = BerkeleyStore::open(directory, sizes, LoggingMode::None)?;
    let (mut random, mut before) = (SplitMix64::from_seed(1), store.pages()?);
    let mut points = Vec::new();
    for inserted in 1..=records {
        store.put(&random.bits().to_be_bytes(), &InsertPlan::ROW)?;
        if let Some(place) = inserts.ends(inserted) {
            let moved = store.pages()?.since(before).moved();
            points.push((place, moved as f64 / inserts.window() as f64));
        }
        if inserts.begins(inserted) {
            before = store.pages()?;
        }
    }
    ensure!(!points.is_empty(), "nothing was measured");
    store.close()?;
    let mut counts = vec![line("pages, berkeley-db".into(), &points)];
    counts.extend(inserts.ours()?);
    Ok(MeasurementSet {
        counts,
        ..MeasurementSet::default()
    })
}
