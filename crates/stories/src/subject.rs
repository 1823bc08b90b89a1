//! The interface that a structure's test implements.

use crate::stack::Stack;
use crate::steps::{Action, scattered};
use alluvium_base::Sequence;
use alluvium_base::message::LAST;
use alluvium_dictionary::contract::{Ingest, Lookup, Ordered, Scan};
use alluvium_dictionary::gather::Gather;
use alluvium_dictionary::home::Home;
use alluvium_dictionary::memtables::Memtables;
use alluvium_dictionary::merge::{Append, Direction};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::{KeyspaceRules, OneKeyspace, Schema};
use alluvium_sim::Step;
use alluvium_storage::log::Access;
use alluvium_storage::{Result, extents::Class};
use std::fmt;
use std::sync::Arc;

/// Layout of a story's store.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// How the log is written.
    pub access: Access,
    /// Bytes of keys and values at which a memtable is sealed.
    pub memtable_bytes: u64,
    /// Planned bytes of data on the first of several tiers.
    pub planned_bytes: Option<u64>,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout {
            access: Access::Written,
            memtable_bytes: 8 << 10,
            planned_bytes: None,
        }
    }
}

/// A structure under test: its creation and opening, and its specific features.
pub trait Subject: Clone + fmt::Debug + Send + Sync + 'static {
    /// The structure.
    type Dictionary: Lookup;

    /// Creates an empty structure.
    ///
    /// # Errors
    /// A full disk; I/O errors.
    fn create(&self, home: Home) -> Result<Self::Dictionary>;

    /// Opens the structure from the root that a checkpoint made durable.
    ///
    /// # Errors
    /// I/O errors; damage.
    fn open(&self, home: Home, root: &[u8], cut: Sequence) -> Result<Self::Dictionary>;

    /// Begins a scan of a range for a reader at `at`.
    fn walk(
        &self,
        dictionary: &Self::Dictionary,
        memtables: Arc<dyn Memtables>,
        range: KeyRange,
        direction: Direction,
        at: Sequence,
    ) -> Box<dyn Scan>;

    /// Begins an ingest.
    ///
    /// # Errors
    /// I/O errors.
    fn ingest(&self, dictionary: &Self::Dictionary) -> Result<Box<dyn Ingest>>;

    /// Returns the layout of the store.
    fn layout(&self) -> Layout {
        Layout::default()
    }

    /// Returns the record rules. Merges append.
    fn schema(&self) -> Arc<dyn Schema> {
        let rules = KeyspaceRules {
            operator: Some(Arc::new(Append)),
            ..KeyspaceRules::default()
        };
        Arc::new(OneKeyspace::new(rules))
    }

    /// Returns the directions that a scan supports.
    fn directions(&self) -> &'static [Direction] {
        &[Direction::Forward, Direction::Backward]
    }

    /// Returns the primary sort key of a scan, which precedes the key itself.
    fn rank(&self, dictionary: &Self::Dictionary, key: &[u8]) -> u64 {
        let _ = (dictionary, key);
        0
    }

    /// Draws the steps of a run.
    fn steps(&self, seed: u64, count: usize) -> Vec<Step<Action>> {
        scattered(seed, count)
    }

    /// Prepares a structure that was created or opened. `next` is the sequence number of the next
    /// write.
    fn prepare(&self, dictionary: &Self::Dictionary, next: Sequence) {
        let _ = (dictionary, next);
    }

    /// Reads one key.
    ///
    /// # Errors
    /// I/O errors; damage.
    fn get(&self, dictionary: &Self::Dictionary, stack: &Arc<Stack>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        read(dictionary, stack, key)
    }

    /// Requests maintenance that is worthwhile although none is due. Returns whether there is any.
    ///
    /// # Errors
    /// I/O errors.
    fn request_maintenance(&self, dictionary: &Self::Dictionary) -> Result<bool> {
        let _ = dictionary;
        Ok(false)
    }

    /// Returns counters of the structure's work since it was opened. Coverage counts their
    /// increase.
    fn figures(&self, dictionary: &Self::Dictionary) -> Vec<(&'static str, u64)> {
        let _ = dictionary;
        Vec::new()
    }

    /// Returns the situations that the structure is in. Coverage counts them after each maintenance
    /// step.
    fn situations(&self, dictionary: &Self::Dictionary) -> Vec<&'static str> {
        let _ = dictionary;
        Vec::new()
    }
}

/// Reads one key by a blocking lookup.
///
/// # Errors
/// I/O errors; damage.
pub fn read<D: Lookup>(dictionary: &D, stack: &Stack, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut gather = [Gather::new(LAST, 0, Some(&Append))];
    stack.gather(dictionary, &[key], &mut gather)?;
    let [gather] = gather;
    Ok(gather.finish())
}

/// [`Subject::walk`] and [`Subject::ingest`] for structures with ordered keys.
pub mod in_order {
    use super::*;

    /// Begins a scan of a range for a reader at `at`.
    pub fn walk<D: Ordered<Scan: 'static>>(
        dictionary: &D,
        memtables: Arc<dyn Memtables>,
        range: KeyRange,
        direction: Direction,
        at: Sequence,
    ) -> Box<dyn Scan> {
        Box::new(dictionary.scan(memtables, range, direction, at, 0))
    }

    /// Begins an ingest.
    ///
    /// # Errors
    /// I/O errors.
    pub fn ingest<D: Ordered>(dictionary: &D) -> Result<Box<dyn Ingest>> {
        dictionary.ingest(Class::Normal)
    }
}
