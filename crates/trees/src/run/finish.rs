//! Completes a run: writes the index nodes and the footer, and returns the result to the caller.

use super::build::{RunBuilder, note_sequence};
use super::footer::{RunFooter, RunMetadata};
use super::index::{IndexBuilder, IndexChild};
use super::spans::{bounds, rounded_up};
use super::units::ValueUnits;
use super::{ExtentUse, IndexedRun};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::range_tombstones::{RangeTombstoneBuilder, RangeTombstoneIndex};
use alluvium_dictionary::value_log::{ValueWriter, largest};
use alluvium_storage::extents::{Extent, Extents, UNIT};
use alluvium_storage::store::Store;
use alluvium_storage::{DiskLocation, Error, NodePointer, OnDiskObject, Result};
use std::mem::take;
use std::sync::Arc;

/// A run that is completely written but not yet part of the store.
#[derive(Debug)]
pub struct BuiltRun {
    /// The new run, which can already be read.
    pub run: IndexedRun,
    /// The hashes of all distinct keys, in key order. Keys of adopted leaves are missing unless
    /// they were hashed.
    pub hashes: Vec<u64>,
    /// The extents written for this run, each with its live bytes. They are provisional until the
    /// caller installs them.
    pub extents: Vec<(Extent, u64)>,
    /// Total size in bytes of the leaves adopted from other runs.
    pub(crate) adopted_bytes: u64,
    /// Pointers to the index nodes that were inserted into the cache.
    pub(crate) cached: Vec<NodePointer>,
}

impl BuiltRun {
    /// Frees the extents that were written for this run. None of its leaves may have been read
    /// through the cache.
    pub fn abandon(self, store: &Store) {
        self.cached
            .iter()
            .for_each(|pointer| store.cache().discard(pointer));
        for (extent, _) in self.extents {
            store.extents().abandon(extent);
        }
    }
}

/// Index nodes to insert into the cache after all writes have completed.
type ToCache = Vec<(NodePointer, Vec<u8>)>;

/// The extents of completed writers. Dropping this list frees the extents left in it.
struct ProvisionalExtents {
    extents: Arc<Extents>,
    claimed: Vec<(Extent, u64)>,
}

impl Drop for ProvisionalExtents {
    fn drop(&mut self) {
        for (extent, _) in self.claimed.drain(..) {
            self.extents.abandon(extent);
        }
    }
}

impl RunBuilder {
    /// Completes the run: writes the remaining leaves, the index nodes and the footer, and waits
    /// for all writes. Returns `None` if neither records nor range deletes were added. Does not
    /// sync the device or install the extents.
    ///
    /// # Errors
    /// [`Error::Full`] if the store is full; [`Error::Corrupt`] if a record points to a value
    /// outside of all inherited extents; I/O errors. An error discards everything written.
    pub fn finish(mut self) -> Result<Option<BuiltRun>> {
        let range_deletes = self.take_deletes();
        if self.summary.records == 0 && range_deletes.is_empty() {
            return Ok(None);
        }
        let summary = &self.summary;
        assert!(
            summary.keys <= summary.records && summary.tombstones <= summary.records,
            "a key has a record: {summary:?}"
        );
        assert_eq!(
            self.keys.hashes.len() as u64 + self.adopted.keys,
            summary.keys,
            "the maplet gets a hash of each key (T6)"
        );
        self.summary.range_deletes = range_deletes.count_distinct() as u64;
        for sequence in range_deletes.sequences() {
            note_sequence(&mut self.summary, sequence, sequence);
        }
        // The upper bound of an adopted leaf is not the key of any record, but it bounds the last
        // leaf's keys.
        if let Some(fence) = self.adopted.fence.take() {
            self.keys.last = fence;
        }
        let (low, high) = self.bounds(&range_deletes);
        let last = rounded_up(&self.keys.last).into();
        let (root, cached) = self.finish_index(&low, &high)?;
        let mut claimed = ProvisionalExtents {
            extents: Arc::clone(&self.nodes.extents),
            claimed: Vec::new(),
        };
        if let Some(values) = self.values.finish()? {
            claimed.claimed = values.extents;
        }
        self.summary.bytes = self.nodes.writer.bytes()
            + claimed
                .claimed
                .iter()
                .map(|(extent, _)| extent.bytes())
                .sum::<u64>();
        debug_assert!(low <= high, "a run has a first and a last key");
        let uses = self.uses(&claimed.claimed)?;
        let details = RunMetadata {
            summary: self.summary,
            low,
            high,
            last,
            root,
            uses,
            range_deletes,
        };
        self.finish_footer(details, cached, claimed)
    }

