//! What a structure is to the store that it is in.
//!
//! A store has several structures under one commit order, one log and one memory budget. Its owner
//! routes each keyspace to one of them, seals memtables, and hands every structure its [`Share`].
//! At a checkpoint it takes one [`Cut`] of each.
//!
//! What is asked once for a memtable, a step or a checkpoint may be called through `dyn
//! Dictionary`. What is asked for every lookup is in [`Lookup`] and [`Reader`], which are
//! dispatched when the program is compiled.
//!
//! Invariants:
//!
//! - **O1** A dictionary holds every commit about its keys up to its cut, and none above.
//! - **O2** A reader sees one state of it. What it refers to stays readable while the reader lives.
//! - **O3** What [`Incorporate::poll`] has done shows nowhere before [`Incorporate::publish`];
//!   dropped, it leaves nothing.
//! - **O4** A dictionary names no superblock: it hands out a root, and is opened from one.

use crate::cut::Cut;
use crate::findings::{Checked, Depth, Examined};
use crate::gather::Gather;
use crate::key::Key;
use crate::memtables::Memtables;
use crate::merge::Direction;
use crate::range::KeyRange;
use crate::share::Share;
use alluvium_base::{Message, Sequence};
use alluvium_storage::Result;
use alluvium_storage::extents::Class;
use std::fmt;
use std::sync::Arc;

pub use crate::lookup::Reader;

/// What a slice of work came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do.
    More,
    /// It is done.
    Done,
}

/// What a dictionary takes and what it has put off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Bytes of memory. Pages of the cache and memtables are others'.
    pub memory_bytes: u64,
    /// Steps that are due or under way.
    pub steps: u64,
}

/// A structure that keeps keys with messages. All methods may be called from any thread.
pub trait Dictionary: fmt::Debug + Send + Sync {
    /// Returns the last commit that is in it (O1).
    fn cut(&self) -> Sequence;

    /// Raises the cut to `cut`: no commit between the two is about its keys.
    ///
    /// # Errors
    /// As the device says: nothing has changed then.
    fn advance(&self, cut: Sequence) -> Result<()>;

    /// Begins to take its share of a sealed memtable. Memtables are taken in their order, one at a
    /// time. `class` says whether it may use the reserve.
    ///
    /// # Errors
    /// A full disk; as the device says.
    fn incorporate(&self, share: Share, class: Class) -> Result<Box<dyn Incorporate>>;

    /// Begins to write messages beside the dictionary. `class` says whether they may use the
    /// reserve.
    ///
    /// # Errors
    /// As the device says.
    fn ingest(&self, class: Class) -> Result<Box<dyn Ingest>>;

    /// Begins the next step of maintenance, if one is due.
    ///
    /// # Errors
    /// A full disk; as the device says.
    fn next_step(&self) -> Result<Option<Box<dyn Step>>>;

    /// Asks for a part of it to be rewritten: old versions and deletes go, and filters are asked.
    /// The part is the one that holds `key`; the work comes as a step.
    ///
    /// # Errors
    /// As the device says.
    fn compact_part(&self, key: &[u8]) -> Result<()>;

    /// Returns where the part that holds `key` ends, if another one follows.
    fn part_end(&self, key: &[u8]) -> Option<Box<[u8]>> {
        let _ = key;
        None
    }

    /// Sets the class of space that maintenance asks for. A step that may use the reserve at all
    /// asks for [`Class::Freeing`] from then on.
    fn set_space_class(&self, class: Class) {
        let _ = class;
    }

    /// Returns whether a step is under way, or due and not known to need more space than there is.
    /// What a step frees may be waited for.
    fn has_pending_work(&self) -> bool {
        false
    }

    /// Returns how many steps are due, as far as writers that do them themselves must know. Every
    /// writer asks.
    fn overdue_steps(&self) -> usize {
        0
    }

