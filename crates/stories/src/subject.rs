//! The interface that the test of a structure must implement.

use crate::stack::MemtableStack;
use crate::steps::{StoryAction, scattered};
use alluvium_base::SequenceNumber;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_dictionary::contract::{BulkIngest, DictionaryScan, OrderedDictionary, PointLookup};
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::memtables::MemtableOwner;
use alluvium_dictionary::merge::{AppendOperator, MergeDirection};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::{KeyspaceRules, KeyspaceSchema, OneKeyspace};
use alluvium_dictionary::structure_context::StructureContext;
use alluvium_sim::RunStep;
use alluvium_storage::log::SegmentAccess;
use alluvium_storage::{Result, extents::AllocationClass};
use std::fmt;
use std::sync::Arc;

/// The layout of the store that a story creates.
#[derive(Clone, Copy, Debug)]
pub struct StoreLayout {
    /// How segments of the log are written.
    pub access: SegmentAccess,
    /// A memtable is sealed once its keys and values reach this total size in bytes.
    pub memtable_bytes: u64,
    /// Planned number of bytes on the first tier, if the store has several tiers.
    pub planned_bytes: Option<u64>,
}

impl Default for StoreLayout {
    fn default() -> StoreLayout {
        StoreLayout {
            access: SegmentAccess::Written,
            memtable_bytes: 8 << 10,
            planned_bytes: None,
        }
    }
}

/// A structure under test. The implementation creates and opens it, and describes its features.
pub trait StructureSubject: Clone + fmt::Debug + Send + Sync + 'static {
    type Dictionary: PointLookup;

    /// Creates an empty structure.
    ///
    /// # Errors
    /// Returns an error if the disk is full, and I/O errors.
    fn create(&self, home: StructureContext) -> Result<Self::Dictionary>;

    /// Opens the structure from a root that a checkpoint has made durable.
    ///
    /// # Errors
    /// Returns I/O errors, and an error if data is damaged.
    fn open(&self, home: StructureContext, root: &[u8], cut: SequenceNumber) -> Result<Self::Dictionary>;

    /// Starts a scan of a range as of sequence number `at`.
    fn walk(
        &self,
        dictionary: &Self::Dictionary,
        memtables: Arc<dyn MemtableOwner>,
        range: KeyRange,
        direction: MergeDirection,
        at: SequenceNumber,
    ) -> Box<dyn DictionaryScan>;

    /// Starts an ingest, which writes records directly to the structure.
    ///
    /// # Errors
    /// I/O errors.
    fn ingest(&self, dictionary: &Self::Dictionary) -> Result<Box<dyn BulkIngest>>;

    /// Returns the layout of the store that the story creates.
    fn layout(&self) -> StoreLayout {
        StoreLayout::default()
    }

    /// Returns the rules for interpreting records. A merge appends its operand to the value.
    fn schema(&self) -> Arc<dyn KeyspaceSchema> {
        let rules = KeyspaceRules {
            operator: Some(Arc::new(AppendOperator)),
            ..KeyspaceRules::default()
        };
        Arc::new(OneKeyspace::new(rules))
    }

    /// Returns the directions that a scan can take.
    fn directions(&self) -> &'static [MergeDirection] {
        &[MergeDirection::Forward, MergeDirection::Backward]
    }

    /// Returns the primary sort key of `key` in scans. Keys with equal primary sort keys are
    /// ordered by the key itself.
    fn rank(&self, dictionary: &Self::Dictionary, key: &[u8]) -> u64 {
        let _ = (dictionary, key);
        0
    }

    /// Generates the steps of a run.
    fn steps(&self, seed: u64, count: usize) -> Vec<RunStep<StoryAction>> {
        scattered(seed, count)
    }

    /// Prepares a structure that was just created or opened. `next` is the sequence number of the
    /// next write.
    fn prepare(&self, dictionary: &Self::Dictionary, next: SequenceNumber) {
        let _ = (dictionary, next);
    }

    /// Reads the value of one key.
    ///
    /// # Errors
    /// Returns I/O errors, and an error if data is damaged.
    fn get(
        &self,
        dictionary: &Self::Dictionary,
        stack: &Arc<MemtableStack>,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        read(dictionary, stack, key)
    }

    /// Requests maintenance that is worthwhile although not due. Returns whether there is any.
    ///
    /// # Errors
    /// I/O errors.
    fn request_maintenance(&self, dictionary: &Self::Dictionary) -> Result<bool> {
        let _ = dictionary;
        Ok(false)
    }

    /// Returns counters of the work that the structure has done since it was opened. The coverage
    /// counts their increases.
    fn figures(&self, dictionary: &Self::Dictionary) -> Vec<(&'static str, u64)> {
        let _ = dictionary;
        Vec::new()
    }

    /// Returns the names of the structure's current situations. The coverage counts them after each
    /// maintenance step.
    fn situations(&self, dictionary: &Self::Dictionary) -> Vec<&'static str> {
        let _ = dictionary;
        Vec::new()
    }
}

/// Reads the value of one key with a blocking lookup.
///
/// # Errors
/// Returns I/O errors, and an error if data is damaged.
pub fn read<D: PointLookup>(dictionary: &D, stack: &MemtableStack, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut gather = [LookupState::new(MAX_SEQUENCE, 0, Some(&AppendOperator))];
    stack.gather(dictionary, &[key], &mut gather)?;
    let [gather] = gather;
    Ok(gather.finish())
}

/// Implementations of [`StructureSubject::walk`] and [`StructureSubject::ingest`] for structures
/// with ordered keys.
pub mod in_order {
    use super::*;

    /// Starts a scan of a range as of sequence number `at`.
    pub fn walk<D: OrderedDictionary<Scan: 'static>>(
        dictionary: &D,
        memtables: Arc<dyn MemtableOwner>,
        range: KeyRange,
        direction: MergeDirection,
        at: SequenceNumber,
    ) -> Box<dyn DictionaryScan> {
        Box::new(dictionary.scan(memtables, range, direction, at, 0))
    }

    /// Starts an ingest, which writes records directly to the structure.
    ///
    /// # Errors
    /// I/O errors.
    pub fn ingest<D: OrderedDictionary>(dictionary: &D) -> Result<Box<dyn BulkIngest>> {
        dictionary.ingest(AllocationClass::Normal)
    }
}