    fn take_deletes(&mut self) -> Arc<RangeTombstoneIndex> {
        let (indexed, list) = (take(&mut self.deletes.indexed), take(&mut self.deletes.list));
        if list.is_empty() {
            return indexed;
        }
        let (listed, everything) = (RangeTombstoneIndex::of(&list), KeyRange::everything());
        Arc::new(RangeTombstoneBuilder::merged(&[(&*indexed, &everything), (&listed, &everything)]).finish())
    }

    /// Returns the smallest and largest keys of all records and range deletes. A long key is
    /// replaced by a shorter one outside of this interval.
    fn bounds(&self, range_deletes: &RangeTombstoneIndex) -> (Box<[u8]>, Box<[u8]>) {
        let records = (self.summary.records > 0).then_some((&self.keys.first[..], &self.keys.last[..]));
        let (first, last) = range_deletes.bounds().unzip();
        let low = records
            .map(|(low, _)| low)
            .into_iter()
            .chain(first.as_deref())
            .min();
        let high = records
            .map(|(_, high)| high)
            .into_iter()
            .chain(last.as_deref())
            .max();
        bounds(low.unwrap_or_default(), high.unwrap_or_default())
    }

    /// Writes the last leaf and all index nodes except the root. Returns the encoded root, and the
    /// index nodes to cache.
    fn finish_index(&mut self, low: &[u8], high: &[u8]) -> Result<(Vec<u8>, ToCache)> {
        let mut cached = Vec::new();
        if self.summary.records == 0 {
            return Ok((Vec::new(), cached));
        }
        if self.current.has_records() {
            self.close_leaf(false);
        }
        self.close_values()?;
        let last_key = take(&mut self.keys.last);
        self.write_closed(Some(&last_key))?;
        self.keys.last = last_key;
        assert!(self.closed.is_empty(), "every leaf is written");
        self.index.close(self.nodes.page_size());
        self.nodes.writer.set_codec(self.options.codec);
        let mut level = 1;
        let mut nodes = take(&mut self.index.full);
        while nodes.len() > 1 {
            assert!(level < u8::MAX, "levels are counted in 8 bits");
            level += 1;
            let mut above = IndexBuilder::new(level);
            let mut next = Vec::new();
            let room = self.page_size().bytes();
            for mut full in nodes {
                let nodes = self.nodes.write(&mut full.bytes)?;
                for node in nodes.all() {
                    self.nodes.spans.add(node, low, high, node.read_len() as u64);
                }
                let child = IndexChild {
                    pointer: nodes.head,
                    sums: full.sums,
                    begun: full.begun,
                };
                let none = ValueUnits::default();
                if !above.add(&full.separator, &child, (&none, None), room) {
                    next.push(above.take());
                    let added = above.add(&full.separator, &child, (&none, None), room);
                    assert!(added, "an empty index node takes a child");
                }
                if nodes.parts.is_empty() {
                    cached.push((nodes.head, full.bytes));
                }
            }
            next.push(above.take());
            debug_assert!(
                next.windows(2).all(|pair| pair[0].separator <= pair[1].separator),
                "I1"
            );
            nodes = next;
        }
        assert_eq!(nodes.len(), 1, "a run with records has one root");
        Ok((nodes.pop().map_or_else(Vec::new, |root| root.bytes), cached))
    }

    /// Returns the extents that the run uses, except those of the footer, which are added when the
    /// run is opened.
    fn uses(&mut self, values: &[(Extent, u64)]) -> Result<Vec<ExtentUse>> {
        let mut uses = Vec::new();
        for &(extent, _) in values {
            uses.extend(self.values.spans.take(extent, false));
        }
        let filling = self.nodes.writer.filling().map(|(extent, used)| Extent {
            units: used.div_ceil(UNIT) as u32,
            ..extent
        });
        let leaves = self.nodes.writer.written().iter().map(|(extent, _)| *extent);
        for extent in leaves.chain(filling) {
            uses.extend(self.nodes.spans.take(extent, false));
        }
        let own = take(&mut self.values.inherited);
        let mut inherited: Vec<Extent> = own;
        inherited.sort_unstable();
        inherited.dedup();
        for extent in inherited {
            uses.extend(self.values.spans.take(extent, true));
        }
        if let Some((tier, unit)) = self.values.spans.left_over().or(self.nodes.spans.left_over()) {
            let place = DiskLocation::new(
                OnDiskObject::Node,
                alluvium_storage::node::tier_file(tier),
                unit * UNIT,
            );
            let expected = "values in extents of the runs that are inherited from";
            return Err(Error::corrupt(place, expected, "a pointer to elsewhere"));
        }
        debug_assert!(
            uses.is_sorted_by_key(|used| used.inherited),
            "a run's own extents come before inherited ones"
        );
        debug_assert!(uses.iter().all(|used| used.low <= used.high), "R2");
        Ok(uses)
    }

