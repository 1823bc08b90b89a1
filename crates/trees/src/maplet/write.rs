//! Writes a maplet: first its pages, in the order in which they are built, and then the directory.

use super::format::{MapletBody, MapletExtent, MapletRoot, cut};
use super::{Maplet, MapletSpec};
use alluvium_filters::{BuildStats, FilterGeometry};
use alluvium_storage::extents::{Extent, UNIT};
use alluvium_storage::node::{MAX_PAGES, NodeWriter, WriterOptions};
use alluvium_storage::store::Store;
use alluvium_storage::{Error, NodeCache, NodePointer, PageSize, Result};
use std::sync::Arc;

/// A maplet that is expected to have more extents than this allocates longer ones.
const USUAL_EXTENTS: u64 = 512;
/// Maximum size of an extent in allocation units. Each concurrent write has a buffer of this size.
const MAX_UNITS: u32 = 4 * WriterOptions::EXTENT_UNITS;
const _: () = assert!(MAX_UNITS >= WriterOptions::EXTENT_UNITS && USUAL_EXTENTS > 0);

/// A maplet whose writing has completed. Its extents are provisional: the caller must either
/// install or abandon them.
#[derive(Debug)]
#[must_use = "its extents are installed or given up"]
pub struct WrittenMaplet {
    pub maplet: Maplet,
    /// The maplet's extents, each with its number of live bytes.
    pub extents: Vec<(Extent, u64)>,
}

impl WrittenMaplet {
    /// Frees the maplet's extents and removes its pages from the cache.
    pub fn abandon(self, store: &Store) {
        self.maplet.forget(store.cache());
        for (extent, _) in self.extents {
            store.extents().abandon(extent);
        }
    }
}

/// Writes the pages and the directory of one maplet.
#[derive(Debug)]
pub(super) struct MapletWriter {
    extents: Arc<alluvium_storage::extents::Extents>,
    cache: NodeCache,
    page_size: PageSize,
    /// The node writer; `None` once the maplet is complete.
    writer: Option<NodeWriter>,
    pages: Vec<NodePointer>,
}

impl MapletWriter {
    pub(super) fn new(store: &Store, spec: &MapletSpec, geometry: &FilterGeometry) -> Result<MapletWriter> {
        let usual = store.writer_options(spec.purpose, spec.class);
        let wanted = geometry.bytes() / UNIT / USUAL_EXTENTS;
        assert!(
            usual.extent_units <= MAX_UNITS,
            "the usual extents are not the largest"
        );
        let options = WriterOptions {
            extent_units: (wanted as u32).clamp(usual.extent_units, MAX_UNITS),
            tier: spec.tier,
            ..usual
        };
        Ok(MapletWriter {
            extents: Arc::clone(store.extents()),
            cache: store.cache().clone(),
            page_size: store.page_size(),
            writer: Some(store.node_writer(options)?),
            pages: Vec::with_capacity(geometry.pages() as usize),
        })
    }

    fn writer(&mut self) -> &mut NodeWriter {
        self.writer.as_mut().expect("a finished maplet takes no pages")
    }

    /// Writes the next page and inserts it into the cache.
    pub(super) fn page(&mut self, page: &[u8]) -> Result<()> {
        debug_assert_eq!(
            page.len(),
            self.page_size.bytes(),
            "a page of a maplet is a page of the store"
        );
        let pointer = self.writer().add(page)?;
        self.cache.insert(&pointer, page);
        self.pages.push(pointer);
        Ok(())
    }

    /// Writes the directory, which completes the maplet, and returns the open maplet.
    pub(super) fn finish(
        mut self,
        geometry: FilterGeometry,
        built: BuildStats,
        values: Vec<(u16, u64)>,
        repeats: u64,
    ) -> Result<WrittenMaplet> {
        debug_assert_eq!(values.iter().map(|(_, count)| count).sum::<u64>(), built.distinct);
        assert_eq!(
            self.pages.len(),
            built.pages as usize,
            "every page that was built is written"
        );
        debug_assert!(
            values.is_sorted_by(|one, other| one.0 < other.0),
            "values ascend, each once (Q1)"
        );
        let body = MapletBody {
            values,
            checksums: self.pages.iter().map(|page| page.checksum).collect(),
        };
        let bytes = body.encode();
        let page_size = self.page_size;
        let fits = |pages: usize| pages <= usize::from(MAX_PAGES);
        let (mut parts, mut rest) = (Vec::new(), bytes.len());
        // Allow for one more extent, because the root may start a new one.
        let mut extents = self.writer().extents_ending_with(1)?.len() + 1;
        if !fits(MapletRoot::pages_for(page_size, extents, rest)) {
            for part in cut(&bytes, page_size) {
                parts.push(self.writer().add(&part)?);
            }
            rest = parts.len() * NodePointer::BYTES;
            extents = self.writer().extents_ending_with(1)?.len() + 1;
        }
        let root_pages = MapletRoot::pages_for(page_size, extents, rest);
        if !fits(root_pages) {
            return Err(self.too_fragmented());
        }
        let extents = self.writer().extents_ending_with(root_pages as u8)?;
        let root = MapletRoot {
            geometry,
            entries: built.distinct,
            pages: built.pages,
            spilled: built.spilled,
            values: body.values.len() as u32,
            repeats: u32::try_from(repeats).unwrap_or(u32::MAX),
            stretches: self.stretches(&extents),
            parts,
        };
        let mut node = root.encode(&bytes, page_size);
        node.resize(page_size.node_bytes(root_pages as u8), 0);
        let pointer = self.writer().add(&node)?;
        let writer = self.writer.take().expect("it was there above");
        let written = match writer.finish() {
            Ok(written) => written,
            Err(error) => {
                self.forget();
                return Err(error);
            }
        };
        assert_eq!(written.extents, extents, "the writer keeps its word");
        assert!(self.writer.is_none(), "what is written is not given up (Q4)");
        Ok(WrittenMaplet {
            maplet: Maplet::of(pointer, root, body),
            extents,
        })
    }

    /// Returns the extents, each with the number of the maplet's pages in it.
    fn stretches(&self, extents: &[(Extent, u64)]) -> Vec<MapletExtent> {
        let mut pages = self.pages.iter().peekable();
        let stretch = |&(extent, live_bytes): &(Extent, u64)| {
            let mut next = extent.offset();
            let mut count = 0;
            while let Some(page) = pages.next_if(|page| extent.range().contains(&page.offset)) {
                assert_eq!(
                    page.offset, next,
                    "pages lie one behind the other from an extent's start"
                );
                next += self.page_size.bytes() as u64;
                count += 1;
            }
            MapletExtent {
                extent,
                pages: count,
                live_bytes,
            }
        };
        let stretches = extents.iter().map(stretch).collect();
        assert!(pages.next().is_none(), "every page is in an extent");
        stretches
    }

    /// Returns the error for free space that is too fragmented. The directory can list only about
    /// four thousand extents.
    fn too_fragmented(&self) -> Error {
        Error::Full {
            wanted: self.pages.len() as u64 * self.page_size.bytes() as u64,
            free: self.extents.usage().total().free_bytes,
            reserve: false,
        }
    }

    fn forget(&self) {
        for page in &self.pages {
            self.cache.discard(page);
        }
    }
}

impl Drop for MapletWriter {
    fn drop(&mut self) {
        // Remove the pages from the cache before the writer frees the extents. The extents' next
        // owner may write new nodes at the same locations in the same generation.
        if self.writer.is_some() {
            self.forget();
        }
    }
}
