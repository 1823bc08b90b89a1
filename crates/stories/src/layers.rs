//! A history of the layers of one ingest: spills, savepoints, rollbacks and merges of layers, which
//! is compared with a model.

use crate::stack::MemtableStack;
use crate::subject::StructureSubject;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_base::{Message, MessageKind};
use alluvium_dictionary::contract::{BulkIngest, Dictionary as _, IngestMerge, StepProgress};
use alluvium_dictionary::horizon::GcHorizon;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::merge::{AppendOperator, MergeDirection};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::structure_context::StructureContext;
use alluvium_storage::store::Store;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The time in milliseconds at which some of the values expire.
const EXPIRY_MS: u64 = 500;

/// A message of a key in the model. `None` stands for a range delete.
type ModelMessage = Option<(MessageKind, u64, Vec<u8>)>;

/// The messages of each key, oldest first, and all deleted ranges.
#[derive(Clone, Debug, Default)]
struct LayerModel {
    keys: BTreeMap<Vec<u8>, Vec<ModelMessage>>,
    deleted: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The effect of the layers on a key.
#[derive(Debug, PartialEq, Eq)]
enum ModelEffect {
    Nothing,
    Value(Option<Vec<u8>>),
    Operand(Vec<u8>),
    /// The key is deleted after the time of the reader.
    DeletedLater,
}

impl LayerModel {
    fn delete_range(&mut self, start: &[u8], end: &[u8]) {
        for (_, messages) in self.keys.range_mut(start.to_vec()..end.to_vec()) {
            messages.push(None);
        }
        self.deleted.push((start.to_vec(), end.to_vec()));
    }

    fn add(&mut self, key: Vec<u8>, message: ModelMessage) {
        let is_covered = |(start, end): &(Vec<u8>, Vec<u8>)| *start <= key && key < *end;
        let is_deleted = self.deleted.iter().any(is_covered);
        let first = || is_deleted.then_some(None).into_iter().collect();
        self.keys.entry(key).or_insert_with(first).push(message);
    }

    /// Returns the effect on a key for a reader at the time `now_ms`. Keys that only range deletes
    /// cover are not in the model.
    fn effect(&self, key: &[u8], now_ms: u64) -> ModelEffect {
        let mut effect = ModelEffect::Nothing;
        for message in self.keys.get(key).into_iter().flatten() {
            effect = match (message, effect) {
                (Some((MessageKind::Put, expires_ms, value)), _) => {
                    let is_expired = *expires_ms != 0 && *expires_ms <= now_ms;
                    ModelEffect::Value((!is_expired).then(|| value.clone()))
                }
                (Some((MessageKind::Merge, _, operand)), before) => match before {
                    ModelEffect::Nothing | ModelEffect::DeletedLater => ModelEffect::Operand(operand.clone()),
                    ModelEffect::Operand(older) => ModelEffect::Operand([&older[..], operand].concat()),
                    ModelEffect::Value(older) => {
                        ModelEffect::Value(Some([&older.unwrap_or_default()[..], operand].concat()))
                    }
                },
                (Some((MessageKind::TimedDelete, time_ms, _)), before) if *time_ms > now_ms => match before {
                    ModelEffect::Nothing => ModelEffect::DeletedLater,
                    before => before,
                },
                (Some((MessageKind::Delete | MessageKind::TimedDelete, ..)) | None, _) => {
                    ModelEffect::Value(None)
                }
            };
        }
        effect
    }

    /// Returns the keys whose newest message is not hidden by a range delete.
    fn unhidden(&self) -> BTreeSet<&[u8]> {
        let keys = self.keys.iter();
        let unhidden = keys.filter(|(_, messages)| messages.last().is_some_and(Option::is_some));
        unhidden.map(|(key, _)| &key[..]).collect()
    }
}

fn effect_of(gather: LookupState<'_>) -> ModelEffect {
    if gather.is_untouched() {
        return ModelEffect::Nothing;
    }
    let is_decided = gather.is_decided();
    match gather.finish() {
        value if is_decided => ModelEffect::Value(value),
        Some(operand) => ModelEffect::Operand(operand),
        None => ModelEffect::DeletedLater,
    }
}

/// The history of one ingest.
struct LayerHistory {
    random: fastrand::Rng,
    ingest: Box<dyn BulkIngest>,
    model: LayerModel,
    /// The marks of savepoints, each with the model at that time.
    savepoints: Vec<(u64, LayerModel)>,
    /// Merges that were running at some time. Slices of them may run after they have ended.
    seen: Vec<Arc<dyn IngestMerge>>,
    /// Whether most layers continue the keys of the layers before them.
    is_ascending: bool,
    next: u32,
    installed: u64,
}

impl LayerHistory {
    fn key(&self, number: u32) -> Vec<u8> {
        format!("key{number:07}").into_bytes()
    }

