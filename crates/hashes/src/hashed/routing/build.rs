//! Rewrites a level's routing filter to include another run, while a merge writes this run.

use super::characters::{AT_ONCE, CharacterReadError, CharacterReader};
use super::{RoutingFilter, RoutingFilterDescription, RoutingFilterShape, WrittenRoutingFilter};
use crate::hashed::lists::{PageListing, PageSource, PrefixSketch, SketchCursor, SketchWriter};
use crate::hashed::pages::PageWriter;
use alluvium_base::Purpose;
use alluvium_filters::routing::{RoutingArray, RoutingUpdate};
use alluvium_storage::node::WriterOptions;
use alluvium_storage::store::Store;
use alluvium_storage::{Error, Result};
use std::sync::Arc;

/// Maximum number of prefixes to copy in one step.
const MOST_COPIED: u64 = 1 << 16;

/// Writer of a routing filter, whose space is freed if it is dropped before it is finished.
#[derive(Debug)]
pub struct RoutingFilterBuilder {
    store: Arc<Store>,
    options: WriterOptions,
    shape: RoutingFilterShape,
    /// Index, in the level, of the run to add.
    run: u8,
    old: Option<RoutingFilter>,
    form: RoutingFormWriter,
}

#[derive(Debug)]
enum RoutingFormWriter {
    Latest {
        update: Box<RoutingUpdate<CharacterReader<'static>>>,
        pages: Box<PageWriter>,
        /// The first prefix whose character has not been written yet.
        next: u64,
        /// Encoded characters that do not fill a page yet.
        page: Vec<u8>,
        /// Number of prefixes that occur in at least one run.
        entries: u64,
    },
    Sketches(Box<SketchFilterWriter>),
}

/// State of the writer for a filter of sketches.
#[derive(Debug)]
struct SketchFilterWriter {
    old: Option<SketchCursor<'static, RoutingFilterDescription>>,
    /// The next sketch of the old filter, if it has already been read.
    head: Option<PrefixSketch>,
    /// The current prefix of the new run, and (`checks`) the set of check digits among the run's
    /// hashes with this prefix: bit i stands for digit i.
    prefix: Option<u64>,
    checks: [u64; 4],
    writer: SketchWriter,
}

impl RoutingFilterBuilder {
    /// Starts a filter that will have the entries of `old` and the hashes of run number `run`,
    /// which has about `records` records.
    ///
    /// # Errors
    /// If the shape is invalid, or if the store accepts no changes because of an earlier I/O error.
    pub fn new(
        store: &Arc<Store>,
        options: WriterOptions,
        shape: RoutingFilterShape,
        old: Option<&RoutingFilter>,
        run: u8,
        records: u64,
    ) -> Result<RoutingFilterBuilder> {
        shape.validate()?;
        assert!(
            old.is_none_or(|old| old.shape() == shape),
            "the filter of a level keeps its shape"
        );
        assert!(
            u32::from(run) + 1 < 1 << shape.character_bits,
            "a level has fewer than λ runs (U3)"
        );
        let from = || PageSource::Store(Arc::clone(store));
        let form = if shape.is_refined() {
            let expected = old.map_or(0, RoutingFilter::entries) + records;
            let bits = (shape.prefix_bits.into(), shape.sketch_bits().into());
            RoutingFormWriter::Sketches(Box::new(SketchFilterWriter {
                old: old.map(|old| SketchCursor::new(from(), old, Purpose::Compact, AT_ONCE)),
                head: None,
                prefix: None,
                checks: [0; 4],
                writer: SketchWriter::new(store, options, bits, expected)?,
            }))
        } else {
            let latest = latest(shape)?;
            let characters = old.map(|old| CharacterReader::new(from(), old, Purpose::Compact));
            RoutingFormWriter::Latest {
                update: Box::new(RoutingUpdate::new(latest, characters, run.into())),
                pages: Box::new(PageWriter::new(store, options)?),
                next: 0,
                page: Vec::new(),
                entries: old.map_or(0, RoutingFilter::entries),
            }
        };
        Ok(RoutingFilterBuilder {
            store: Arc::clone(store),
            options,
            shape,
            run,
            old: old.cloned(),
            form,
        })
    }

