//! Writes of a transaction that were moved to runs on disk (spilled). The runs have the same
//! structures as those of the store, but only the transaction can see them.
//!
//! Spilled writes are older than the writes in memory, and newer than the contents of the store. A
//! commit attaches the runs to the store without rewriting them. A rollback or a crash frees them.

use crate::engine::{CommitObserver, Engine, OpenTransaction, OwnWrites, RunningIngest};
use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::locking::fault::{IsolationFault, is_planted};
use crate::locking::ranges::RangeSet;
use crate::options::kind::DictionaryPlace;
use crate::options::{Concurrency, Isolation};
use crate::read::value::Value;
use crate::schema::catalog::{BatchKeyspaces, CommitKeyspaces, KeyspaceDefinition};
use crate::schema::format::{self, KeyspaceId, TreeKey};
use crate::transaction::write_set::{IterEnd, OverlayLayer, WriteSet, bad_base, merged_over};
use crate::write::batch::WriteBatch;
use alluvium_base::Message;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_dictionary::batch::LongValues;
use alluvium_dictionary::contract::{BulkIngest, IngestKeyScan};
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::merge::{BadOperand, MergeDirection};
use alluvium_dictionary::range::KeyRange;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// The first and last key that a transaction has written in a keyspace.
#[derive(Clone, Debug)]
struct WrittenRange {
    definition: Arc<KeyspaceDefinition>,
    first: TreeKey,
    last: TreeKey,
    /// The deleted ranges of tree keys.
    deleted: Arc<RangeSet>,
}

impl WrittenRange {
    /// Returns the range of tree keys from the first to the last key. A deleted range may end where
    /// the next keyspace begins, whose first key is not in the range.
    fn range(&self) -> KeyRange {
        let behind = [&self.last[..], &[0]].concat();
        let high = self.definition.end.as_slice().min(&behind);
        KeyRange::new(&self.first, Some(high))
    }
}

/// The spilled writes of a transaction.
#[derive(Debug, Default)]
pub(super) struct SpilledWrites {
    runs: BTreeMap<DictionaryPlace, Arc<RunningIngest>>,
    stretches: BTreeMap<KeyspaceId, WrittenRange>,
    /// Makes the engine record the keys of other commits, if the commit has to be validated against
    /// them.
    observer: Option<CommitObserver>,
}

/// A state that the spilled writes can be rolled back to.
#[derive(Clone, Debug, Default)]
pub(super) struct SpilledMark {
    layers: BTreeMap<DictionaryPlace, u64>,
    stretches: BTreeMap<KeyspaceId, WrittenRange>,
}

/// The effect of the spilled writes on one key.
#[derive(Debug)]
pub(super) enum SpilledEffect {
    Nothing,
    /// The spilled writes determine the value, whatever the store contains. `None` means that the
    /// key has no value.
    Value(Option<Vec<u8>>),
    /// The operand must be merged into the key's value in the store.
    Operand(Vec<u8>),
    /// The key has its value in the store, which is deleted after the time of the reader.
    DeletedLater,
}

impl SpilledEffect {
    fn of(gather: LookupState<'_>) -> std::result::Result<SpilledEffect, BadOperand> {
        if gather.is_untouched() {
            return Ok(SpilledEffect::Nothing);
        }
        let is_decided = gather.is_decided();
        let value = gather
            .found()?
            .map(alluvium_dictionary::pinned_value::PinnedValue::into_vec);
        Ok(match value {
            value if is_decided => SpilledEffect::Value(value),
            Some(operand) => SpilledEffect::Operand(operand),
            None => SpilledEffect::DeletedLater,
        })
    }

    /// Returns whether the key's value depends on its value in the store.
    pub(super) fn asks_store(&self) -> bool {
        !matches!(self, SpilledEffect::Value(_))
    }

    /// Applies this effect to `base`, the key's value in the store, and returns the result.
    pub(super) fn over(self, keyspace: &Keyspace, key: &[u8], base: Option<Value>) -> Result<Option<Value>> {
        match self {
            SpilledEffect::Nothing | SpilledEffect::DeletedLater => Ok(base),
            SpilledEffect::Value(value) => Ok(value.map(|value| Value::new(value.into()))),
            SpilledEffect::Operand(operand) => merged_over(keyspace, key, operand, base),
        }
    }
}

