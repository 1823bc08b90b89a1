//! Merges maplets incrementally and without their keys. The merge reads the source pages
//! sequentially, bypassing the cache, rewrites or drops their values, and adds the fingerprints of
//! a new run.

use super::pages::MapletEntryReader;
use super::run_fingerprints::RunFingerprints;
use super::write::{MapletWriter, WrittenMaplet};
use super::{Maplet, MapletSpec};
use alluvium_filters as filters;
use alluvium_filters::{
    EntryChunk, FilterBuilder, FilterEntry, FilterGeometry, FilterMerge, FilterShape, Fingerprint,
    MergeProgress,
};
use alluvium_storage::store::Store;
use alluvium_storage::{DiskLocation, Error, PageSize, Result};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// An input maplet of a merge.
#[derive(Clone, Debug)]
pub struct MapletSource {
    /// The input maplet. The caller must keep its extents allocated until the merge has completed
    /// or been dropped.
    pub maplet: Maplet,
    /// For each old value, the new value that replaces it, or `None` to drop its entries.
    pub rewrite: Box<[Option<u16>]>,
}

/// The result of one step of a [`MapletMerger`].
#[derive(Debug)]
pub enum MapletMergeProgress {
    More,
    Done(WrittenMaplet),
}

/// An error of a maplet merge, either from the store or from `alluvium_filters`.
#[derive(Debug)]
pub(super) enum MapletMergeError {
    Store(Error),
    Filter(filters::Error),
}

impl From<Error> for MapletMergeError {
    fn from(error: Error) -> MapletMergeError {
        MapletMergeError::Store(error)
    }
}

impl From<filters::Error> for MapletMergeError {
    fn from(error: filters::Error) -> MapletMergeError {
        MapletMergeError::Filter(error)
    }
}

type ChunkSource = Box<dyn FnMut(&mut EntryChunk) -> std::result::Result<bool, MapletMergeError> + Send>;
type PageSink = Box<dyn FnMut(&[u8]) -> std::result::Result<(), MapletMergeError> + Send>;

/// A merge in progress. Dropping it before it has completed discards everything that it has written
/// (Q4).
///
/// If writing fails, the caller must pass the error to [`Store::poison_on_error`], as for any
/// writer.
pub struct MapletMerger {
    /// The state of the merge; `None` after the last step or after an error.
    work: Option<MapletMergeState>,
}

impl fmt::Debug for MapletMerger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let merged = self.work.as_ref().and_then(|work| work.merge.as_ref());
        f.debug_struct("MapletMerger")
            .field("merge", &merged)
            .finish_non_exhaustive()
    }
}

struct MapletMergeState {
    /// The sources, until the first step moves them to `merge`.
    feeds: Vec<ChunkSource>,
    merge: Option<FilterMerge<ChunkSource>>,
    /// Each source's table of new values. `None` for the fingerprints of a new run, which keep
    /// their value.
    tables: Vec<Option<Box<[Option<u16>]>>>,
    builder: FilterBuilder<PageSink>,
    sink: Arc<Mutex<MapletWriter>>,
    tally: PairCounter,
    place: DiskLocation,
}

impl MapletMerger {
    /// Creates a merge of the maplets in `sources`. If `fresh` is given, it holds the key hashes of
    /// a new run and their value, which are added. Submits the reads of the first pages of all
    /// maplets.
    ///
    /// The new maplet is sized for all remaining source entries and all fresh entries. If some of
    /// them are duplicates, its pages are less full.
    ///
    /// # Errors
    /// [`Error::BadOption`] if a source has fingerprints of another length, or if the length does
    /// not suit this number of entries; [`Error::Poisoned`] if the store no longer accepts changes.
    ///
    /// # Panics
    /// If a source's table has no new value for one of the source's values.
    pub fn new(
        store: &Store,
        spec: &MapletSpec,
        sources: Vec<MapletSource>,
        fresh: Option<(Vec<u64>, u16)>,
    ) -> Result<MapletMerger> {
        let bits = u32::from(spec.fingerprint_bits);
        let (mut entries, mut greatest) = (0, 0);
        let (mut feeds, mut tables): (Vec<ChunkSource>, Vec<_>) = (Vec::new(), Vec::new());
        let mut place = None;
        for MapletSource { maplet, rewrite } in sources {
            let found = maplet.geometry().fingerprint_bits();
            if found != bits {
                let why = format!(
                    "{bits} bits, but a maplet to be merged has {found}: the length is fixed for a tree"
                );
                return Err(bad_fingerprints(why));
            }
            for &(value, count) in maplet.values() {
                let new = rewrite
                    .get(usize::from(value))
                    .unwrap_or_else(|| panic!("value {value} of a table for {} values", rewrite.len()));
                if let Some(new) = *new {
                    entries += count;
                    greatest = greatest.max(new);
                }
            }
            place.get_or_insert(maplet.pointer().place());
            let mut pages = MapletEntryReader::new(&maplet, store.tiers(), spec.purpose)?;
            let (tiers, tier) = (Arc::clone(store.tiers()), maplet.pointer().tier);
            feeds.push(Box::new(move |chunk| {
                Ok(tiers.record_failure(tier, pages.fill(chunk))?)
            }));
            tables.push(Some(rewrite));
        }
        if let Some((hashes, value)) = fresh {
            entries += hashes.len() as u64;
            greatest = greatest.max(value);
            let mut fresh = RunFingerprints::new(hashes, bits, value);
            feeds.push(Box::new(move |chunk| Ok(fresh.fill(chunk))));
            tables.push(None);
        }
        let geometry = geometry(entries, bits, greatest, store.page_size())?;
        assert_eq!(feeds.len(), tables.len(), "a table for each source");
        let sink = Arc::new(Mutex::new(MapletWriter::new(store, spec, &geometry)?));
        let pages = Arc::clone(&sink);
        let page_sink: PageSink = Box::new(move |page| Ok(locked(&pages).page(page)?));
        Ok(MapletMerger {
            work: Some(MapletMergeState {
                feeds,
                merge: None,
                tables,
                builder: FilterBuilder::new(geometry, page_sink),
                sink,
                tally: PairCounter::new(greatest),
                place: place.unwrap_or_else(|| {
                    DiskLocation::new(
                        alluvium_storage::OnDiskObject::Node,
                        alluvium_storage::node::tier_file(spec.tier),
                        0,
                    )
                }),
            }),
        })
    }

