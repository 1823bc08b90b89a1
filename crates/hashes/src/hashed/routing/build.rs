//! Rewriting the filter of a level with an additional run, while a merge writes the run.

use super::characters::{AT_ONCE, Characters, Fault};
use super::{Meta, Routing, Shape, Written};
use crate::hashed::lists::{Cursor, Listing, Origin, Sketch, SketchWriter};
use crate::hashed::pages::PageWriter;
use alluvium_base::Purpose;
use alluvium_filters::routing::{Latest, Update};
use alluvium_storage::node::WriterOptions;
use alluvium_storage::store::Store;
use alluvium_storage::{Error, Result};
use std::sync::Arc;

/// Maximum number of prefixes copied at once.
const MOST_COPIED: u64 = 1 << 16;

/// Writer of a filter. If it is dropped unfinished, its space is freed.
#[derive(Debug)]
pub struct Builder {
    store: Arc<Store>,
    options: WriterOptions,
    shape: Shape,
    /// Index of the new run.
    run: u8,
    old: Option<Routing>,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Latest {
        update: Box<Update<Characters<'static>>>,
        pages: Box<PageWriter>,
        /// First prefix not yet written.
        next: u64,
        /// Bytes of the current page.
        page: Vec<u8>,
        /// Number of prefixes that have a run.
        entries: u64,
    },
    Sketches(Box<Sketching>),
}

/// State of a filter of sketches being written.
#[derive(Debug)]
struct Sketching {
    old: Option<Cursor<'static, Meta>>,
    /// Next sketch of the old filter.
    head: Option<Sketch>,
    /// Current prefix of the new run, and a bit mask of its check characters.
    prefix: Option<u64>,
    checks: [u64; 4],
    writer: SketchWriter,
}

impl Builder {
    /// Starts a filter with the contents of `old` and the hashes of run number `run`, which has
    /// about `records` records.
    ///
    /// # Errors
    /// If the store accepts no changes.
    pub fn new(
        store: &Arc<Store>,
        options: WriterOptions,
        shape: Shape,
        old: Option<&Routing>,
        run: u8,
        records: u64,
    ) -> Result<Builder> {
        shape.validate()?;
        assert!(
            old.is_none_or(|old| old.shape() == shape),
            "the filter of a level keeps its shape"
        );
        assert!(
            u32::from(run) + 1 < 1 << shape.character_bits,
            "a level has fewer than λ runs (U3)"
        );
        let from = || Origin::Store(Arc::clone(store));
        let form = if shape.is_refined() {
            let expected = old.map_or(0, Routing::entries) + records;
            let bits = (shape.prefix_bits.into(), shape.sketch_bits().into());
            Form::Sketches(Box::new(Sketching {
                old: old.map(|old| Cursor::new(from(), old, Purpose::Compact, AT_ONCE)),
                head: None,
                prefix: None,
                checks: [0; 4],
                writer: SketchWriter::new(store, options, bits, expected)?,
            }))
        } else {
            let latest = latest(shape)?;
            let characters = old.map(|old| Characters::new(from(), old, Purpose::Compact));
            Form::Latest {
                update: Box::new(Update::new(latest, characters, run.into())),
                pages: Box::new(PageWriter::new(store, options)?),
                next: 0,
                page: Vec::new(),
                entries: old.map_or(0, Routing::entries),
            }
        };
        Ok(Builder {
            store: Arc::clone(store),
            options,
            shape,
            run,
            old: old.cloned(),
            form,
        })
    }

    /// Copies up to `most` entries of the old filter that precede a hash. Returns whether the hash
    /// may be pushed now.
    ///
    /// # Errors
    /// A full disk; I/O errors; damage of the old filter.
    pub fn advance(&mut self, hash: u64, most: u64) -> Result<bool> {
        let prefix = self.shape.prefix(hash);
        self.copy_to(prefix, most)
    }

    fn copy_to(&mut self, prefix: u64, most: u64) -> Result<bool> {
        match &mut self.form {
            Form::Latest {
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
            Form::Sketches(_) => {
                let Form::Sketches(sketching) = &mut self.form else {
                    unreachable!("it was matched")
                };
                if sketching.prefix.is_some_and(|now| now < prefix) {
                    self.flush()?;
                }
                self.copy_sketches(prefix, most)
            }
        }
    }

    /// Adds a hash of the new run. Hashes must be ascending. Returns the previous run with the same
    /// prefix, which the record must name; `None` if there is none, or for a filter of sketches.
    ///
    /// # Errors
    /// A full disk; I/O errors; damage of the old filter.
    pub fn push(&mut self, hash: u64) -> Result<Option<u8>> {
        let prefix = self.shape.prefix(hash);
        let check = self.shape.check(hash);
        while !self.copy_to(prefix, u64::MAX)? {}
        match &mut self.form {
            Form::Latest {
                update,
                next,
                page,
                entries,
                ..
            } => {
                let previous = update
                    .group(prefix)
                    .map_err(|fault| of(fault, self.old.as_ref()))?;
                // A repeated prefix is written already.
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
            Form::Sketches(sketching) => {
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
    /// are copied.
    ///
    /// # Errors
    /// A full disk; I/O errors; damage of the old filter.
    pub fn go_on(&mut self, most: u64) -> Result<bool> {
        self.copy_to(self.shape.last_prefix() + 1, most)
    }

    /// Writes the remaining data and the description. [`Builder::go_on`] must have returned true.
    ///
    /// # Errors
    /// A full disk; I/O errors.
    pub fn finish(self) -> Result<Written> {
        let (entries, listing) = match self.form {
            Form::Latest {
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
                let listing = Listing {
                    pages,
                    firsts: [].into(),
                    extents: extents.into(),
                };
                (entries, listing)
            }
            Form::Sketches(sketching) => {
                assert!(
                    sketching.prefix.is_none() && sketching.head.is_none(),
                    "all was taken over"
                );
                (sketching.writer.entries(), sketching.writer.finish()?)
            }
        };
        let meta = Meta {
            shape: self.shape,
            runs: u16::from(self.run) + 1,
            entries,
            listing,
        };
        Written::describe(&self.store, self.options, meta)
    }

    /// Writes the full pages of characters.
    fn write_full(&mut self) -> Result<()> {
        let Form::Latest { pages, page, .. } = &mut self.form else {
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

    /// Copies up to `most` sketches of the old filter with prefixes less than `prefix`.
    fn copy_sketches(&mut self, prefix: u64, most: u64) -> Result<bool> {
        for _ in 0..most {
            let Form::Sketches(sketching) = &mut self.form else {
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

    /// Writes the sketches of the current prefix, after those of earlier runs.
    fn flush(&mut self) -> Result<()> {
        let Form::Sketches(sketching) = &mut self.form else {
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
            self.put(Sketch { prefix, payload })?;
        }
        Ok(())
    }

    fn put(&mut self, sketch: Sketch) -> Result<()> {
        match &mut self.form {
            Form::Latest { .. } => Ok(()),
            Form::Sketches(sketching) => sketching.writer.push(sketch),
        }
    }
}

/// Returns the array layout of latest runs for a shape.
pub(super) fn latest(shape: Shape) -> Result<Latest> {
    Latest::new(shape.prefix_bits.into(), shape.character_bits.into()).map_err(|error| Error::BadOption {
        option: "routing filter",
        why: error.to_string(),
    })
}

fn of(fault: Fault, old: Option<&Routing>) -> Error {
    match (fault, old) {
        (fault, Some(old)) => fault.of(old),
        (Fault::Device(error), None) => error,
        (Fault::Bits(error), None) => unreachable!("bits of a filter that there is not: {error}"),
    }
}