impl SpilledWrites {
    pub(super) fn is_empty(&self) -> bool {
        self.stretches.is_empty()
    }

    /// Returns the transaction's runs, with one entry for each dictionary.
    pub(super) fn ingests(&self) -> Vec<&RunningIngest> {
        self.runs.values().map(|runs| &**runs).collect()
    }

    /// Returns the first and last key written in each keyspace, as tree keys.
    pub(super) fn stretches(&self) -> Vec<(TreeKey, TreeKey)> {
        let stretches = self.stretches.values();
        stretches
            .map(|stretch| (stretch.first.clone(), stretch.last.clone()))
            .collect()
    }

    /// Returns the keyspaces that the transaction has written to. Returns an error if one of them
    /// was dropped.
    pub(super) fn members(&self, engine: &Engine) -> Result<BatchKeyspaces> {
        let mut members = BatchKeyspaces::default();
        for stretch in self.stretches.values() {
            members.add(&engine.catalog, &stretch.definition)?;
        }
        engine.catalog.alive(CommitKeyspaces::Batch(&members))?;
        Ok(members)
    }

    /// Returns the memory of the runs, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.runs.values().map(|runs| runs.memory_bytes()).sum()
    }

    /// Returns the total size of the spilled keys and values, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = |runs: &Arc<RunningIngest>| runs.read(|ingest| Ok(ingest.bytes())).unwrap_or(0);
        self.runs.values().map(bytes).sum()
    }

    /// Adds the writes in `sets` to the runs. After an error, the runs are unchanged. `kept`
    /// contains the marks of savepoints.
    pub(super) fn pour(
        &mut self,
        engine: &Engine,
        open: &Arc<OpenTransaction>,
        sets: &BTreeMap<KeyspaceId, WriteSet>,
        kept: &[&SpilledMark],
    ) -> Result<()> {
        let is_validated =
            open.isolation == Isolation::Snapshot && open.concurrency == Concurrency::Optimistic;
        if is_validated && self.observer.is_none() {
            self.observer = Some(engine.committed_keys.observe());
        }
        let before = self.mark()?;
        self.protect(&[kept, &[&before]].concat());
        let poured = self.pour_sets(engine, open, sets);
        if poured.is_err() {
            self.take_back(before);
        }
        poured
    }

    fn pour_sets(
        &mut self,
        engine: &Engine,
        open: &Arc<OpenTransaction>,
        sets: &BTreeMap<KeyspaceId, WriteSet>,
    ) -> Result<()> {
        let mut of: BTreeMap<DictionaryPlace, Vec<&WriteSet>> = BTreeMap::new();
        for (&id, set) in sets {
            let definition = set.keyspace().definition();
            let Some((first, last)) = set.stretch() else {
                continue;
            };
            of.entry(definition.dictionary()).or_default().push(set);
            let stretch = self.stretches.entry(id).or_insert_with(|| WrittenRange {
                definition: Arc::clone(definition),
                first: first.clone(),
                last: last.clone(),
                deleted: Arc::default(),
            });
            for (start, end) in set.deleted_tree_ranges() {
                Arc::make_mut(&mut stretch.deleted).insert(&start, Some(&end));
            }
            stretch.first = first.min(std::mem::take(&mut stretch.first));
            stretch.last = last.max(std::mem::take(&mut stretch.last));
        }
        for (place, sets) in of {
            let runs = match self.runs.entry(place) {
                Entry::Occupied(runs) => runs.into_mut(),
                Entry::Vacant(none) => {
                    let runs = engine.begin_ingest(place)?;
                    open.spill_to(&runs);
                    none.insert(runs)
                }
            };
            runs.add_layers(|ingest| add_layers(ingest, &sets))?;
        }
        Ok(())
    }

    /// Returns a mark of the current state, which the spilled writes can be rolled back to later.
    pub(super) fn mark(&self) -> Result<SpilledMark> {
        let mut layers = BTreeMap::new();
        for (&place, runs) in &self.runs {
            layers.insert(place, runs.read(|ingest| Ok(ingest.mark()))?);
        }
        Ok(SpilledMark {
            layers,
            stretches: self.stretches.clone(),
        })
    }

    /// Sets the marks that the spilled writes may be rolled back to. The background threads may
    /// merge all runs between two of them.
    pub(super) fn protect(&self, marks: &[&SpilledMark]) {
        for (place, runs) in &self.runs {
            let layers = marks.iter().filter_map(|mark| mark.layers.get(place).copied());
            runs.protect(&layers.collect::<Vec<u64>>());
        }
    }

    /// Merges runs on the calling thread if the background threads have not kept up with the
    /// spills.
    pub(super) fn merge_if_behind(&self) -> Result<()> {
        self.runs.values().try_for_each(|runs| runs.merge_if_behind())
    }

    /// Removes all writes spilled after a mark was created.
    pub(super) fn take_back(&mut self, mark: SpilledMark) {
        if is_planted(IsolationFault::SavepointKeepsSpilledWrites) {
            return;
        }
        for (place, runs) in &self.runs {
            runs.keep(mark.layers.get(place).copied().unwrap_or(0));
        }
        self.stretches = mark.stretches;
    }

    /// Returns the runs that contain the spilled writes to a keyspace, if there are any.
    fn runs_of(&self, keyspace: &Keyspace) -> Option<&Arc<RunningIngest>> {
        let is_there = self.stretches.contains_key(&keyspace.number());
        let is_there = is_there && !is_planted(IsolationFault::SpilledWritesAreHidden);
        is_there.then(|| &self.runs[&keyspace.definition().dictionary()])
    }

    /// Returns a handle for lookups in the spilled writes to a keyspace, if there are any.
    pub(super) fn lookup(&self, keyspace: &Keyspace) -> Option<SpilledLookup> {
        let runs = Arc::clone(self.runs_of(keyspace)?);
        let keyspace = keyspace.clone();
        Some(SpilledLookup { keyspace, runs })
    }

    /// Returns an iterator over the spilled writes in a range of a keyspace, if there are any.
    pub(super) fn walk(
        &self,
        keyspace: &Keyspace,
        range: &KeyRange,
        now_ms: u64,
    ) -> Result<Option<SpilledWalk>> {
        let Some(runs) = self.runs_of(keyspace) else {
            return Ok(None);
        };
        let begin = |direction| runs.read(|ingest| Ok(ingest.walk(range, direction)));
        Ok(Some(SpilledWalk {
            keyspace: keyspace.clone(),
            now_ms,
            long_values: LongValues::Read,
            left: range.clone(),
            front: SpilledWalkSide::new(begin(MergeDirection::Forward)?),
            back: SpilledWalkSide::new(begin(MergeDirection::Backward)?),
        }))
    }

    /// Returns the first spilled key for which `is_met` returns true, with its keyspace.
    pub(super) fn find_key(
        &self,
        is_met: impl Fn(&[u8], DictionaryPlace) -> Result<bool>,
    ) -> Result<Option<(Arc<KeyspaceDefinition>, Vec<u8>)>> {
        for stretch in self.stretches.values() {
            let place = stretch.definition.dictionary();
            let mut walk = self.scan(stretch)?;
            // Only keys are read here, so do not assemble values.
            while let Some(key) = walk.next(&mut LookupState::new(0, 0, None))? {
                if is_met(key, place)? {
                    return Ok(Some((Arc::clone(&stretch.definition), key.to_vec())));
                }
            }
        }
        Ok(None)
    }

    /// Returns, for each keyspace, the range of tree keys from the first to the last written key.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (&Arc<KeyspaceDefinition>, KeyRange)> + Clone {
        self.stretches
            .values()
            .map(|stretch| (&stretch.definition, stretch.range()))
    }

    /// Returns an iterator over the spilled writes to a keyspace.
    fn scan(&self, stretch: &WrittenRange) -> Result<Box<dyn IngestKeyScan>> {
        let runs = &self.runs[&stretch.definition.dictionary()];
        runs.read(|ingest| Ok(ingest.walk(&stretch.range(), MergeDirection::Forward)))
    }

    /// Returns the number of spilled records, including overwritten ones.
    pub(super) fn records(&self) -> u64 {
        let records = |runs: &Arc<RunningIngest>| runs.read(|ingest| Ok(ingest.records())).unwrap_or(0);
        self.runs.values().map(records).sum()
    }

    /// Reads all spilled writes, adds them to a batch, and frees their space. Calls `visit` with
    /// each written key, and with whether the key's value in the store is only merged into.
    pub(super) fn read_back(
        self,
        engine: &Engine,
        batch: &mut WriteBatch,
        mut visit: impl FnMut(&Arc<KeyspaceDefinition>, &[u8], bool),
    ) -> Result<()> {
        for stretch in self.stretches.values() {
            let definition = &stretch.definition;
            batch.members.add(&engine.catalog, definition)?;
            for (start, end) in stretch.deleted.iter() {
                batch.commit.delete_range(start, end.unwrap_or(&definition.end));
            }
            let mut walk = self.scan(stretch)?;
            loop {
                // With this time, no value has expired.
                let operator = definition.rules.operator.as_deref();
                let mut gather = LookupState::new(MAX_SEQUENCE, 0, operator);
                let Some(key) = walk.next(&mut gather)? else {
                    break;
                };
                visit(definition, key, gather.only_merges());
                gather.visit_messages(|message| {
                    let Message {
                        kind,
                        expires_ms,
                        operand,
                        ..
                    } = message;
                    batch.commit.add(&[], key, kind, expires_ms, operand);
                });
            }
        }
        self.runs.values().for_each(|runs| runs.end());
        Ok(())
    }
}

