//! Sequential reads of a filter of latest runs.

use super::{Meta, Routing};
use crate::hashed::lists::{Origin, PageCursor};
use alluvium_base::Purpose;
use alluvium_filters::golomb::Source;
use alluvium_storage::Error;

/// Number of pages read together.
pub(super) const AT_ONCE: u64 = 16;

/// The encoded characters of a filter of latest runs, as bytes.
#[derive(Debug)]
pub(super) struct Characters<'f> {
    pages: PageCursor<'f, Meta>,
    page: std::vec::IntoIter<u8>,
}

impl<'f> Characters<'f> {
    pub(super) fn new(from: Origin<'f>, filter: &Routing, purpose: Purpose) -> Characters<'f> {
        assert!(!filter.shape().is_refined(), "it names latest runs (U4)");
        Characters {
            pages: PageCursor::new(from, filter, purpose, AT_ONCE),
            page: Vec::new().into_iter(),
        }
    }
}

/// Error of reading or decoding characters.
#[derive(Debug)]
pub(super) enum Fault {
    Device(Error),
    Bits(alluvium_filters::Error),
}

impl From<alluvium_filters::Error> for Fault {
    fn from(error: alluvium_filters::Error) -> Fault {
        Fault::Bits(error)
    }
}

impl Fault {
    /// Converts the error into that of a store.
    pub(super) fn of(self, filter: &Routing) -> Error {
        match self {
            Fault::Device(error) => error,
            Fault::Bits(error) => Error::corrupt(filter.place(), "a routing filter", error.to_string()),
        }
    }
}

impl Source for Characters<'_> {
    type Error = Fault;

    #[inline]
    fn byte(&mut self) -> Result<Option<u8>, Fault> {
        loop {
            if let Some(byte) = self.page.next() {
                return Ok(Some(byte));
            }
            match self.pages.next().map_err(Fault::Device)? {
                Some(page) => self.page = page.into_iter(),
                None => return Ok(None),
            }
        }
    }
}