    /// Adds a layer of messages with ascending keys.
    fn add_messages(&mut self) {
        let is_run = self.is_ascending && self.random.u8(..8) > 0;
        let (mut number, count, stride) = match is_run {
            true => (self.next, 400, 1),
            false => (
                self.random.u32(..400),
                self.random.u32(1..60),
                self.random.u32(1..20),
            ),
        };
        for _ in 0..count {
            let key = self.key(number);
            let bytes = vec![self.random.u8(..); self.random.usize(1..if is_run { 300 } else { 60 })];
            let (kind, expires_ms) = match self.random.u8(..10) {
                8 | 9 if !is_run => (MessageKind::TimedDelete, EXPIRY_MS - 5 + self.random.u64(..10)),
                0 | 1 if !is_run => (MessageKind::Merge, 0),
                2 if !is_run => (MessageKind::Delete, 0),
                3 if !is_run => (MessageKind::Put, EXPIRY_MS),
                _ => (MessageKind::Put, 0),
            };
            let message = match kind {
                MessageKind::Put => Message::put(0, &bytes),
                MessageKind::Merge => Message::merge(0, &bytes),
                MessageKind::Delete => Message::delete(0),
                MessageKind::TimedDelete => Message::timed_delete(0, expires_ms),
            };
            self.ingest
                .push(
                    &key,
                    Message {
                        expires_ms,
                        ..message
                    },
                )
                .unwrap();
            self.model.add(key, Some((kind, expires_ms, bytes)));
            number += stride;
        }
        self.next = self.next.max(number);
        self.ingest.end_layer().unwrap();
    }

    /// Adds a layer of range deletes.
    fn delete_ranges(&mut self) {
        for _ in 0..self.random.u8(1..4) {
            let (start, keys) = (self.random.u32(..self.next + 100), self.random.u32(1..100));
            let (start, end) = (self.key(start), self.key(start + keys));
            self.ingest.delete_range(&start, &end);
            self.model.delete_range(&start, &end);
        }
        self.ingest.end_layer().unwrap();
    }

    fn protect(&mut self) {
        let marks: Vec<u64> = self.savepoints.iter().map(|(mark, _)| *mark).collect();
        self.ingest.protect(&marks);
    }

    fn step(&mut self) {
        match self.random.u8(..24) {
            0..14 => self.add_messages(),
            14..17 => self.delete_ranges(),
            17 | 18 => {
                self.savepoints.push((self.ingest.mark(), self.model.clone()));
                self.protect();
            }
            19 if !self.savepoints.is_empty() => {
                let kept = self.random.usize(..self.savepoints.len());
                self.savepoints.truncate(kept + 1);
                let (mark, model) = self.savepoints[kept].clone();
                self.ingest.keep(mark);
                self.model = model;
                self.protect();
            }
            20 | 21 if !self.savepoints.is_empty() => {
                let kept = self.random.usize(..self.savepoints.len());
                self.savepoints.truncate(kept);
                self.protect();
            }
            _ => self.merge(),
        }
        if self.random.bool() {
            self.merge();
        }
    }

    /// Runs some slices of merges, and installs their results.
    fn merge(&mut self) {
        for _ in 0..self.random.u32(..60) {
            if self.ingest.is_merge_due() {
                let before = self.ingest.layers();
                self.ingest.arrange_merges().unwrap();
                self.installed += u64::from(self.ingest.layers() < before);
            }
            let Some(merge) = self.ingest.running_merge() else {
                break;
            };
            merge.step(self.random.usize(1..200)).unwrap();
            if self.random.u8(..16) == 0 {
                self.seen.push(merge);
            }
        }
        // A thread may still run a slice of a merge that a rollback has ended.
        if self.random.u8(..4) == 0 && !self.seen.is_empty() {
            let stale = self.seen.swap_remove(self.random.usize(..self.seen.len()));
            stale.step(100).unwrap();
        }
    }