impl OwnWrites for SpilledWrites {
    fn has_key(&self, key: &[u8], definition: &KeyspaceDefinition) -> Result<bool> {
        let mut gather = LookupState::new(MAX_SEQUENCE, 0, None);
        let runs = &self.runs[&definition.dictionary()];
        runs.read(|ingest| Ok(ingest.gather(LookupKey::new(key), &mut gather)?))?;
        Ok(!gather.is_untouched())
    }

    fn has_key_in(&self, range: &KeyRange, definition: &KeyspaceDefinition) -> Result<bool> {
        let runs = &self.runs[&definition.dictionary()];
        let mut walk = runs.read(|ingest| Ok(ingest.walk(range, MergeDirection::Forward)))?;
        // Only the key counts, so do not assemble its value.
        Ok(walk.next(&mut LookupState::new(0, 0, None))?.is_some())
    }
}

/// Looks up keys in the spilled writes of a keyspace, including those that are spilled later.
#[derive(Debug)]
pub(super) struct SpilledLookup {
    keyspace: Keyspace,
    runs: Arc<RunningIngest>,
}

impl SpilledLookup {
    /// Returns the effect of the spilled writes on a key for a reader at time `now_ms`.
    pub(super) fn effect_on(
        &self,
        key: &[u8],
        now_ms: u64,
        long_values: LongValues,
    ) -> Result<SpilledEffect> {
        let keyspace = &self.keyspace;
        let name = format::tree_key(&keyspace.definition().prefix, key);
        let mut gather = gather_of(keyspace, now_ms, long_values);
        self.runs
            .read(|ingest| Ok(ingest.gather(LookupKey::new(&name), &mut gather)?))?;
        SpilledEffect::of(gather).map_err(|bad| bad_base(keyspace, key, bad))
    }
}

