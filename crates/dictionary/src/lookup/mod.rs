//! Drivers for point lookups: blocking, batched and polled.
//!
//! *Scope*: which nodes a lookup still needs, when to request them, and when to wait for them.
//!
//! *Must not depend on*: how a dictionary finds a key; the contents of memtables and of the record
//! cache.
//!
//! A dictionary implements one step of a lookup, which continues a [`LookupState`] until the result
//! is known or a node is missing. The drivers differ in where they get nodes from ([`NodeFetch`]):
//!
//! ```text
//!            node missing        then
//! gather     is read             the same step goes on
//! batch      is noted            other keys go on, and missing nodes are read together
//! course     is noted            the caller asks for it, and polls again later
//! ```
//!
//! Invariants:
//!
//! - **L1** A node is requested only while a lookup is waiting for it.
//! - **L2** A lookup whose result is known executes no further step.
//! - **L3** A lookup continues only in the dictionary version in which it was started.

pub mod batch;
pub mod cursor;

pub use batch::BatchKeySearch;
pub use cursor::LookupCursor;

use crate::fetch::{BlockingFetch, NodeFetch, unwrap_ready};
use crate::key::LookupKey;
use crate::lookup_state::LookupState;
use alluvium_base::SequenceNumber;
use alluvium_storage::Result;
use std::fmt;
use std::task::Poll;

/// A reader of one version of a dictionary (O2). It should exist only for a short time.
///
/// The dictionary implements a single step of a lookup, [`LookupReader::search`], which the drivers
/// in this module call.
pub trait LookupReader {
    /// The position of a search for one key in this version.
    type Search: fmt::Debug + Send;

    /// Returns the sequence number of the last commit in this version.
    fn cut(&self) -> SequenceNumber;

    /// Returns the number of this version. A lookup can continue only in the version in which it
    /// was started.
    fn state(&self) -> u64;

    /// Returns a source that reads the dictionary's nodes and blocks on cache misses.
    fn nodes(&self) -> BlockingFetch<'_>;

    /// Continues the lookup of one key until its result is known, all data has been searched, or a
    /// node is missing. In the last case, the next call continues at the same position.
    ///
    /// # Errors
    /// I/O errors; damage.
    fn search<F: NodeFetch>(
        &self,
        key: LookupKey<'_>,
        gather: &mut LookupState<'_>,
        search: &mut Self::Search,
        fetch: &F,
    ) -> Poll<Result<()>>;

    /// Like [`LookupReader::search`], but for several keys of a batch. Marks the lookups that are
    /// done.
    ///
    /// # Errors
    /// The same errors as [`LookupReader::search`].
    fn search_together<F: NodeFetch>(
        &self,
        open: &mut [BatchKeySearch<Self::Search>],
        keys: &[LookupKey<'_>],
        gathers: &mut [LookupState<'_>],
        fetch: &F,
    ) -> Result<()> {
        search_each(open, |index, search| {
            self.search(keys[index], &mut gathers[index], search, fetch)
        })
    }

    /// Returns the initial position of a search.
    fn new_search(&self) -> Self::Search;

    /// Resets a search to its initial position in this version, reusing its memory.
    fn restart(&self, search: &mut Self::Search) {
        *search = self.new_search();
    }

    /// Called when the search for a key has ended, so that maintenance learns which parts of the
    /// dictionary are read often.
    fn ended(&self, _key: LookupKey<'_>) {}
}

/// Calls `search` for each unfinished search of a batch with the index of its key. Marks the
/// searches that are done.
pub(crate) fn search_each<S>(
    open: &mut [BatchKeySearch<S>],
    mut search: impl FnMut(usize, &mut S) -> Poll<Result<()>>,
) -> Result<()> {
    for one in open {
        if let Poll::Ready(done) = search(one.index, &mut one.search) {
            done?;
            one.is_done = true;
        }
    }
    Ok(())
}

/// Looks up one key in the version of `reader`, waiting for each node that is not in memory.
///
/// # Errors
/// I/O errors; damage.
#[inline]
pub fn gather<R: LookupReader>(reader: &R, key: LookupKey<'_>, gather: &mut LookupState<'_>) -> Result<()> {
    if gather.is_decided() {
        return Ok(());
    }
    let mut search = reader.new_search();
    let done = reader.search(key, gather, &mut search, &reader.nodes());
    reader.ended(key);
    unwrap_ready(done)
}