    /// Returns how many runs a lookup may meet, in percent of what there should be at most: above
    /// 100 maintenance does not keep up. Every writer asks.
    fn read_amplification_percent(&self) -> u64 {
        0
    }

    /// Writes most of what a checkpoint needs, while other steps go on. One checkpoint runs at a
    /// time.
    ///
    /// # Errors
    /// A full disk, which changes nothing; as the device says.
    fn prepare(&self) -> Result<()> {
        // What is written here is of use only where nothing changes before the cut: where there is
        // little to write, that may be left to the cut.
        Ok(())
    }

    /// Writes what is left, and says what the dictionary is opened from. It stands still until the
    /// cut is dropped.
    ///
    /// # Errors
    /// As [`Dictionary::prepare`].
    fn stand(&self) -> Result<Cut<'_>>;

    /// Returns everything that is wrong with it, and the extents that it uses. No step may go on
    /// meanwhile; those that were begun and not ended are handed in. `durable` is the root that the
    /// durable generation has.
    ///
    /// # Errors
    /// As the device says, and what `tell` returns. Damage is reported, not returned.
    fn examine(
        &self,
        depth: Depth,
        steps: &[&dyn Step],
        durable: Option<&[u8]>,
        tell: &mut dyn FnMut(Checked) -> Result<()>,
    ) -> Result<Examined>;

    /// Returns what it takes and what it has put off.
    fn load(&self) -> Load;

    /// Estimates how many keys of a range have a value.
    ///
    /// # Errors
    /// As the device says; damage.
    fn approximate_len(&self, range: &KeyRange) -> Result<u64>;

    /// Estimates how many different keys the data files have, deleted ones included. Most
    /// structures read a part of what they have for that.
    ///
    /// # Errors
    /// As the device says; damage.
    fn distinct_keys(&self) -> Result<DistinctKeys> {
        let records = self.approximate_len(&KeyRange::everything())? as f64;
        Ok(DistinctKeys {
            keys: records,
            records,
        })
    }

    /// Estimates how many bytes of the data files a range takes.
    ///
    /// # Errors
    /// As the device says; damage.
    fn size_on_disk(&self, range: &KeyRange) -> Result<u64>;
}

/// How many different keys there are, and of how many records.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DistinctKeys {
    /// Different keys.
    pub keys: f64,
    /// Records of them: one for each version that is kept.
    pub records: f64,
}

/// The share of a memtable on its way into a dictionary.
pub trait Incorporate: fmt::Debug + Send {
    /// Takes about `records` messages. [`Progress::Done`] says that it can be published.
    ///
    /// # Errors
    /// A full disk, and as the device says: it must begin again then.
    fn poll(&mut self, records: usize) -> Result<Progress>;

    /// Shows what was taken: the dictionary holds every commit up to the share's cut.
    ///
    /// # Errors
    /// As the device says: nothing has changed then, and it must begin again.
    fn publish(&mut self) -> Result<()>;

    /// Returns how many messages were taken.
    fn taken(&self) -> usize;
}

/// Maintenance under way.
pub trait Step: fmt::Debug + Send {
    /// Does about `records` records of it.
    ///
    /// # Errors
    /// A full disk, and as the device says.
    fn poll(&mut self, records: usize) -> Result<Progress>;

    /// Returns the number by which its dictionary knows it, if it uses extents.
    fn number(&self) -> Option<u64>;
}

/// Point lookups.
pub trait Lookup: Dictionary {
    /// What reads one state of it.
    type Reader<'d>: Reader
    where
        Self: 'd;

    /// Returns a reader of what the dictionary holds now. A reader with memtables loads their list
    /// before.
    fn reader(&self) -> Self::Reader<'_>;
}

/// A dictionary whose keys have an order.
pub trait Ordered: Dictionary {
    /// A walk over a range.
    type Scan: Scan;