    /// Copies up to `most` entries of the old filter whose prefixes precede that of `hash`. Returns
    /// whether all of these have been copied. The caller must repeat the call until it returns
    /// true, and then push the hash.
    ///
    /// # Errors
    /// A full disk; I/O errors; damage to the old filter.
    pub fn advance(&mut self, hash: u64, most: u64) -> Result<bool> {
        let prefix = self.shape.prefix(hash);
        self.copy_to(prefix, most)
    }

    fn copy_to(&mut self, prefix: u64, most: u64) -> Result<bool> {
        match &mut self.form {
            RoutingFormWriter::Latest {
                update, next, page, ..
            } => {
                if *next < prefix {
                    let count = most.clamp(1, prefix - *next).min(MOST_COPIED);
                    update.copy(count).map_err(|fault| of(fault, self.old.as_ref()))?;
                    *next += count;
                    page.extend(update.take());
                }
                let is_there = *next >= prefix;
                self.write_full()?;
                Ok(is_there)
            }
            RoutingFormWriter::Sketches(_) => {
                let RoutingFormWriter::Sketches(sketching) = &mut self.form else {
                    unreachable!("it was matched")
                };
                if sketching.prefix.is_some_and(|now| now < prefix) {
                    self.flush()?;
                }
                self.copy_sketches(prefix, most)
            }
        }
    }

    /// Adds a hash of the new run. Hashes must be pushed in ascending order. A filter of latest
    /// runs returns the previous run that contains the hash's prefix, or `None` if there is none;
    /// the caller must store it in the record. A filter of sketches always returns `None`.
    ///
    /// # Errors
    /// A full disk; I/O errors; damage to the old filter.
    pub fn push(&mut self, hash: u64) -> Result<Option<u8>> {
        let prefix = self.shape.prefix(hash);
        let check = self.shape.check(hash);
        while !self.copy_to(prefix, u64::MAX)? {}
        match &mut self.form {
            RoutingFormWriter::Latest {
                update,
                next,
                page,
                entries,
                ..
            } => {
                let previous = update
                    .group(prefix)
                    .map_err(|fault| of(fault, self.old.as_ref()))?;
                // If an earlier hash had the same prefix, its character has already been written.
                if *next <= prefix {
                    *next = prefix + 1;
                    *entries += u64::from(previous.is_none());
                    page.extend(update.take());
                }
                if let Some(previous) = previous
                    && previous >= u32::from(self.run)
                {
                    let place = self.old.as_ref().expect("it had the prefix").place();
                    let expected = format!("one of the {} runs before", self.run);
                    return Err(Error::corrupt(place, expected, format!("run {previous}")));
                }
                Ok(previous.map(|previous| previous as u8))
            }
            RoutingFormWriter::Sketches(sketching) => {
                assert!(
                    sketching.prefix.is_none_or(|now| now == prefix),
                    "what came before was written"
                );
                sketching.prefix = Some(prefix);
                sketching.checks[usize::from(check / 64)] |= 1 << (check % 64);
                Ok(None)
            }
        }
    }

    /// Copies up to `most` entries of the old filter that follow the last hash. Returns whether all
    /// of these have been copied.
    ///
    /// # Errors
    /// A full disk; I/O errors; damage to the old filter.
    pub fn go_on(&mut self, most: u64) -> Result<bool> {
        self.copy_to(self.shape.last_prefix() + 1, most)
    }

