//! Drivers for point lookups: blocking, batched and polled.
//!
//! *Scope*: which nodes a lookup still needs, when to request them, and when to wait for them.
//!
//! *Must not depend on*: how a dictionary finds a key; the contents of memtables and of the record
//! cache.
//!
//! A dictionary implements a single step: it continues a [`LookupState`] until the key is decided
//! or a node is missing. The drivers differ in their source of nodes ([`NodeFetch`]):
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
//! - **L1** A node is requested only while a lookup waits for it.
//! - **L2** A decided lookup takes no further step.
//! - **L3** A lookup continues only in the state of the dictionary in which it began.

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

/// A reader of one state of a dictionary (O2). It should be short-lived.
///
/// A dictionary implements one step of a lookup, [`LookupReader::search`]; this module drives it.
pub trait LookupReader {
    /// Position of one key's lookup in this state.
    type Search: fmt::Debug + Send;

    /// Returns the last commit that the state contains.
    fn cut(&self) -> SequenceNumber;

    /// Returns the number of the state. A lookup continues only in the state in which it began.
    fn state(&self) -> u64;

    /// Returns the blocking source of the dictionary's nodes.
    fn nodes(&self) -> BlockingFetch<'_>;

    /// Continues an undecided lookup until it is decided, the data is exhausted, or a node is
    /// missing. After a miss, a further call continues at the same position.
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

    /// As [`LookupReader::search`] for a few keys of a batch. Marks the keys that are done.
    ///
    /// # Errors
    /// The same as [`LookupReader::search`].
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

    /// Returns a search that has not begun.
    fn new_search(&self) -> Self::Search;

    /// Resets a search to the beginning in this state and keeps its allocated memory.
    fn restart(&self, search: &mut Self::Search) {
        *search = self.new_search();
    }

    /// Called when the search for a key has ended, so that maintenance can learn which parts are
    /// read often.
    fn ended(&self, _key: LookupKey<'_>) {}
}

/// Runs `search` for each search of a batch, with the index of its key, and marks those that are
/// done.
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

/// Looks up one key and waits for the nodes that it needs.
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