    /// Begins a walk over a range, through memtables and the dictionary as one, for a reader at
    /// `at` to whom puts that expire at or before `now_ms` are gone.
    fn scan(
        &self,
        memtables: Arc<dyn Memtables>,
        range: KeyRange,
        direction: Direction,
        at: Sequence,
        now_ms: u64,
    ) -> Self::Scan;
}

/// A walk over the keys of a range that have a value.
pub trait Scan: fmt::Debug + Send {
    /// Goes before the first key at or behind `key`, in the walk's direction.
    fn seek(&mut self, key: &[u8]);

    /// Hands out long values as empty ones from now on. Those outside leaves are not read, unless
    /// operands of a merge lie upon them.
    fn leave_out_long_values(&mut self);

    /// Returns the next key that has a value, and the value.
    ///
    /// # Errors
    /// As the device says; damage. Asked again, it tries again.
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>>;
}

/// Messages that are written beside a dictionary, and become part of it at once. Dropped before,
/// they leave nothing.
///
/// They come in layers, each newer than those before it. A layer has either messages, whose keys
/// ascend, or deleted ranges. What is in a layer is read once the layer has ended.
pub trait Ingest: fmt::Debug + Send + Sync {
    /// Adds a message to the newest layer; keys ascend. Its sequence number is not used.
    ///
    /// # Errors
    /// A full disk, and as the device says: it can only be dropped then.
    fn push(&mut self, key: &[u8], message: Message<'_>) -> Result<()>;

    /// Adds a deleted range to the newest layer: the keys from `start` on and before `end`.
    fn delete_range(&mut self, start: &[u8], end: &[u8]);

    /// Ends the newest layer. What comes next is newer than it.
    ///
    /// # Errors
    /// As [`Ingest::push`].
    fn end_layer(&mut self) -> Result<()>;

    /// Returns how many layers have ended.
    fn layers(&self) -> u64;

    /// Drops all but the `layers` oldest layers.
    fn keep(&mut self, layers: u64);

    /// Hands what ended layers say of a key to `gather`, newest first. Layer `n`, from 0, has the
    /// sequence number `n + 1` there. Where a deleted range covers the key, `gather` is decided:
    /// what lies below the ingest makes no difference.
    ///
    /// # Errors
    /// As the device says; damage.
    fn gather(&self, key: Key<'_>, gather: &mut Gather<'_>) -> Result<()>;

    /// Returns a walk over the keys of a range that ended layers have messages of.
    fn walk(&self, range: &KeyRange, direction: Direction) -> Box<dyn Walk>;

    /// Returns how many messages were taken.
    fn records(&self) -> u64;

    /// Returns how many bytes of keys and values were taken.
    fn bytes(&self) -> u64;

    /// Returns how many bytes of memory it takes.
    fn memory_bytes(&self) -> u64;

    /// Writes what is not written yet, and takes the space that [`Ingest::attach`] needs. Several
    /// ingests of one commit are all prepared before the first of them is attached.
    ///
    /// # Errors
    /// A full disk, and as the device says: nothing has changed then.
    fn prepare(&mut self, first: Sequence) -> Result<()> {
        let _ = first;
        Ok(())
    }

    /// Makes the layers part of the dictionary, as the commits from `first` on, the oldest layer
    /// first. `first` follows the dictionary's cut.
    ///
    /// # Errors
    /// As [`Ingest::prepare`], where that was not called.
    fn attach(self: Box<Self>, first: Sequence) -> Result<()>;
}

/// A walk over keys of which an [`Ingest`] has messages.
pub trait Walk: fmt::Debug + Send {
    /// Goes to the next key, in the walk's direction, and returns it. Hands what the ingest says of
    /// the key to `gather`, newest first.
    ///
    /// # Errors
    /// As the device says; damage. Asked again, it tries again.
    fn next(&mut self, gather: &mut Gather<'_>) -> Result<Option<&[u8]>>;

    /// Returns whether a deleted range covers a key of which the ingest has no message.
    fn is_deleted(&self, key: &[u8]) -> bool;
}
