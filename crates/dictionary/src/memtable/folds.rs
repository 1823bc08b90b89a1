//! The folds of merge operands that readers of a memtable remember.
//!
//! A reader of a key folds the key's operands. A counter that has thousands of them in the memtable
//! would cost each reader thousands of steps, so a reader that has folded many remembers the
//! result, and the next one folds only what was added since. A reader of an older snapshot folds
//! what it sees.
//!
//! A table has a fixed number of places, each for one fold. Readers never wait for it: while
//! another reader changes a place, they fold the operands themselves.

use super::KeyVersionIter;
use super::Memtable;
use crate::key::LookupKey;
use crate::merge::MergeOperator;
use alluvium_base::{Message, MessageKind, SequenceNumber};
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of operands from which on a reader remembers their fold.
/// Tuning: `16` since 2026-11-30; an unlink took 386 microseconds through a mount in a directory
/// with 4,000 new names, and takes 140.
const MANY_OPERANDS: usize = 16;

/// Returns the number of operands from which on a reader remembers their fold. Debug builds
/// remember short runs, so that the tests that compare with a model reach the folds.
fn many_operands() -> usize {
    if cfg!(debug_assertions) { 2 } else { MANY_OPERANDS }
}

/// Longest key and operand of a fold, in bytes together. Not a tuning parameter.
const LONGEST: usize = 256;

/// Number of memtable bytes per place. Not a tuning parameter.
const BYTES_PER_PLACE: usize = 64 << 10;

/// Most places of a memtable. Not a tuning parameter.
const MOST_PLACES: usize = 256;

/// The fold of a run of records of one key that follow each other in its list (M8).
#[derive(Debug)]
pub(crate) struct OperandFold {
    key: Box<[u8]>,
    pub(crate) operand: Box<[u8]>,
    /// Sequence number of the newest record of the run.
    pub(crate) newest: SequenceNumber,
    /// Sequence number of the oldest record of the run.
    pub(crate) oldest: SequenceNumber,
    /// The record that follows the run.
    next: u32,
}

/// A place of the table.
#[derive(Debug, Default)]
struct FoldPlace {
    /// Hash of the fold's key, or 0 if there has been no fold.
    hash: AtomicU64,
    fold: RwLock<Option<Arc<OperandFold>>>,
}

/// The remembered folds of a memtable.
#[derive(Debug)]
pub(super) struct FoldTable {
    places: Box<[FoldPlace]>,
}

impl FoldTable {
    /// Creates the table of a memtable that is limited to `limit` bytes.
    pub(super) fn new(limit: usize) -> FoldTable {
        let places = (limit / BYTES_PER_PLACE).clamp(1, MOST_PLACES);
        FoldTable {
            places: (0..places).map(|_| FoldPlace::default()).collect(),
        }
    }

    /// Returns the most memory that the table can use, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.places.len() * (size_of::<FoldPlace>() + size_of::<OperandFold>() + LONGEST)
    }

    fn place(&self, hash: u64) -> &FoldPlace {
        &self.places[(hash >> 32) as usize % self.places.len()]
    }

    fn find(&self, key: LookupKey<'_>) -> Option<Arc<OperandFold>> {
        let place = self.place(key.hash());
        if place.hash.load(Ordering::Relaxed) != key.hash() {
            return None;
        }
        let fold = place.fold.try_read()?;
        fold.as_ref().filter(|fold| *fold.key == *key.bytes()).cloned()
    }

    fn remember(&self, key: LookupKey<'_>, fold: OperandFold) {
        let place = self.place(key.hash());
        let Some(mut before) = place.fold.try_write() else {
            return;
        };
        let is_newer = before
            .as_ref()
            .is_none_or(|before| before.key != fold.key || before.newest < fold.newest);
        if is_newer {
            *before = Some(Arc::new(fold));
            place.hash.store(key.hash(), Ordering::Relaxed);
        }
    }
}