/// Returns a `LookupState` for a lookup in the spilled writes that has not found anything yet.
fn gather_of(keyspace: &Keyspace, now_ms: u64, long_values: LongValues) -> LookupState<'_> {
    let gather = LookupState::new(MAX_SEQUENCE, now_ms, keyspace.operator());
    match long_values {
        LongValues::Read => gather,
        LongValues::LeftOut => gather.leaving_out_long_values(),
    }
}

/// Adds the writes in `sets`, which belong to one dictionary, to the ingest as up to three layers:
/// range deletes, then writes above them, and on top the merges into values that the same writes
/// put.
fn add_layers(ingest: &mut dyn BulkIngest, sets: &[&WriteSet]) -> alluvium_storage::Result<()> {
    let mut are_there = false;
    for set in sets {
        are_there |= set.pour_ranges(ingest);
    }
    if std::mem::take(&mut are_there) {
        ingest.end_layer()?;
    }
    for set in sets {
        are_there |= set.pour_writes(ingest)?;
    }
    if std::mem::take(&mut are_there) {
        ingest.end_layer()?;
    }
    for set in sets {
        are_there |= set.pour_merges_upon_puts(ingest)?;
    }
    if are_there {
        ingest.end_layer()?;
    }
    Ok(())
}

/// One of the two ends of an iterator over spilled writes.
struct SpilledWalkSide {
    walk: Box<dyn IngestKeyScan>,
    /// The next key at this end, with the effect of the spilled writes on it.
    next: Option<(Vec<u8>, std::result::Result<SpilledEffect, BadOperand>)>,
    is_over: bool,
}

