//! Reads the encoded characters of a filter of latest runs sequentially.

use super::{RoutingFilter, RoutingFilterDescription};
use crate::hashed::lists::{PageCursor, PageSource};
use alluvium_base::Purpose;
use alluvium_filters::golomb::ByteSource;
use alluvium_storage::Error;

/// Number of pages that are read from the device in one batch.
pub(super) const AT_ONCE: u64 = 16;

/// The encoded characters of a filter of latest runs, as a byte stream.
#[derive(Debug)]
pub(super) struct CharacterReader<'f> {
    pages: PageCursor<'f, RoutingFilterDescription>,
    page: std::vec::IntoIter<u8>,
}

impl<'f> CharacterReader<'f> {
    pub(super) fn new(from: PageSource<'f>, filter: &RoutingFilter, purpose: Purpose) -> CharacterReader<'f> {
        assert!(!filter.shape().is_refined(), "it names latest runs (U4)");
        CharacterReader {
            pages: PageCursor::new(from, filter, purpose, AT_ONCE),
            page: Vec::new().into_iter(),
        }
    }
}

/// Error from reading a filter's characters: an I/O error or an invalid encoding.
#[derive(Debug)]
pub(super) enum CharacterReadError {
    Device(Error),
    Bits(alluvium_filters::Error),
}

impl From<alluvium_filters::Error> for CharacterReadError {
    fn from(error: alluvium_filters::Error) -> CharacterReadError {
        CharacterReadError::Bits(error)
    }
}

impl CharacterReadError {
    /// Converts this to a storage error at the location of the filter.
    pub(super) fn of(self, filter: &RoutingFilter) -> Error {
        match self {
            CharacterReadError::Device(error) => error,
            CharacterReadError::Bits(error) => {
                Error::corrupt(filter.place(), "a routing filter", error.to_string())
            }
        }
    }
}

impl ByteSource for CharacterReader<'_> {
    type Error = CharacterReadError;

    #[inline]
    fn byte(&mut self) -> Result<Option<u8>, CharacterReadError> {
        loop {
            if let Some(byte) = self.page.next() {
                return Ok(Some(byte));
            }
            match self.pages.next().map_err(CharacterReadError::Device)? {
                Some(page) => self.page = page.into_iter(),
                None => return Ok(None),
            }
        }
    }
}
