//! Drives point lookups in a dictionary: one that waits, a batch, and one that is polled.
//!
//! *Knows*: which nodes a lookup still needs, when they are asked for, and when to wait for them.
//!
//! *Does not know*: how a dictionary finds a key, what memtables and the record cache say.
//!
//! *Read in this order*: [`Reader`] (one step of a lookup, which a
//! dictionary implements), [`gather`], [`batch`] and [`course`].
//!
//! A dictionary implements one step: it goes on with a [`Gather`] until the key is decided or a
//! node is missing. Where nodes come from ([`Fetch`]) makes the difference:
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
//! - **L1** A node is asked for only while a lookup waits for it.
//! - **L2** A lookup that is decided takes no further step.
//! - **L3** A lookup goes on only in the state of the dictionary that it was begun in.

pub mod batch;
pub mod course;

pub use batch::Open;
pub use course::Course;

use crate::fetch::{Blocking, Fetch, found};
use crate::gather::Gather;
use crate::key::Key;
use alluvium_base::Sequence;
use alluvium_storage::Result;
use std::fmt;
use std::task::Poll;

/// Reads one state of a dictionary (O2). It should not live long.
///
/// A dictionary implements one step of a lookup, [`Reader::search`]; this module drives it.
pub trait Reader {
    /// Where the lookup of one key goes on in this state.
    type Search: fmt::Debug + Send;

    /// Returns the last commit that the state holds.
    fn cut(&self) -> Sequence;

    /// Returns the number of the state. A lookup goes on only in the state that it was begun in.
    fn state(&self) -> u64;

    /// Returns the source of the dictionary's nodes that waits for them.
    fn nodes(&self) -> Blocking<'_>;

    /// Feeds a lookup that is not decided, until it is, or there is no more, or a node is missing.
    /// A lookup that misses a node goes on where it was.
    ///
    /// # Errors
    /// As the device says; damage.
    fn search<F: Fetch>(
        &self,
        key: Key<'_>,
        gather: &mut Gather<'_>,
        search: &mut Self::Search,
        fetch: &F,
    ) -> Poll<Result<()>>;

    /// As [`Reader::search`] for a few keys of a batch, and marks those that are done.
    ///
    /// # Errors
    /// As [`Reader::search`].
    fn search_together<F: Fetch>(
        &self,
        open: &mut [Open<Self::Search>],
        keys: &[Key<'_>],
        gathers: &mut [Gather<'_>],
        fetch: &F,
    ) -> Result<()> {
        search_each(open, |index, search| {
            self.search(keys[index], &mut gathers[index], search, fetch)
        })
    }

    /// Returns a search that has not begun.
    fn new_search(&self) -> Self::Search;

    /// Begins a search again in this state, with the memory that it has.
    fn restart(&self, search: &mut Self::Search) {
        *search = self.new_search();
    }

    /// Notes that the search for a key has ended here: maintenance may want to know which parts are
    /// read often.
    fn ended(&self, _key: Key<'_>) {}
}

/// Takes a step of each search of a batch, and marks those that are done. `search` gets the index
/// of the key.
pub(crate) fn search_each<S>(
    open: &mut [Open<S>],
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

/// Feeds the lookup of one key, and waits for the nodes that it needs.
///
/// # Errors
/// As the device says; damage.
#[inline]
pub fn gather<R: Reader>(reader: &R, key: Key<'_>, gather: &mut Gather<'_>) -> Result<()> {
    if gather.is_decided() {
        return Ok(());
    }
    let mut search = reader.new_search();
    let done = reader.search(key, gather, &mut search, &reader.nodes());
    reader.ended(key);
    found(done)
}
