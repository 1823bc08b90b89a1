//! Values found by lookups, and where lookups store them.

use alluvium_storage::FrameRef;
use std::fmt;
use std::ops::Deref;

/// The bytes of a value: an owned copy, or a part of a cached page, which stays pinned while the
/// value is held.
#[derive(Clone)]
pub struct PinnedValue(ValueBytes);

#[derive(Clone)]
enum ValueBytes {
    Own(Vec<u8>),
    Page(PageSlice),
}

/// A part of a page.
#[derive(Clone, Debug)]
pub struct PageSlice {
    page: FrameRef,
    at: usize,
    len: usize,
}

/// Destination of a value that is stored separately.
pub struct ValueDestination<'v> {
    /// Buffer for a copy of the value.
    pub bytes: &'v mut Vec<u8>,
    /// If present, the value may instead stay in its page, which is then pinned here.
    pub part: Option<&'v mut Option<PageSlice>>,
}

impl PageSlice {
    /// Creates a part of a page. It must lie inside the page.
    pub fn new(page: FrameRef, at: usize, len: usize) -> PageSlice {
        assert!(at + len <= page.len(), "a part is inside its page");
        PageSlice { page, at, len }
    }
}

impl Deref for PageSlice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.page[self.at..self.at + self.len]
    }
}

impl PinnedValue {
    /// Creates a value from a part of a page.
    pub fn part(part: PageSlice) -> PinnedValue {
        PinnedValue(ValueBytes::Page(part))
    }

    /// Returns whether the value is a part of a page. The cache cannot reuse the page's memory
    /// while the value is held.
    #[must_use]
    pub fn is_in_page(&self) -> bool {
        matches!(self.0, ValueBytes::Page(_))
    }

    /// Returns the bytes, copying them if they are a part of a page.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            ValueBytes::Own(bytes) => bytes,
            ValueBytes::Page(part) => part.to_vec(),
        }
    }
}

impl From<Vec<u8>> for PinnedValue {
    fn from(bytes: Vec<u8>) -> PinnedValue {
        PinnedValue(ValueBytes::Own(bytes))
    }
}

impl Deref for PinnedValue {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            ValueBytes::Own(bytes) => bytes,
            ValueBytes::Page(part) => part,
        }
    }
}

impl fmt::Debug for PinnedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}