    /// Merges the next `entries` entries, at about 30 million entries per second. Completes the
    /// maplet after the last entry.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a source is damaged; [`Error::Full`]; I/O errors. After an error the
    /// merge is discarded.
    ///
    /// # Panics
    /// If called after the last step, or after an error.
    pub fn step(&mut self, entries: usize) -> Result<MapletMergeProgress> {
        let mut work = self
            .work
            .take()
            .expect("a merge that is over takes no further step");
        let place = work.place.clone();
        let failed = |fault| match fault {
            MapletMergeError::Store(error) => error,
            MapletMergeError::Filter(error) => {
                Error::corrupt(place.clone(), "maplets that can be merged", error.to_string())
            }
        };
        match work.go_on(entries as u64).map_err(failed)? {
            MergeProgress::More => {
                self.work = Some(work);
                Ok(MapletMergeProgress::More)
            }
            MergeProgress::Done => Ok(MapletMergeProgress::Done(work.finish().map_err(failed)?)),
        }
    }
}

impl MapletMergeState {
    fn go_on(&mut self, entries: u64) -> std::result::Result<MergeProgress, MapletMergeError> {
        let merge = match &mut self.merge {
            Some(merge) => merge,
            none => none.insert(FilterMerge::new(std::mem::take(&mut self.feeds))?),
        };
        assert!(self.feeds.is_empty(), "a merge has all the sources");
        let (tables, tally) = (&self.tables, &mut self.tally);
        let rewrite = |source: usize, entry: FilterEntry| {
            let value = match &tables[source] {
                None => entry.value(),
                Some(table) => table.get(usize::from(entry.value())).copied().flatten()?,
            };
            tally.is_new(entry.fingerprint(), value).then_some(value)
        };
        merge.step(entries, rewrite, &mut self.builder)
    }

    fn finish(self) -> std::result::Result<WrittenMaplet, MapletMergeError> {
        let geometry = *self.builder.geometry();
        let built = self.builder.finish()?;
        assert!(
            self.tally.repeats <= built.distinct,
            "an entry is counted once (Q1)"
        );
        // The builder held the only other reference to the sink.
        let sink = Arc::into_inner(self.sink).expect("the builder is gone");
        let sink = sink.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(sink.finish(geometry, built, self.tally.values(), self.tally.repeats)?)
    }
}

fn locked(sink: &Mutex<MapletWriter>) -> std::sync::MutexGuard<'_, MapletWriter> {
    sink.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the geometry of a maplet with this number of entries, which depends on nothing but the
/// arguments.
fn geometry(
    entries: u64,
    fingerprint_bits: u32,
    greatest_value: u16,
    page_size: PageSize,
) -> Result<FilterGeometry> {
    let shape = FilterShape {
        page_bytes: page_size.bytes() as u32,
        ..FilterShape::new(fingerprint_bits, u16::BITS - greatest_value.leading_zeros())
    };
    FilterGeometry::for_entries(entries, shape).map_err(|error| bad_fingerprints(error.to_string()))
}

fn bad_fingerprints(why: String) -> Error {
    Error::BadOption {
        option: "fingerprint bits",
        why,
    }
}

/// Counts the pairs of fingerprint and value that a merge keeps, and detects duplicates (Q1). The
/// pairs must be passed in ascending order of their fingerprints.
#[derive(Debug)]
struct PairCounter {
    counts: Vec<u64>,
    last: Option<Fingerprint>,
    /// The values seen so far for the most recent fingerprint.
    values: Vec<u16>,
    /// Number of entries minus the number of distinct fingerprints.
    repeats: u64,
}

impl PairCounter {
    fn new(greatest: u16) -> PairCounter {
        PairCounter {
            counts: vec![0; usize::from(greatest) + 1],
            last: None,
            values: Vec::new(),
            repeats: 0,
        }
    }

    #[inline]
    fn is_new(&mut self, fingerprint: Fingerprint, value: u16) -> bool {
        if self.last != Some(fingerprint) {
            self.last = Some(fingerprint);
            self.values.clear();
        } else if self.values.contains(&value) {
            return false;
        } else {
            self.repeats += 1;
        }
        debug_assert!(!self.values.contains(&value), "a fingerprint has each value once");
        self.values.push(value);
        debug_assert!(
            usize::from(value) < self.counts.len(),
            "value {value} is no greater than the greatest"
        );
        if let Some(count) = self.counts.get_mut(usize::from(value)) {
            *count += 1;
        }
        true
    }

    fn values(&self) -> Vec<(u16, u64)> {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(value, &count)| (value as u16, count)).collect()
    }
}
