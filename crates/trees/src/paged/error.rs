//! Constructors for the errors that a paged tree returns as errors of its store.

use alluvium_storage::{DiskLocation, Error, OnDiskObject};
use std::fmt::Display;

/// Returns the error for a page whose bytes differ from those last written to it.
pub(super) fn damaged_page(
    file: &str,
    page: u64,
    offset: u64,
    expected: impl Into<String>,
    found: impl Display,
) -> Error {
    let place = DiskLocation::new(OnDiskObject::Node, file, offset);
    Error::corrupt(place, expected, format!("{found}, in page {page}"))
}

/// Returns the error for a page that has a valid checksum but belongs to another store.
pub(super) fn foreign_page(file: &str, page: u64, expected: u128, found: u128) -> Error {
    let place = DiskLocation::new(OnDiskObject::Node, file, 0);
    let found = format!("page {page} of store {found:032x}");
    Error::corrupt(place, format!("pages of store {expected:032x}"), found)
}

/// Returns the error for a file that does not contain a tree.
pub(super) fn no_tree(file: &str, why: impl Into<String>) -> Error {
    Error::NotAStore {
        directory: file.to_owned(),
        why: why.into(),
    }
}

/// Converts an error from opening pages that are part of a store. There, a missing tree means
/// corruption.
pub(super) fn hosted(error: Error) -> Error {
    match error {
        Error::NotAStore { directory, why } => not_these_pages(&directory, why),
        error => error,
    }
}

/// Returns the error for a page file whose contents do not belong to the store that references it.
pub(super) fn not_these_pages(file: &str, why: impl Into<String>) -> Error {
    Error::corrupt(
        DiskLocation::new(OnDiskObject::Node, file, 0),
        "the pages of this store",
        why,
    )
}

/// Returns the error for an operation that needs a frame while all frames are pinned.
pub(super) fn all_pinned(frames: usize) -> Error {
    refused(format!(
        "all {frames} frames of the page buffer are pinned; give it more memory, or use fewer threads"
    ))
}

/// Returns the error for a file that has reached its maximum number of pages.
pub(super) fn too_many_pages(pages: u64) -> Error {
    refused(format!(
        "the page file has reached its maximum size of {pages} pages; move keys to another store"
    ))
}

/// Returns the error for a key that is longer than the tree's limit.
pub(super) fn key_too_long(len: usize, limit: usize) -> Error {
    too_long("key", len, limit)
}

/// Returns the error for a value that is longer than the tree's limit.
pub(super) fn value_too_long(len: usize, limit: usize) -> Error {
    too_long("value", len, limit)
}

fn too_long(what: &str, len: usize, limit: usize) -> Error {
    refused(format!(
        "a {what} of {len} bytes exceeds the limit of {limit}: shorten it, or create the tree with a greater limit"
    ))
}

fn refused(why: String) -> Error {
    Error::BadOption { option: "paged", why }
}
