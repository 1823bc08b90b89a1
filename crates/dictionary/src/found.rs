//! The bytes of a value that was found, and where they go.

use alluvium_storage::FrameRef;
use std::fmt;
use std::ops::Deref;

/// The bytes of a value that was found: its own, or a part of a page of the cache, which keeps the
/// page meanwhile.
#[derive(Clone)]
pub struct Found(Bytes);

#[derive(Clone)]
enum Bytes {
    Own(Vec<u8>),
    Page(Part),
}

/// A part of a page.
#[derive(Clone, Debug)]
pub struct Part {
    page: FrameRef,
    at: usize,
    len: usize,
}

/// Where a value that is kept apart goes.
pub struct Room<'v> {
    /// It is copied here,
    pub bytes: &'v mut Vec<u8>,
    /// or the page that it is in is kept, if that may be and is worth it.
    pub part: Option<&'v mut Option<Part>>,
}

impl Part {
    /// Creates bytes of a page that has them.
    pub fn new(page: FrameRef, at: usize, len: usize) -> Part {
        assert!(at + len <= page.len(), "a part is inside its page");
        Part { page, at, len }
    }
}

impl Deref for Part {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.page[self.at..self.at + self.len]
    }
}

impl Found {
    /// Returns a value that is a part of a page.
    pub fn part(part: Part) -> Found {
        Found(Bytes::Page(part))
    }

    /// Returns whether it is a part of a page: the cache cannot reuse that page's memory while it
    /// is held.
    #[must_use]
    pub fn is_in_page(&self) -> bool {
        matches!(self.0, Bytes::Page(_))
    }

    /// Returns the bytes, which are copied if they are a part of a page.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Bytes::Own(bytes) => bytes,
            Bytes::Page(part) => part.to_vec(),
        }
    }
}

impl From<Vec<u8>> for Found {
    fn from(bytes: Vec<u8>) -> Found {
        Found(Bytes::Own(bytes))
    }
}

impl Deref for Found {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Own(bytes) => bytes,
            Bytes::Page(part) => part,
        }
    }
}

impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}
