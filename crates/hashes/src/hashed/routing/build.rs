//! Writing the filter of a level again, with the run that a merge writes at the same time.

use super::old::{All, Characters, Fault, Origin};
use super::sketches::{Coding, Draft, Sketch};
use super::{Meta, Routing, Shape};
use crate::hashed::pages::{Claimed, Described, PageWriter};
use alluvium_base::Purpose;
use alluvium_filters::golomb::Rice;
use alluvium_filters::routing::{Latest, Update};
use alluvium_storage::node::WriterOptions;
use alluvium_storage::store::Store;
use alluvium_storage::{Error, Result};
use std::sync::Arc;

/// Prefixes whose runs are taken over at once, at most.
const MOST_COPIED: u64 = 1 << 16;

/// A filter that is being written. Dropped unfinished, it leaves nothing.
#[derive(Debug)]
pub struct Builder {
    store: Arc<Store>,
    options: WriterOptions,
    shape: Shape,
    /// The number of the run that arrives.
    run: u8,
    old: Option<Routing>,
    pages: PageWriter,
    entries: u64,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Latest {
        update: Box<Update<Characters<'static>>>,
        /// The first prefix that is not written.
        next: u64,
        /// Bytes of the page that is being filled.
        page: Vec<u8>,
    },
    Sketches(Box<Sketching>),
}

/// Sketches on their way.
#[derive(Debug)]
struct Sketching {
    old: Option<All<'static>>,
    /// The next sketch of the old filter.
    head: Option<Sketch>,
    /// The prefix that is arriving, and the check characters that came with it: a bit for each.
    prefix: Option<u64>,
    checks: [u64; 4],
    draft: Draft,
    firsts: Vec<u64>,
}

/// A filter that is written, and not yet part of a structure. Dropped, it gives its extents up.
#[derive(Debug)]
pub struct Written {
    claimed: Claimed,
    filter: Routing,
}

impl Written {
    /// Makes its extents part of the generation that is being built.
    #[must_use]
    pub fn install(self) -> Routing {
        self.claimed.install();
        self.filter
    }
}