    /// Compares lookups and walks with the model.
    fn compare(&self) {
        let now_ms = [0, EXPIRY_MS - 1, EXPIRY_MS, EXPIRY_MS + 5][self.model.keys.len() % 4];
        let operator = Some(&AppendOperator as _);
        for number in 0..self.next + 50 {
            let key = self.key(number);
            let mut gather = LookupState::new(MAX_SEQUENCE, now_ms, operator);
            self.ingest.gather(LookupKey::new(&key), &mut gather).unwrap();
            let (found, expected) = (effect_of(gather), self.model.effect(&key, now_ms));
            // The model does not contain keys that are only covered by range deletes.
            if expected != ModelEffect::Nothing || found != ModelEffect::Value(None) {
                assert_eq!(found, expected, "{}", key.escape_ascii());
            }
        }
        for direction in [MergeDirection::Forward, MergeDirection::Backward] {
            let mut walk = self.ingest.walk(&KeyRange::everything(), direction);
            let (mut left, mut last) = (self.model.unhidden(), None::<Vec<u8>>);
            let mut gather = LookupState::new(MAX_SEQUENCE, now_ms, operator);
            while let Some(key) = walk.next(&mut gather).unwrap().map(<[u8]>::to_vec) {
                let is_next = last.as_ref().is_none_or(|last| match direction {
                    MergeDirection::Forward => *last < key,
                    MergeDirection::Backward => *last > key,
                });
                assert!(is_next, "{} follows {last:?}", key.escape_ascii());
                let next = LookupState::new(MAX_SEQUENCE, now_ms, operator);
                let found = effect_of(std::mem::replace(&mut gather, next));
                assert_eq!(found, self.model.effect(&key, now_ms), "{}", key.escape_ascii());
                left.remove(&key[..]);
                last = Some(key);
            }
            assert!(left.is_empty(), "a walk leaves out {left:?}");
        }
    }
}

/// Runs a history of `steps` steps in an ingest into a new structure, and compares the ingest with
/// a model. Then drops or attaches the ingest. Returns the number of merges whose results were
/// installed.
///
/// # Panics
/// If the ingest or the structure differs from the model, or if space is lost.
pub fn layer_history<S: StructureSubject>(subject: &S, store: Store, seed: u64, steps: usize) -> u64 {
    let store = Arc::new(store);
    let home = StructureContext {
        store: Arc::clone(&store),
        schema: subject.schema(),
        horizon: Arc::new(GcHorizon::default()),
    };
    let dictionary = subject.create(home).unwrap();
    let provisional = || store.usage().0.total().provisional_bytes;
    let before = provisional();
    let mut history = LayerHistory {
        random: fastrand::Rng::with_seed(seed),
        ingest: subject.ingest(&dictionary).unwrap(),
        model: LayerModel::default(),
        savepoints: Vec::new(),
        seen: Vec::new(),
        is_ascending: seed.is_multiple_of(3),
        next: 0,
        installed: 0,
    };
    for step in 0..steps {
        history.step();
        if step % 16 == 0 {
            history.compare();
        }
    }
    history.compare();
    let LayerHistory {
        mut ingest,
        model,
        random: mut end,
        seen,
        installed,
        ..
    } = history;
    if end.u8(..4) == 0 {
        drop((ingest, seen));
        assert_eq!(provisional(), before, "a rollback returns the space");
        return installed;
    }
    let running = ingest.running_merge();
    ingest.prepare(1).unwrap();
    ingest.attach(1).unwrap();
    // The structure may free the extents of the layers, so no merge reads them any more.
    for merge in running.into_iter().chain(seen) {
        assert_eq!(merge.step(1).unwrap(), StepProgress::Done);
    }
    assert_eq!(provisional(), before, "only results of merges are attached");
    compare_attached(subject, &dictionary, &model);
    installed
}

/// Compares lookups in a structure and a walk through it with the model of an ingest that was
/// attached to it when it was empty.
fn compare_attached<S: StructureSubject>(subject: &S, dictionary: &S::Dictionary, model: &LayerModel) {
    let stack: Arc<MemtableStack> = Arc::default();
    for key in model.keys.keys() {
        let expected = match model.effect(key, 0) {
            ModelEffect::Nothing | ModelEffect::DeletedLater => None,
            ModelEffect::Value(value) => value,
            ModelEffect::Operand(operand) => Some(operand),
        };
        let found = subject.get(dictionary, &stack, key).unwrap();
        assert_eq!(found, expected, "{}", key.escape_ascii());
    }
    while let Some(mut step) = dictionary.next_step().unwrap() {
        while step.poll(1000).unwrap() == StepProgress::More {}
    }
    let (at, everything) = (dictionary.cut(), KeyRange::everything());
    let mut walk = subject.walk(dictionary, stack, everything, MergeDirection::Forward, at);
    let mut found = BTreeMap::new();
    while let Some((key, value)) = walk.next().unwrap() {
        found.insert(key.to_vec(), value.to_vec());
    }
    let expected = model.keys.keys().filter_map(|key| {
        let value = match model.effect(key, 0) {
            ModelEffect::Value(value) => value?,
            ModelEffect::Operand(operand) => operand,
            ModelEffect::Nothing | ModelEffect::DeletedLater => return None,
        };
        Some((key.clone(), value))
    });
    assert_eq!(found, expected.collect(), "the structure has what the ingest had");
}
