//! Reads the pages of a maplet sequentially, bypassing the cache. The reads are large, and the next
//! one is in flight while the pages of the current one are used.

use super::{Maplet, device_of};
use alluvium_base::{KIB, Purpose};
use alluvium_device::{AlignedBuffer, Device, IoBatch, Ticket};
use alluvium_filters::{CountedEntry, EntryChunk, FilterEntry, Fingerprint, PageView, SpillView};
use alluvium_storage::{Error, Result, TierFiles};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Size of one read in bytes. The last read of an extent may be shorter.
const WINDOW_BYTES: u64 = 256 * KIB;
/// Maximum number of reads that are in flight or not fully used yet.
const WINDOWS: usize = 2;
const _: () = assert!(WINDOWS > 0 && WINDOW_BYTES >= KIB);

/// Iterates over a range of a maplet's pages, and verifies the checksum of each.
#[derive(Debug)]
pub(super) struct MapletPageReader {
    maplet: Maplet,
    device: Arc<dyn Device>,
    purpose: Purpose,
    /// The pages that have not been requested yet.
    range: Range<u32>,
    ahead: VecDeque<(Range<u32>, Ticket)>,
    /// The pages of the last completed read that have not been returned yet. `window` has the
    /// number of that read's first page, and the bytes that were read.
    left: Range<u32>,
    window: Option<(u32, AlignedBuffer)>,
}

impl MapletPageReader {
    /// Submits the reads of the first pages in `range`.
    pub(super) fn new(
        maplet: &Maplet,
        range: Range<u32>,
        tiers: &TierFiles,
        purpose: Purpose,
    ) -> Result<MapletPageReader> {
        assert!(
            range.start <= range.end && range.end <= maplet.shared.root.pages,
            "pages {range:?} of the maplet"
        );
        let mut pages = MapletPageReader {
            maplet: maplet.clone(),
            device: device_of(tiers, maplet.pointer())?,
            purpose,
            range,
            ahead: VecDeque::with_capacity(WINDOWS),
            left: 0..0,
            window: None,
        };
        pages.request();
        Ok(pages)
    }

    /// Submits reads until the maximum number is in flight.
    fn request(&mut self) {
        while self.ahead.len() < WINDOWS
            && let Some((pages, offset, bytes)) = self.next_window()
        {
            debug_assert!(
                pages.start == self.range.start && pages.end <= self.range.end,
                "windows follow each other"
            );
            debug_assert!(bytes > 0, "a window has pages");
            self.range.start = pages.end;
            let mut batch = IoBatch::with_capacity(1);
            batch.read(offset, AlignedBuffer::zeroed(bytes), self.purpose);
            self.ahead.push_back((pages, self.device.submit(batch)));
        }
    }

    /// Returns the pages of the next read, which are in one extent, with their offset in the tier
    /// and their length in bytes.
    fn next_window(&self) -> Option<(Range<u32>, u64, usize)> {
        let root = &self.maplet.shared.root;
        let page_bytes = u64::from(root.geometry.page_bytes());
        let (mut first, start) = (0, self.range.start);
        for stretch in &root.stretches {
            if start < first + stretch.pages && start < self.range.end {
                let most = (WINDOW_BYTES / page_bytes).max(1) as u32;
                let end = (first + stretch.pages).min(start + most).min(self.range.end);
                let bytes = u64::from(end - start) * page_bytes;
                return Some((
                    start..end,
                    stretch.offset_of(start - first, page_bytes),
                    bytes as usize,
                ));
            }
            first += stretch.pages;
        }
        None
    }

    /// Returns the number and contents of the next page, or the error that reading it caused. After
    /// an error, the following pages are still returned, except that a device error skips all pages
    /// of the same read.
    pub(super) fn next(&mut self) -> Option<(u32, Result<&[u8]>)> {
        if self.left.is_empty() {
            let (pages, ticket) = self.ahead.pop_front()?;
            self.device.wait(&ticket);
            let buffer = ticket.take_buffers().map(|mut buffers| buffers.pop());
            self.request();
            match buffer {
                Ok(Some(buffer)) => self.window = Some((pages.start, buffer)),
                Ok(None) => unreachable!("a read gives its buffer back"),
                Err(error) => return Some((pages.start, Err(error.into()))),
            }
            debug_assert!(!pages.is_empty(), "a window has pages");
            self.left = pages;
        }
        let number = self.left.next()?;
        Some((number, self.page(number)))
    }

    fn page(&self, number: u32) -> Result<&[u8]> {
        let (first, window) = self.window.as_ref().expect("a page is left of a window");
        let page_bytes = self.maplet.geometry().page_bytes() as usize;
        assert!(
            number >= *first,
            "page {number} of a window that begins at {first}"
        );
        let at = (number - first) as usize * page_bytes;
        assert!(
            at + page_bytes <= window.len(),
            "page {number} lies in its window"
        );
        let page = &window[at..at + page_bytes];
        self.maplet.named_page(number)?.verify(page)?;
        Ok(page)
    }
}

