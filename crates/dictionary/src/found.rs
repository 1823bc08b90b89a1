//! Values found by lookups, and where lookups store them.

use alluvium_storage::FrameRef;
use std::fmt;
use std::ops::Deref;

/// The bytes of a value: an owned copy, or a part of a cached page, which stays pinned while the
/// value is held.
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

/// Destination of a value that is stored separately.
pub struct Room<'v> {
    /// Buffer for a copy of the value.
    pub bytes: &'v mut Vec<u8>,
    /// If present, the value may instead stay in its page, which is then pinned here.
    pub part: Option<&'v mut Option<Part>>,
}

impl Part {
    /// Creates a part of a page. It must lie inside the page.
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
    /// Creates a value from a part of a page.
    pub fn part(part: Part) -> Found {
        Found(Bytes::Page(part))
    }

    /// Returns whether the value is a part of a page. The cache cannot reuse the page's memory
    /// while the value is held.
    #[must_use]
    pub fn is_in_page(&self) -> bool {
        matches!(self.0, Bytes::Page(_))
    }

    /// Returns the bytes, copying them if they are a part of a page.
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