/// The merge operands at the beginning of a key's messages, while a reader walks over them.
#[derive(Debug)]
pub(crate) struct OperandRun<'m> {
    newest: SequenceNumber,
    oldest: SequenceNumber,
    /// Number of records that the reader has visited itself.
    visited: usize,
    /// Number of operands, of which a remembered fold is one.
    operands: usize,
    /// The messages that follow the run.
    rest: KeyVersionIter<'m>,
    has_ended: bool,
}

impl<'m> OperandRun<'m> {
    /// Creates an empty run before the messages of a key.
    pub(crate) fn before(rest: &KeyVersionIter<'m>) -> OperandRun<'m> {
        OperandRun {
            newest: 0,
            oldest: 0,
            visited: 0,
            operands: 0,
            rest: rest.clone(),
            has_ended: false,
        }
    }

    /// Adds the next message, after which `rest` follows. The first message that is no operand, or
    /// that can expire, ends the run.
    pub(crate) fn add(&mut self, message: &Message<'_>, rest: &KeyVersionIter<'m>) {
        self.has_ended |= message.kind != MessageKind::Merge || message.expires_ms != 0;
        if !self.has_ended {
            self.extend(message.sequence, message.sequence, rest);
            self.visited += 1;
        }
    }

    /// Adds the records of a fold, after which `rest` follows.
    pub(crate) fn add_fold(&mut self, fold: &OperandFold, rest: &KeyVersionIter<'m>) {
        if !self.has_ended {
            self.extend(fold.newest, fold.oldest, rest);
        }
    }

    fn extend(&mut self, newest: SequenceNumber, oldest: SequenceNumber, rest: &KeyVersionIter<'m>) {
        if self.newest == 0 {
            self.newest = newest;
        }
        self.oldest = oldest;
        self.operands += 1;
        self.rest = rest.clone();
    }

    /// Returns the number of operands of the run, of which a remembered fold is one.
    pub(crate) fn operands(&self) -> usize {
        self.operands
    }

    /// Returns whether the run is worth remembering.
    pub(crate) fn is_long(&self) -> bool {
        self.visited >= many_operands()
    }
}

impl Memtable {
    /// Returns the remembered fold of a key, if there is one. It replaces the messages of the key
    /// from the one with its newest sequence number on, for readers that see all of them.
    pub(crate) fn remembered_fold(&self, key: LookupKey<'_>) -> Option<Arc<OperandFold>> {
        self.folds.find(key)
    }

    /// Returns the messages that follow a fold of this memtable.
    pub(crate) fn after_fold<'m>(&'m self, fold: &OperandFold, at: SequenceNumber) -> KeyVersionIter<'m> {
        KeyVersionIter::new(&self.arena, fold.next, at)
    }

    /// Remembers the fold of a run. The reader sees every commit up to its sequence number, so that
    /// no record is linked into the run any more (M8).
    pub(crate) fn remember_fold(&self, key: LookupKey<'_>, run: &OperandRun<'_>, operand: &[u8]) {
        if key.bytes().len() + operand.len() > LONGEST {
            return;
        }
        debug_assert!(run.oldest <= run.newest, "M2: newest first");
        let fold = OperandFold {
            key: key.bytes().into(),
            operand: operand.into(),
            newest: run.newest,
            oldest: run.oldest,
            next: run.rest.place(),
        };
        self.folds.remember(key, fold);
    }
}