/// Iterates over the entries of a maplet in order, page by page.
#[derive(Debug)]
pub(super) struct MapletEntryReader {
    maplet: Maplet,
    pages: MapletPageReader,
    spill_pages: Option<MapletPageReader>,
    spilled: Vec<CountedEntry>,
}

impl MapletEntryReader {
    pub(super) fn new(maplet: &Maplet, tiers: &TierFiles, purpose: Purpose) -> Result<MapletEntryReader> {
        MapletEntryReader::first(maplet, maplet.geometry().pages(), tiers, purpose)
    }

    /// Submits the reads of the first `pages` pages of a maplet.
    fn first(maplet: &Maplet, pages: u32, tiers: &TierFiles, purpose: Purpose) -> Result<MapletEntryReader> {
        let (own, all) = (maplet.geometry().pages(), maplet.shared.root.pages);
        Ok(MapletEntryReader {
            pages: MapletPageReader::new(maplet, 0..pages.min(own), tiers, purpose)?,
            spill_pages: Some(MapletPageReader::new(maplet, own..all, tiers, purpose)?),
            spilled: Vec::new(),
            maplet: maplet.clone(),
        })
    }

    /// Appends the entries of the next page to `chunk`. Returns whether there was another page.
    pub(super) fn fill(&mut self, chunk: &mut EntryChunk) -> Result<bool> {
        if let Some(spill_pages) = self.spill_pages.take() {
            self.spilled = read_spilled(&self.maplet, spill_pages)?;
        }
        let Some((number, page)) = self.pages.next() else {
            return Ok(false);
        };
        let view = PageView::new(self.maplet.geometry(), page?);
        let damaged = |error| self.maplet.damaged(number, &error);
        let view = view.map_err(damaged)?;
        let (first, count) = view.spilled();
        let spilled = if count == 0 {
            &[]
        } else {
            self.spilled
                .get(first as usize..)
                .and_then(|records| records.get(..count as usize))
                .ok_or_else(|| {
                    let expected = format!("spilled records among {}", self.spilled.len());
                    let found = format!("{count} from {first} of page {number}");
                    Error::corrupt(self.maplet.pointer().place(), expected, found)
                })?
        };
        view.read_into(number, spilled, chunk).map_err(damaged)?;
        Ok(true)
    }
}

/// Iterates over all entries of a maplet in order.
#[derive(Debug)]
pub(crate) struct MapletEntryIter {
    entries: MapletEntryReader,
    chunk: EntryChunk,
}

impl MapletEntryIter {
    /// Returns the entries of the next page, or `None` after the last page.
    pub(crate) fn next_page(&mut self) -> Result<Option<&[FilterEntry]>> {
        self.chunk.clear();
        let is_some = self.entries.fill(&mut self.chunk)?;
        Ok(is_some.then(|| self.chunk.entries()))
    }
}

impl Maplet {
    /// Starts reading all entries of the maplet, bypassing the cache.
    pub(crate) fn read_entries(&self, tiers: &TierFiles, purpose: Purpose) -> Result<MapletEntryIter> {
        Ok(MapletEntryIter {
            entries: MapletEntryReader::new(self, tiers, purpose)?,
            chunk: EntryChunk::new(),
        })
    }
}

impl Maplet {
    /// Calls `tell` with all fingerprints up to `last` in ascending order, including duplicates.
    /// Reads only the pages that may contain them, bypassing the cache.
    pub(crate) fn read_fingerprints(
        &self,
        last: Fingerprint,
        tiers: &TierFiles,
        tell: &mut dyn FnMut(Fingerprint),
    ) -> Result<()> {
        let pages = self.geometry().page_of(last) + 1;
        let mut entries = MapletEntryReader::first(self, pages, tiers, Purpose::Other)?;
        let mut chunk = EntryChunk::new();
        while entries.fill(&mut chunk)? {
            let all = chunk.entries().iter().map(|entry| entry.fingerprint());
            all.take_while(|fingerprint| *fingerprint <= last)
                .for_each(&mut *tell);
            chunk.clear();
        }
        Ok(())
    }
}

fn read_spilled(maplet: &Maplet, mut pages: MapletPageReader) -> Result<Vec<CountedEntry>> {
    let mut records = Vec::new();
    while let Some((number, page)) = pages.next() {
        let view = SpillView::new(maplet.geometry(), page?, number);
        let view = view.map_err(|error| maplet.damaged(number, &error))?;
        records.extend(view.records((0, maplet.shared.root.spilled)));
    }
    Ok(records)
}