    /// Writes the footer, waits for all writers to complete, and returns the run.
    fn finish_footer(
        self,
        details: RunMetadata,
        cached: ToCache,
        mut claimed: ProvisionalExtents,
    ) -> Result<Option<BuiltRun>> {
        let page_size = self.page_size();
        let page = page_size.bytes();
        let most = largest(page_size) - RunFooter::bytes_with(0);
        let mut bytes = Vec::new();
        let fits = details.encode(|piece| {
            let fits = bytes.len() + piece.len() <= most;
            fits.then(|| bytes.extend_from_slice(piece)).ok_or(())
        });
        let mut footer = match fits {
            Ok(()) => RunFooter::Whole {
                in_last: false,
                details: bytes,
            },
            Err(()) => self.write_apart(&details, &mut claimed)?,
        };
        let mut node = Vec::new();
        footer.encode(&mut node);
        let len = node.len().next_multiple_of(page);
        let fits = |(extent, used): &(Extent, u64)| {
            used.next_multiple_of(page as u64) + len as u64 <= extent.bytes()
        };
        let in_last = self.nodes.writer.filling().is_some_and(|filling| fits(&filling));
        footer.set_in_last(in_last);
        node.clear();
        footer.encode(&mut node);
        assert!(
            node.len() <= len,
            "where a footer lies does not change its length"
        );
        node.resize(len, 0);
        let apart = (largest(page_size) as u64).div_ceil(UNIT) as u32;
        let apart = (!in_last).then(|| self.nodes.another(apart));
        let mut leaves = self.nodes.writer;
        if let Some(apart) = apart {
            let full = std::mem::replace(&mut leaves, apart);
            claimed.claimed.extend(full.finish()?.extents);
        }
        let pointer = leaves.add(&node)?;
        claimed.claimed.extend(leaves.finish()?.extents);
        let run =
            IndexedRun::assemble(&footer, details, &pointer, page_size).map_err(|bad| bad.at(&pointer))?;
        for (pointer, node) in &cached {
            self.nodes.cache.insert(pointer, node);
        }
        let own = run.extents().iter().filter(|used| !used.inherited);
        let extents: Vec<(Extent, u64)> = own.map(|used| (used.extent, used.live)).collect();
        assert_eq!(
            sorted(&extents),
            sorted(&claimed.claimed),
            "a run needs what was written for it"
        );
        claimed.claimed.clear();
        Ok(Some(BuiltRun {
            run,
            hashes: self.keys.hashes,
            extents,
            adopted_bytes: self.adopted.bytes,
            cached: cached.into_iter().map(|(pointer, _)| pointer).collect(),
        }))
    }

    /// Writes the metadata of a run to separate nodes, because they do not fit into the footer.
    /// Returns a footer that points to these nodes.
    fn write_apart(&self, details: &RunMetadata, claimed: &mut ProvisionalExtents) -> Result<RunFooter> {
        let page_size = self.page_size();
        // The buffer is large enough for several concurrent writes, and separate from the buffers
        // of the leaves.
        let writer = self
            .nodes
            .another((4 * largest(page_size) as u64).div_ceil(UNIT) as u32);
        let mut writer = ValueWriter::new(writer, page_size);
        let pointer = writer.add_pieces(|piece| details.encode(piece), &mut |_| {})?;
        let written = writer.finish()?.extents;
        claimed.claimed.extend_from_slice(&written);
        Ok(RunFooter::Apart {
            in_last: false,
            pointer,
            extents: written,
        })
    }
}

fn sorted(extents: &[(Extent, u64)]) -> Vec<Extent> {
    let mut sorted: Vec<Extent> = extents.iter().map(|(extent, _)| *extent).collect();
    sorted.sort_unstable();
    sorted
}