    /// Writes the remaining data and the description. [`RoutingFilterBuilder::go_on`] must have
    /// returned true.
    ///
    /// # Errors
    /// A full disk; I/O errors.
    pub fn finish(self) -> Result<WrittenRoutingFilter> {
        let (entries, listing) = match self.form {
            RoutingFormWriter::Latest {
                update,
                mut pages,
                mut page,
                entries,
                ..
            } => {
                page.extend(update.finish().map_err(|fault| of(fault, self.old.as_ref()))?);
                let page_bytes = self.store.page_size().bytes();
                for part in page.chunks(page_bytes) {
                    let mut part = part.to_vec();
                    part.resize(page_bytes, 0);
                    pages.add(&part)?;
                }
                let (pages, extents) = pages.finish()?;
                let listing = PageListing {
                    pages,
                    firsts: [].into(),
                    extents: extents.into(),
                };
                (entries, listing)
            }
            RoutingFormWriter::Sketches(sketching) => {
                assert!(
                    sketching.prefix.is_none() && sketching.head.is_none(),
                    "all was taken over"
                );
                (sketching.writer.entries(), sketching.writer.finish()?)
            }
        };
        let meta = RoutingFilterDescription {
            shape: self.shape,
            runs: u16::from(self.run) + 1,
            entries,
            listing,
        };
        WrittenRoutingFilter::describe(&self.store, self.options, meta)
    }

    /// Writes all complete pages of encoded characters.
    fn write_full(&mut self) -> Result<()> {
        let RoutingFormWriter::Latest { pages, page, .. } = &mut self.form else {
            return Ok(());
        };
        let bytes = self.store.page_size().bytes();
        let full = page.len() / bytes * bytes;
        for part in page[..full].chunks(bytes) {
            pages.add(part)?;
        }
        page.drain(..full);
        Ok(())
    }

    /// Copies up to `most` sketches of the old filter with prefixes less than `prefix`. Returns
    /// whether all of these have been copied.
    fn copy_sketches(&mut self, prefix: u64, most: u64) -> Result<bool> {
        for _ in 0..most {
            let RoutingFormWriter::Sketches(sketching) = &mut self.form else {
                return Ok(true);
            };
            if sketching.head.is_none() {
                sketching.head = match &mut sketching.old {
                    Some(old) => old.next()?,
                    None => None,
                };
            }
            match sketching.head {
                Some(head) if head.prefix < prefix => {
                    sketching.head = None;
                    self.put(head)?;
                }
                Some(_) => return Ok(true),
                None => {
                    sketching.old = None;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Writes the new run's sketches for the current prefix, after those of earlier runs (U5).
    fn flush(&mut self) -> Result<()> {
        let RoutingFormWriter::Sketches(sketching) = &mut self.form else {
            return Ok(());
        };
        let Some(prefix) = sketching.prefix.take() else {
            return Ok(());
        };
        let checks = std::mem::take(&mut sketching.checks);
        while !self.copy_sketches(prefix + 1, u64::MAX)? {}
        let character_bits = u32::from(self.shape.character_bits);
        for check in (0..256u32).filter(|check| checks[*check as usize / 64] >> (check % 64) & 1 > 0) {
            let payload = u64::from(self.run) << character_bits | u64::from(check);
            self.put(PrefixSketch { prefix, payload })?;
        }
        Ok(())
    }

    fn put(&mut self, sketch: PrefixSketch) -> Result<()> {
        match &mut self.form {
            RoutingFormWriter::Latest { .. } => Ok(()),
            RoutingFormWriter::Sketches(sketching) => sketching.writer.push(sketch),
        }
    }
}

/// Returns the layout of the character array in a filter of latest runs.
pub(super) fn latest(shape: RoutingFilterShape) -> Result<RoutingArray> {
    RoutingArray::new(shape.prefix_bits.into(), shape.character_bits.into()).map_err(|error| {
        Error::BadOption {
            option: "routing filter",
            why: error.to_string(),
        }
    })
}

fn of(fault: CharacterReadError, old: Option<&RoutingFilter>) -> Error {
    match (fault, old) {
        (fault, Some(old)) => fault.of(old),
        (CharacterReadError::Device(error), None) => error,
        (CharacterReadError::Bits(error), None) => {
            unreachable!("bits of a filter that there is not: {error}")
        }
    }
}
