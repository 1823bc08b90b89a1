//! The values that lookups return, and the destinations that receive them.

use alluvium_storage::FrameRef;
use std::fmt;
use std::ops::Deref;

/// The bytes of a value: either an owned copy, or a slice of a cached page that stays pinned until
/// this value is dropped.
#[derive(Clone)]
pub struct PinnedValue(ValueBytes);

#[derive(Clone)]
enum ValueBytes {
    Own(Vec<u8>),
    Page(PageSlice),
}

/// A slice of a pinned page.
#[derive(Clone, Debug)]
pub struct PageSlice {
    page: FrameRef,
    at: usize,
    len: usize,
}

/// Where to read a value that is stored outside its leaf.
pub struct ValueDestination<'v> {
    /// Buffer for a copy of the value.
    pub bytes: &'v mut Vec<u8>,
    /// If present, the value may stay in its page instead of being copied, and a slice of the
    /// pinned page is stored here.
    pub part: Option<&'v mut Option<PageSlice>>,
}

impl PageSlice {
    /// Creates a slice of `len` bytes at offset `at` of a page, which must contain all of it.
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
    /// Creates a value from a slice of a pinned page.
    pub fn part(part: PageSlice) -> PinnedValue {
        PinnedValue(ValueBytes::Page(part))
    }

    /// Returns whether the value is a slice of a pinned page, whose memory the cache cannot reuse
    /// until the value is dropped.
    #[must_use]
    pub fn is_in_page(&self) -> bool {
        matches!(self.0, ValueBytes::Page(_))
    }

    /// Returns the bytes of the value, copying them if they are in a page.
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
