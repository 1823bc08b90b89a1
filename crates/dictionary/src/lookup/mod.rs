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
//! node is missing. Where nodes come from ([`Fetch`](crate::fetch::Fetch)) makes the difference:
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

use crate::contract::Reader;
use crate::fetch::found;
use crate::gather::Gather;
use crate::key::Key;
use alluvium_storage::Result;

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