/// Folds operands, of which the newest is first, into the first one.
pub(crate) fn fold_into_first(operands: &mut [Vec<u8>], operator: &dyn MergeOperator) {
    for index in (1..operands.len()).rev() {
        let (newer, older) = operands.split_at_mut(index);
        if let (Some(newer), Some(older)) = (newer.last_mut(), older.first_mut()) {
            operator.fold(older, newer);
            std::mem::swap(newer, older);
        }
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use crate::lookup_state::{LookupState, LookupValue};
    use crate::merge::{AddOperator, AppendOperator, BadOperand};
    use alluvium_base::message::MAX_SEQUENCE;
    use alluvium_storage::watermark::Watermark;
    use std::sync::atomic::AtomicUsize;

    fn read(
        memtable: &Memtable,
        key: &[u8],
        at: SequenceNumber,
        operator: &dyn MergeOperator,
    ) -> LookupValue {
        let mut gather = LookupState::new(at, 0, Some(operator)).remembering_folds();
        gather.memtable(memtable, LookupKey::new(key));
        gather.finish()
    }

    /// Adds, and counts how often.
    #[derive(Debug, Default)]
    struct CountingOperator(AtomicUsize);

    impl MergeOperator for CountingOperator {
        fn name(&self) -> &'static str {
            AddOperator.name()
        }

        fn check(&self, operand: &[u8]) -> Result<(), BadOperand> {
            AddOperator.check(operand)
        }

        fn fold(&self, older: &mut Vec<u8>, newer: &[u8]) {
            self.0.fetch_add(1, Ordering::Relaxed);
            AddOperator.fold(older, newer);
        }
    }

    #[test]
    fn a_reader_folds_only_what_was_added_since_the_one_before() {
        let memtable = Memtable::new(1 << 20);
        let operator = CountingOperator::default();
        memtable
            .insert(b"n", Message::put(1, &5i64.to_le_bytes()))
            .unwrap();
        let one = 1i64.to_le_bytes();
        for sequence in 2..=1001 {
            memtable.insert(b"n", Message::merge(sequence, &one)).unwrap();
        }
        let folds_of = |at: SequenceNumber, expected: i64| {
            let before = operator.0.load(Ordering::Relaxed);
            assert_eq!(
                read(&memtable, b"n", at, &operator),
                Some(expected.to_le_bytes().to_vec())
            );
            operator.0.load(Ordering::Relaxed) - before
        };
        assert_eq!(folds_of(1001, 1005), 1000);
        assert_eq!(folds_of(1001, 1005), 1, "the fold is applied to the put");
        for sequence in 1002..=1500 {
            memtable.insert(b"n", Message::merge(sequence, &one)).unwrap();
            let folds = folds_of(sequence, sequence as i64 + 4);
            assert!(folds <= many_operands() + 1, "{folds} folds at {sequence}");
        }
        assert_eq!(folds_of(700, 704), 699, "an older reader does not see the fold");
        assert!(folds_of(1500, 1504) <= many_operands() + 1);
    }

    /// Messages that were inserted, oldest first, and deleted ranges.
    #[derive(Default)]
    struct Inserted {
        messages: Vec<(MessageKind, SequenceNumber, u64, Vec<u8>)>,
        deleted: Vec<SequenceNumber>,
    }

    impl Inserted {
        fn read(&self, at: SequenceNumber, now_ms: u64) -> LookupValue {
            let mut gather = LookupState::new(at, now_ms, Some(&AppendOperator));
            gather.range_deleted(
                self.deleted
                    .iter()
                    .copied()
                    .filter(|&deleted| deleted <= at)
                    .max(),
            );
            for (kind, sequence, expires_ms, operand) in self.messages.iter().rev() {
                let message = Message {
                    kind: *kind,
                    sequence: *sequence,
                    expires_ms: *expires_ms,
                    operand,
                };
                if gather.message(&message).is_break() {
                    break;
                }
            }
            gather.finish()
        }
    }

    #[test]
    fn folds_change_no_answer() {
        let mut remembered = 0;
        for seed in 0..60 {
            let mut random = fastrand::Rng::with_seed(seed);
            let memtable = Memtable::new(1 << 20);
            let mut inserted = Inserted::default();
            let mut readers = vec![(1, 0)];
            for sequence in 1..400 {
                let operand = vec![b'a' + (sequence % 26) as u8; random.usize(..4)];
                let (kind, expires_ms) = match random.u32(..60) {
                    0 => (MessageKind::Put, random.u64(..3) * 100),
                    1 => (MessageKind::Delete, 0),
                    2 => (MessageKind::TimedDelete, random.u64(1..300)),
                    _ => (MessageKind::Merge, 0),
                };
                let operand = match kind {
                    MessageKind::TimedDelete => Vec::new(),
                    _ => operand,
                };
                if random.u32(..40) == 0 {
                    memtable.delete_range(b"k", b"l", sequence).unwrap();
                    inserted.deleted.push(sequence);
                } else {
                    let message = Message {
                        kind,
                        sequence,
                        expires_ms,
                        operand: &operand,
                    };
                    memtable.insert(b"key", message).unwrap();
                    inserted.messages.push((kind, sequence, expires_ms, operand));
                }
                if random.u32(..4) == 0 {
                    readers.push((sequence, random.u64(..300)));
                }
                // Readers of the newest state, and of states that lie long before it.
                let (at, now_ms) = readers[readers.len() - 1 - random.usize(..readers.len().min(12))];
                let mut gather = LookupState::new(at, now_ms, Some(&AppendOperator));
                if random.u32(..4) > 0 {
                    gather = gather.remembering_folds();
                }
                gather.memtable(&memtable, LookupKey::new(b"key"));
                let wanted = inserted.read(at, now_ms);
                assert_eq!(
                    gather.finish(),
                    wanted,
                    "seed {seed} at {at} of {sequence}, time {now_ms}"
                );
                let fold = memtable.remembered_fold(LookupKey::new(b"key"));
                remembered += usize::from(fold.is_some_and(|fold| fold.newest == at));
            }
        }
        assert!(remembered > 1000, "{remembered} folds");
    }

    #[test]
    fn readers_see_every_commit_while_others_write() {
        const COMMITS: u64 = 6000;
        let memtable = Memtable::new(4 << 20);
        let (next, visible) = (AtomicU64::new(1), Watermark::new(0));
        let one = 1i64.to_le_bytes();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    loop {
                        let sequence = next.fetch_add(1, Ordering::Relaxed);
                        if sequence > COMMITS {
                            break;
                        }
                        while !visible.has_room(sequence) {
                            std::thread::yield_now();
                        }
                        memtable.insert(b"n", Message::merge(sequence, &one)).unwrap();
                        visible.complete(sequence, sequence);
                    }
                });
                scope.spawn(|| {
                    let mut at = 0;
                    while at < COMMITS {
                        at = visible.completed();
                        let count = read(&memtable, b"n", at, &AddOperator);
                        let wanted = (at > 0).then(|| (at as i64).to_le_bytes().to_vec());
                        assert_eq!(count, wanted, "each commit adds one");
                    }
                });
            }
        });
    }

    #[test]
    fn long_folds_and_readers_of_what_is_not_visible_leave_nothing() {
        let memtable = Memtable::new(1 << 20);
        for sequence in 1..=100 {
            memtable
                .insert(b"text", Message::merge(sequence, b"twelve bytes"))
                .unwrap();
        }
        let key = LookupKey::new(b"text");
        assert_eq!(
            read(&memtable, b"text", 100, &AppendOperator).unwrap().len(),
            1200
        );
        assert!(memtable.remembered_fold(key).is_none());
        let mut newest = LookupState::new(MAX_SEQUENCE, 0, Some(&AppendOperator));
        newest.memtable(&memtable, key);
        assert_eq!(newest.finish().unwrap().len(), 1200);
        assert!(read(&memtable, b"text", 20, &AppendOperator).is_some());
        assert_eq!(memtable.remembered_fold(key).map(|fold| fold.newest), Some(20));
        assert_eq!(
            read(&memtable, b"text", 100, &AppendOperator).unwrap().len(),
            1200
        );
    }
}