impl SpilledWalkSide {
    fn new(walk: Box<dyn IngestKeyScan>) -> SpilledWalkSide {
        SpilledWalkSide {
            walk,
            next: None,
            is_over: false,
        }
    }

    fn fill(&mut self, keyspace: &Keyspace, now_ms: u64, long_values: LongValues) -> Result<()> {
        if self.next.is_some() || self.is_over {
            return Ok(());
        }
        let mut gather = gather_of(keyspace, now_ms, long_values);
        match self.walk.next(&mut gather)?.map(<[u8]>::to_vec) {
            Some(key) => self.next = Some((key, SpilledEffect::of(gather))),
            None => self.is_over = true,
        }
        Ok(())
    }
}

/// A double-ended iterator over the spilled writes of a keyspace, as of its creation.
pub(super) struct SpilledWalk {
    keyspace: Keyspace,
    now_ms: u64,
    long_values: LongValues,
    /// Tree keys that neither end has returned.
    left: KeyRange,
    front: SpilledWalkSide,
    back: SpilledWalkSide,
}

impl SpilledWalk {
    fn side(&mut self, end: IterEnd) -> &mut SpilledWalkSide {
        match end {
            IterEnd::Front => &mut self.front,
            IterEnd::Back => &mut self.back,
        }
    }

    /// Returns the effect on a key of the range of the writes that were spilled when the iterator
    /// was created.
    pub(super) fn effect_on(&self, key: &[u8], long_values: LongValues) -> Result<SpilledEffect> {
        let keyspace = &self.keyspace;
        let name = format::tree_key(&keyspace.definition().prefix, key);
        let mut gather = gather_of(keyspace, self.now_ms, long_values);
        self.front.walk.gather(LookupKey::new(&name), &mut gather)?;
        SpilledEffect::of(gather).map_err(|bad| bad_base(keyspace, key, bad))
    }

    /// Returns the length of the keyspace prefix of tree keys, in bytes.
    fn prefix(&self) -> usize {
        self.keyspace.definition().prefix.len()
    }
}

impl OverlayLayer for SpilledWalk {
    fn leave_out_long_values(&mut self) {
        self.long_values = LongValues::LeftOut;
    }

    fn peek(&mut self, end: IterEnd) -> Result<Option<&[u8]>> {
        let (keyspace, now_ms, long_values) = (self.keyspace.clone(), self.now_ms, self.long_values);
        self.side(end).fill(&keyspace, now_ms, long_values)?;
        let prefix = self.prefix();
        let next = match end {
            IterEnd::Front => &self.front.next,
            IterEnd::Back => &self.back.next,
        };
        // Ignore the key if the other end has already returned it.
        let next = next.as_ref().filter(|(key, _)| self.left.contains(key));
        Ok(next.map(|(key, _)| &key[prefix..]))
    }

    fn take(&mut self, end: IterEnd, below: Option<Value>) -> Result<Option<(Vec<u8>, Option<Value>)>> {
        let Some((key, said)) = self.side(end).next.take() else {
            return Ok(None);
        };
        match end {
            IterEnd::Front => self.left.low = [&key[..], &[0]].concat().into(),
            IterEnd::Back => self.left.high = Some(key[..].into()),
        }
        let name = key[self.prefix()..].to_vec();
        let keyspace = &self.keyspace;
        let said = said.map_err(|bad| bad_base(keyspace, &name, bad))?;
        let value = said.over(keyspace, &name, below)?;
        Ok(Some((name, value)))
    }

    fn hides(&self, key: &[u8]) -> bool {
        let name = format::tree_key(&self.keyspace.definition().prefix, key);
        self.front.walk.is_deleted(&name)
    }
}

/// Returns the error for spilled writes that need more memory than the limit allows.
#[cold]
pub(super) fn too_much_memory(most: u64) -> Error {
    Error::TransactionLimit {
        what: "the bytes of memory for the savepoints and for the index of the writes on disk",
        most: usize::try_from(most).unwrap_or(usize::MAX),
        option: "Options::memory",
    }
}