impl Builder {
    /// Begins a filter that has what `old` has, and the hashes of the run with this number, of
    /// about `records` records.
    ///
    /// # Errors
    /// When the store takes no changes.
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
            let rice = Rice::new(expected, shape.prefix_bits.into());
            let coding = Coding {
                prefix_bits: shape.prefix_bits,
                payload_bits: shape.sketch_bits(),
                parameter: rice.parameter() as u8,
            };
            Form::Sketches(Box::new(Sketching {
                old: old.map(|old| All::new(from(), old, Purpose::Compact)),
                head: None,
                prefix: None,
                checks: [0; 4],
                draft: Draft::new(coding),
                firsts: Vec::new(),
            }))
        } else {
            let latest = latest(shape)?;
            let old = old.map(|old| Characters::new(from(), old, Purpose::Compact));
            Form::Latest {
                update: Box::new(Update::new(latest, old, run.into())),
                next: 0,
                page: Vec::new(),
            }
        };
        Ok(Builder {
            store: Arc::clone(store),
            options,
            shape,
            run,
            old: old.cloned(),
            pages: PageWriter::new(store, options)?,
            entries: match shape.is_refined() {
                true => 0,
                false => old.map_or(0, Routing::entries),
            },
            form,
        })
    }

    /// Takes over up to `most` of what the old filter has before a hash. Returns whether the hash
    /// may come now.
    ///
    /// # Errors
    /// A full disk; as the device says; damage of the old filter.
    pub fn advance(&mut self, hash: u64, most: u64) -> Result<bool> {
        let prefix = self.shape.prefix(hash);
        self.copy_to(prefix, most)
    }

    fn copy_to(&mut self, prefix: u64, most: u64) -> Result<bool> {
        match &mut self.form {
            Form::Latest { update, next, page } => {
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

    /// Puts a hash of the arriving run in. Hashes ascend. Returns the run before it that had the
    /// prefix, which a record names: none where it is the first, or where there are sketches.
    ///
    /// # Errors
    /// A full disk; as the device says; damage of the old filter.
    pub fn push(&mut self, hash: u64) -> Result<Option<u8>> {
        let prefix = self.shape.prefix(hash);
        let check = self.shape.check(hash);
        while !self.copy_to(prefix, u64::MAX)? {}
        match &mut self.form {
            Form::Latest { update, next, page } => {
                let previous = update
                    .group(prefix)
                    .map_err(|fault| of(fault, self.old.as_ref()))?;
                // One that comes again is behind what is written.
                if *next <= prefix {
                    *next = prefix + 1;
                    self.entries += u64::from(previous.is_none());
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

    /// Takes over up to `most` of what the old filter has behind the last hash. Returns whether
    /// that was all.
    ///
    /// # Errors
    /// A full disk; as the device says; damage of the old filter.
    pub fn go_on(&mut self, most: u64) -> Result<bool> {
        self.copy_to(self.shape.last_prefix() + 1, most)
    }

    /// Writes what is left, and the description. The last of [`Builder::go_on`] came before.
    ///
    /// # Errors
    /// A full disk; as the device says.
    pub fn finish(mut self) -> Result<Written> {
        let page_size = self.store.page_size();
        let mut firsts = Vec::new();
        match self.form {
            Form::Latest { update, mut page, .. } => {
                page.extend(update.finish().map_err(|fault| of(fault, self.old.as_ref()))?);
                for part in page.chunks(page_size.bytes()) {
                    let mut part = part.to_vec();
                    part.resize(page_size.bytes(), 0);
                    self.pages.add(&part)?;
                }
            }
            Form::Sketches(mut sketching) => {
                assert!(
                    sketching.prefix.is_none() && sketching.head.is_none(),
                    "all was taken over"
                );
                if let Some(first) = sketching.draft.first() {
                    sketching.firsts.push(first);
                    self.pages.add(&sketching.draft.finish(page_size))?;
                }
                firsts = sketching.firsts;
            }
        }
        let mut claimed = Claimed::none(&self.store);
        let (pages, extents) = self.pages.finish()?;
        claimed.extents.extend(&extents);
        let meta = Meta {
            shape: self.shape,
            runs: u16::from(self.run) + 1,
            entries: self.entries,
            pages,
            firsts: firsts.into(),
            extents: extents.into(),
        };
        let described = Described::write(&self.store, &meta.encode(), self.options)?;
        claimed.extents.extend(described.extents.iter());
        let filter = Routing {
            meta: Arc::new(meta),
            described,
        };
        Ok(Written { claimed, filter })
    }

    /// Writes pages of characters that are full.
    fn write_full(&mut self) -> Result<()> {
        let Form::Latest { page, .. } = &mut self.form else {
            return Ok(());
        };
        let bytes = self.store.page_size().bytes();
        let full = page.len() / bytes * bytes;
        for part in page[..full].chunks(bytes) {
            self.pages.add(part)?;
        }
        page.drain(..full);
        Ok(())
    }

    /// Takes over sketches of the old filter whose prefixes are below one.
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

    /// Writes the sketches of the prefix that was arriving: behind those of earlier runs.
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
        let page_size = self.store.page_size();
        let Form::Sketches(sketching) = &mut self.form else {
            return Ok(());
        };
        if !sketching.draft.push(sketch, page_size.bytes()) {
            sketching.firsts.extend(sketching.draft.first());
            self.pages.add(&sketching.draft.finish(page_size))?;
            let is_in = sketching.draft.push(sketch, page_size.bytes());
            assert!(is_in, "a page has space for a sketch");
        }
        self.entries += 1;
        Ok(())
    }
}

/// Returns the array of latest runs of a shape.
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
