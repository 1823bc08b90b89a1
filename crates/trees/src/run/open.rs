//! Opens a run from its footer.

use super::footer::{RunFooter, RunMetadata};
use super::load::load_from;
use super::spans::bounds;
use super::{ExtentUse, IndexedRun, MalformedNode, RunInner, index};
use alluvium_base::Purpose;
use alluvium_dictionary::nodes::{DirectNodeReader, NodeReader};
use alluvium_dictionary::read::DataFiles;
use alluvium_dictionary::value_log;
use alluvium_storage::extents::{Extent, MAX_EXTENT_UNITS, UNIT};
use alluvium_storage::store::Store;
use alluvium_storage::{NodePointer, PageSize, Result};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

impl IndexedRun {
    /// Opens the run whose footer is at `pointer`. The footer is read directly from the device, not
    /// through the cache.
    ///
    /// # Errors
    /// [`Error::Corrupt`](alluvium_storage::Error::Corrupt) if there is no valid footer at
    /// `pointer`; I/O errors.
    pub fn open(store: &Store, pointer: &NodePointer, purpose: Purpose) -> Result<IndexedRun> {
        Self::open_from(DataFiles::of(store), pointer, purpose)
    }

    /// Like [`IndexedRun::open`], but reads from data files, so that the store need not be open.
    ///
    /// # Errors
    /// See [`IndexedRun::open`].
    pub(crate) fn open_from(
        files: DataFiles<'_>,
        pointer: &NodePointer,
        purpose: Purpose,
    ) -> Result<IndexedRun> {
        let nodes = DirectNodeReader {
            tiers: files.tiers,
            page_size: files.page_size,
            purpose,
        };
        let bytes = load_from(&nodes, pointer)?;
        let bad = |bad: MalformedNode| bad.at(pointer);
        let footer = RunFooter::decode(&bytes, &pointer.place(), files.page_size).map_err(bad)?;
        let details = match &footer {
            RunFooter::Whole { details, .. } => RunMetadata::decode(details),
            RunFooter::Apart { pointer, .. } => {
                let mut details = Vec::new();
                value_log::read_from(&nodes, pointer, &mut details)?;
                RunMetadata::decode(&details)
            }
        };
        Self::assemble(&footer, details.map_err(bad)?, pointer, nodes.page_size()).map_err(bad)
    }

    /// Creates an open run from its decoded footer and metadata.
    pub(super) fn assemble(
        footer: &RunFooter,
        mut details: RunMetadata,
        pointer: &NodePointer,
        page_size: PageSize,
    ) -> std::result::Result<IndexedRun, MalformedNode> {
        list_footer(footer, &mut details, pointer)?;
        let RunMetadata {
            summary,
            low,
            high,
            last,
            root,
            uses,
            range_deletes,
        } = details;
        let root = match root.is_empty() {
            true => None,
            false => Some((index::IndexLayout::of(&root)?, root)),
        };
        if root.is_some() != (summary.records > 0) {
            return Err(MalformedNode("a root where there are records"));
        }
        Ok(IndexedRun {
            inner: Arc::new(RunInner {
                pointer: *pointer,
                summary,
                low,
                high,
                last,
                root,
                uses,
                range_deletes,
                page_size,
                jumps: AtomicU64::new(0),
                left_out: OnceLock::new(),
            }),
            base: 0,
        })
    }
}

/// Adds the extents that contain the footer to the extents listed in `details`.
fn list_footer(
    footer: &RunFooter,
    details: &mut RunMetadata,
    pointer: &NodePointer,
) -> std::result::Result<(), MalformedNode> {
    let first_inherited = details.uses.iter().position(|used| used.inherited);
    let own = first_inherited.unwrap_or(details.uses.len());
    if details.uses[own..].iter().any(|used| !used.inherited) {
        return Err(MalformedNode("a run's own extents before inherited ones"));
    }
    let (low, high) = bounds(&details.low, &details.high);
    let whole_run = |extent: Extent, live: u64| ExtentUse {
        extent,
        low: low.clone(),
        high: high.clone(),
        inherited: false,
        live,
    };
    let mut more = Vec::new();
    if let RunFooter::Apart { extents, .. } = footer {
        more.extend(extents.iter().map(|&(extent, live)| whole_run(extent, live)));
    }
    let end = pointer.offset + pointer.read_len() as u64;
    let live = pointer.read_len() as u64;
    if footer.is_in_last() {
        let units = |last: &ExtentUse| u32::try_from(end.div_ceil(UNIT) - u64::from(last.extent.start));
        let last = own.checked_sub(1).map(|last| &mut details.uses[last]);
        let last = last.filter(|last| {
            let extent = last.extent;
            extent.tier == pointer.tier && extent.offset() < pointer.offset
        });
        let last = last.ok_or(MalformedNode("a footer in the extent that is listed last"))?;
        let units = units(last).ok().filter(|&units| units <= MAX_EXTENT_UNITS);
        last.extent.units = units.ok_or(MalformedNode("a footer near its run"))?;
        last.live += live;
        (last.low, last.high) = (low.clone(), high.clone());
    } else {
        let start = pointer.offset / UNIT;
        let extent = Extent {
            tier: pointer.tier,
            start: u32::try_from(start).map_err(|_| MalformedNode("a footer inside its tier"))?,
            units: (end.div_ceil(UNIT) - start) as u32,
        };
        more.push(whole_run(extent, live));
    }
    details.uses.splice(own..own, more);
    Ok(())
}
