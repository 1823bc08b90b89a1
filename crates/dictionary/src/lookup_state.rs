//! The state of a key during a lookup or a scan, to which the key's messages are added from newest
//! to oldest until older ones can no longer change the result.

use crate::batch::LongValues;
use crate::fetch;
use crate::key::LookupKey;
use crate::memtable::{Memtable, OperandRun, fold_into_first};
use crate::merge::{BadOperand, ChainElement, MergeOperator, OperandChain, has_passed};
use crate::pinned_value::{PageSlice, PinnedValue, ValueDestination};
use crate::record::{RecordValue, StoredRecord};
use crate::value_log::ValuePointer;
use alluvium_base::{Message, MessageKind, SequenceNumber};
use alluvium_storage::Result;
use std::ops::ControlFlow;
use std::task::{Poll, ready};

/// The value of a key, or `None` if the key has no value.
pub type LookupValue = Option<Vec<u8>>;

/// State of the lookup of one key. The key's messages are added from newest to oldest, first from
/// the memtables and then from the dictionary, until the result is known.
///
/// ```
/// use alluvium_base::{Message, message::MAX_SEQUENCE};
/// use alluvium_dictionary::memtable::Memtable;
/// use alluvium_dictionary::merge::AppendOperator;
/// use alluvium_dictionary::lookup_state::LookupState;
/// use alluvium_dictionary::key::LookupKey;
///
/// let memtable = Memtable::new(1 << 20);
/// memtable.insert(b"river", Message::put(1, b"Elbe")).unwrap();
/// memtable.insert(b"river", Message::merge(2, b", Oder")).unwrap();
/// let mut gather = LookupState::new(MAX_SEQUENCE, 0, Some(&AppendOperator));
/// gather.memtable(&memtable, LookupKey::new(b"river"));
/// assert!(gather.is_decided());
/// assert_eq!(gather.value(), Some(&b"Elbe, Oder"[..]));
/// gather.reset(1, 0, Some(&AppendOperator));
/// gather.memtable(&memtable, LookupKey::new(b"river"));
/// assert_eq!(gather.finish(), Some(b"Elbe".to_vec()));
/// ```
#[derive(Debug)]
pub struct LookupState<'op> {
    /// The merge operator of the key's keyspace.
    pub operator: Option<&'op dyn MergeOperator>,
    pub known: KeyState,
}

/// The state of a key without its merge operator, which a scan supplies for each key. Methods
/// without a comment correspond to those of [`LookupState`].
#[derive(Debug, Default)]
pub struct KeyState {
    at: SequenceNumber,
    now_ms: u64,
    /// Sequence number of the newest range delete found that covers the key, or 0.
    deleted: SequenceNumber,
    /// Sequence number of the newest point message found for the key, or 0.
    newest: SequenceNumber,
    /// Whether any of the messages found has an expiry time.
    expires: bool,
    /// The merge operands found, newest first, in the first `count` elements. The other elements
    /// are buffers kept for reuse.
    operands: Vec<Vec<u8>>,
    count: usize,
    /// The timed deletes found that have no effect yet, newest first: how many of the operands are
    /// newer, and the time.
    timed: Vec<(usize, u64)>,
    outcome: KeyOutcome,
    /// The value, or the base value that the operands apply to.
    value: Vec<u8>,
    /// Expiry time of the base value in milliseconds, or 0 if it never expires.
    expires_ms: u64,
    /// The value as a slice of a pinned page, if `holds` permits that and pinning is cheaper than
    /// copying.
    part: Option<PageSlice>,
    /// Whether the value may be returned as a slice of a pinned page instead of a copy.
    holds: bool,
    /// How to treat long values that no merge operand applies to.
    long_values: LongValues,
    /// Whether memtables may remember the operands that the reader folds.
    remembers: bool,
}

/// What is known about the value below the merge operands. Older messages matter only while this is
/// `Open`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum KeyOutcome {
    #[default]
    Open,
    /// There is no base value below the operands.
    Nothing,
    /// The base value below the operands is in `value`.
    Value,
}

impl<'op> LookupState<'op> {
    /// Creates the state of a key for a reader at the sequence number `at`, who does not see values
    /// that expire at or before `now_ms`. Without a merge operator, a merge counts as a put of its
    /// operand.
    #[must_use]
    pub fn new(
        at: SequenceNumber,
        now_ms: u64,
        operator: Option<&'op dyn MergeOperator>,
    ) -> LookupState<'op> {
        let mut known = KeyState::default();
        known.reset(at, now_ms);
        LookupState { operator, known }
    }

    /// Resets the state for another key, reusing its memory.
    pub fn reset(&mut self, at: SequenceNumber, now_ms: u64, operator: Option<&'op dyn MergeOperator>) {
        self.operator = operator;
        self.known.reset(at, now_ms);
    }

    /// Permits [`LookupState::found`] to return a long value as a slice of a pinned page instead of
    /// copying it.
    #[must_use]
    pub fn holding(mut self) -> LookupState<'op> {
        self.known.holds = true;
        self
    }

    /// Lets memtables remember what they make this reader fold. The reader must see every commit up
    /// to its sequence number: no message with a lower one may be inserted later.
    #[must_use]
    pub fn remembering_folds(mut self) -> LookupState<'op> {
        self.known.remembers = true;
        self
    }

    /// Replaces long values by empty ones, unless merge operands apply to them. A long value
    /// outside its leaf is not even read.
    #[must_use]
    pub fn leaving_out_long_values(mut self) -> LookupState<'op> {
        self.known.long_values = LongValues::LeftOut;
        self
    }

    /// Returns whether long values are replaced by empty ones.
    #[must_use]
    pub fn leaves_out_long_values(&self) -> bool {
        self.known.long_values == LongValues::LeftOut
    }

    /// Returns whether the result is known and older messages cannot change it.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.known.is_decided()
    }

    /// Returns whether the messages found only merge operands into an older value.
    #[must_use]
    pub fn only_merges(&self) -> bool {
        !self.is_decided() && !self.known.has_timed_deletes()
    }

    /// Returns whether no message for the key has been added so far.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        let known = &self.known;
        !known.is_decided() && known.count == 0 && known.timed.is_empty() && known.deleted == 0
    }

    /// Returns whether the result depends on the current time, because one of the messages found
    /// can expire.
    #[must_use]
    pub fn expires(&self) -> bool {
        self.known.expires
    }

    /// Returns the sequence number of the newest message found, including range deletes, or 0 if
    /// there is none.
    #[must_use]
    pub fn newest(&self) -> SequenceNumber {
        self.known.newest.max(self.known.deleted)
    }

    /// Adds the newest range delete in a source that covers the key, if there is one.
    pub fn range_deleted(&mut self, sequence: Option<SequenceNumber>) {
        self.known.range_deleted(sequence);
    }

    /// Ends the lookup at a range delete that covers the key, if there is one, because older
    /// messages in this source and in all older sources are irrelevant. The caller must already
    /// have added all messages that are newer than the range delete.
    ///
    /// ```
    /// use alluvium_base::{Message, message::MAX_SEQUENCE};
    /// use alluvium_dictionary::lookup_state::LookupState;
    /// use alluvium_dictionary::merge::AppendOperator;
    ///
    /// let mut gather = LookupState::new(MAX_SEQUENCE, 0, Some(&AppendOperator));
    /// assert!(gather.message(&Message::merge(7, b"new")).is_continue());
    /// gather.end_at(Some(6));
    /// assert!(gather.is_decided());
    /// assert_eq!(gather.finish(), Some(b"new".to_vec()));
    /// ```
    pub fn end_at(&mut self, deleted: Option<SequenceNumber>) {
        let seen = deleted.filter(|&sequence| sequence <= self.known.at());
        if let Some(sequence) = seen.filter(|_| !self.is_decided()) {
            let _ = self.message(&Message::delete(sequence));
            assert!(self.is_decided(), "below a deleted range is nothing");
        }
    }

    /// Adds the key's next older message, which is in memory.
    pub fn message(&mut self, message: &Message<'_>) -> ControlFlow<()> {
        self.known.message(message, self.operator)
    }

    /// Adds all messages of `key` in the next older memtable.
    pub fn memtable(&mut self, memtable: &Memtable, key: LookupKey<'_>) {
        self.known.memtable(memtable, key, self.operator);
    }

    /// Adds a value from a cache above the dictionary, which stands for all data older than the
    /// messages added so far. `get` appends the value to its argument, and returns whether the
    /// cache contains one.
    #[inline]
    pub fn cached(&mut self, get: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        self.known.cached(get)
    }

    /// Calls `visit` with messages that have the same effect as those added so far, oldest first: a
    /// put or a delete if the result is decided, and then the operands. Values that have expired at
    /// the time of the reader count as deleted. Their sequence numbers are 0. Must be called before
    /// the value is computed, and not for a reader that pins pages or omits long values.
    ///
    /// ```
    /// use alluvium_base::{Message, message::MAX_SEQUENCE};
    /// use alluvium_dictionary::lookup_state::LookupState;
    /// use alluvium_dictionary::merge::AppendOperator;
    ///
    /// let mut gather = LookupState::new(MAX_SEQUENCE, 0, Some(&AppendOperator));
    /// assert!(gather.message(&Message::merge(7, b"b")).is_continue());
    /// assert!(gather.message(&Message::put(6, b"a")).is_break());
    /// let mut messages = Vec::new();
    /// gather.visit_messages(|message| messages.push(message.operand.to_vec()));
    /// assert_eq!(messages, [b"a", b"b"]);
    /// ```
    pub fn visit_messages(&self, mut visit: impl FnMut(Message<'_>)) {
        let known = &self.known;
        debug_assert!(known.part.is_none(), "the value is not in a pinned page");
        match known.outcome {
            KeyOutcome::Open => {}
            KeyOutcome::Nothing => visit(Message::delete(0)),
            KeyOutcome::Value => visit(Message {
                expires_ms: known.expires_ms,
                ..Message::put(0, &known.value)
            }),
        }
        let mut timed = known.timed.iter().rev().peekable();
        for index in (0..=known.count).rev() {
            while let Some((_, time_ms)) = timed.next_if(|(newer, _)| *newer == index) {
                visit(Message::timed_delete(0, *time_ms));
            }
            if let Some(newer) = index.checked_sub(1) {
                visit(Message::merge(0, &known.operands[newer]));
            }
        }
    }

    /// Returns the value, assuming that there are no older messages. Returns `None` if there is no
    /// value, or if the operator rejects the base value, which [`LookupState::found`] reports as an
    /// error. No messages may be added after this call until the state is reset.
    pub fn value(&mut self) -> Option<&[u8]> {
        self.known.settle(self.operator).ok().flatten()
    }

    /// Consumes the state and returns the result of [`LookupState::value`] as owned bytes.
    #[must_use]
    pub fn finish(self) -> LookupValue {
        self.found().ok().flatten().map(PinnedValue::into_vec)
    }

    /// Returns the value of `key`, assuming that there are no older messages.
    ///
    /// # Errors
    /// [`Error::BadBase`](alluvium_storage::Error::BadBase) if the operator rejects the base value
    /// to which the merge operands apply.
    pub fn answer(self, key: &[u8]) -> Result<LookupValue> {
        let found = self.found().map_err(|bad| bad.under_operands_of(key))?;
        Ok(found.map(PinnedValue::into_vec))
    }

    /// Returns the value, assuming that there are no older messages. Does not copy a value that is
    /// a slice of a pinned page.
    ///
    /// # Errors
    /// The operator's error if it rejects the base value to which the merge operands apply.
    pub fn found(mut self) -> std::result::Result<Option<PinnedValue>, BadOperand> {
        if self.known.settle(self.operator)?.is_none() {
            return Ok(None);
        }
        let KeyState { value, part, .. } = self.known;
        Ok(Some(
            part.map_or_else(|| PinnedValue::from(value), PinnedValue::part),
        ))
    }
}

impl KeyState {
    /// Resets the state for the next key, for a reader at `at` and the time `now_ms`, reusing its
    /// memory.
    pub fn reset(&mut self, at: SequenceNumber, now_ms: u64) {
        (self.at, self.now_ms) = (at, now_ms);
        self.deleted = 0;
        self.newest = 0;
        self.expires = false;
        self.expires_ms = 0;
        self.count = 0;
        self.timed.clear();
        self.outcome = KeyOutcome::Open;
        self.part = None;
    }

    /// Returns the sequence number at which the reader reads.
    #[must_use]
    pub fn at(&self) -> SequenceNumber {
        self.at
    }

    /// Returns whether older messages can no longer change the result.
    #[must_use]
    #[inline]
    pub fn is_decided(&self) -> bool {
        self.outcome != KeyOutcome::Open
    }

    #[must_use]
    #[inline]
    pub fn expires(&self) -> bool {
        self.expires
    }

    /// Returns whether there are merge operands that apply to an older value.
    #[must_use]
    pub fn has_operands(&self) -> bool {
        debug_assert!(self.count <= self.operands.len(), "{} operands", self.count);
        self.count > 0
    }

    /// Returns whether there are timed deletes that will delete an older value.
    #[must_use]
    pub fn has_timed_deletes(&self) -> bool {
        !self.timed.is_empty()
    }

    /// Adds `sequence`, the newest range delete in a source that covers the key, if there is one.
    #[inline]
    pub fn range_deleted(&mut self, sequence: Option<SequenceNumber>) {
        self.deleted = self.deleted.max(sequence.unwrap_or(0));
    }

    /// Adds all messages of a key from the next older memtable.
    pub fn memtable(
        &mut self,
        memtable: &Memtable,
        key: LookupKey<'_>,
        operator: Option<&dyn MergeOperator>,
    ) {
        if self.is_decided() {
            return;
        }
        self.range_deleted(memtable.range_deleted(key.bytes(), self.at));
        debug_assert!(
            self.deleted <= self.at,
            "a reader sees no range delete from after its place"
        );
        match operator {
            Some(operator) => self.merged_messages(memtable, key, operator),
            None => {
                let mut versions = memtable.get(key, self.at);
                let _ = versions.try_for_each(|message| self.message(&message, None));
            }
        }
    }

    /// Adds all messages of a key whose merges are folded. Uses the fold of operands that an
    /// earlier reader has left, and leaves one if there are many.
    fn merged_messages(&mut self, memtable: &Memtable, key: LookupKey<'_>, operator: &dyn MergeOperator) {
        let mut versions = memtable.get(key, self.at);
        let fold = memtable.remembered_fold(key);
        // A fold with a message that a range delete hides is of no use.
        let fold = fold.filter(|fold| fold.oldest >= self.deleted);
        let (first, mut run) = (self.count, OperandRun::before(&versions));
        while let Some(message) = versions.next() {
            let fold = fold.as_ref().filter(|fold| fold.newest == message.sequence);
            if let Some(fold) = fold {
                let _ = self.message(&Message::merge(fold.newest, &fold.operand), Some(operator));
                versions = memtable.after_fold(fold, self.at);
                run.add_fold(fold, &versions);
                continue;
            }
            if self.message(&message, Some(operator)).is_break() {
                break;
            }
            run.add(&message, &versions);
        }
        if self.remembers && run.is_long() {
            let end = first + run.operands();
            fold_into_first(&mut self.operands[first..end], operator);
            memtable.remember_fold(key, &run, &self.operands[first]);
            // The fold stands for the run. The buffers of the others remain for reuse.
            let folded = run.operands() - 1;
            self.operands[first + 1..self.count].rotate_left(folded);
            self.count -= folded;
            // Timed deletes lie before the run or behind it, because they end it.
            let behind = self.timed.iter_mut().filter(|(newer, _)| *newer >= end);
            behind.for_each(|(newer, _)| *newer -= folded);
        }
    }

    #[inline]
    pub fn cached(&mut self, get: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        debug_assert!(!self.is_decided(), "what is decided takes no more");
        self.value.clear();
        if !get(&mut self.value) {
            return false;
        }
        // The cached value stands for data that is older than any range delete found so far.
        self.outcome = match self.deleted {
            0 => KeyOutcome::Value,
            _ => KeyOutcome::Nothing,
        };
        true
    }

    /// Adds the key's next older message, which is in memory.
    pub fn message(
        &mut self,
        message: &Message<'_>,
        operator: Option<&dyn MergeOperator>,
    ) -> ControlFlow<()> {
        let loaded = |_: &ValuePointer, _: ValueDestination<'_>| Poll::Ready(Ok(()));
        fetch::unwrap_ready(self.record(&StoredRecord::from(*message), operator, loaded))
            .expect("an operand in memory is loaded already")
    }

    /// Adds the key's next older message, which is stored in a run. `load` loads a value that is
    /// stored outside its leaf. If `load` fails or is pending, the state does not change, and the
    /// caller must add the same message again.
    pub fn record(
        &mut self,
        record: &StoredRecord<'_>,
        operator: Option<&dyn MergeOperator>,
        load: impl FnOnce(&ValuePointer, ValueDestination<'_>) -> Poll<Result<()>>,
    ) -> Poll<Result<ControlFlow<()>>> {
        if self.is_decided() {
            return Poll::Ready(Ok(ControlFlow::Break(())));
        }
        if record.sequence > self.at {
            return Poll::Ready(Ok(ControlFlow::Continue(())));
        }
        self.newest = self.newest.max(record.sequence);
        self.expires |= record.expires_ms != 0;
        if record.sequence < self.deleted || record.kind == MessageKind::Delete {
            self.outcome = KeyOutcome::Nothing;
            return Poll::Ready(Ok(ControlFlow::Break(())));
        }
        if record.kind == MessageKind::TimedDelete {
            return self.timed_delete(record, operator, load);
        }
        if record.expires_ms != 0 && record.expires_ms <= self.now_ms {
            self.outcome = KeyOutcome::Nothing;
            return Poll::Ready(Ok(ControlFlow::Break(())));
        }
        let is_operand = record.kind == MessageKind::Merge && operator.is_some();
        if is_operand && self.count == self.operands.len() {
            self.operands.push(Vec::new());
        }
        debug_assert!(
            self.outcome == KeyOutcome::Open && self.part.is_none(),
            "what is decided takes no more"
        );
        debug_assert!(self.count <= self.operands.len(), "{} operands", self.count);
        // The operands are folded into their base value, so it must be copied.
        let holds = self.holds && !is_operand && self.count == 0;
        let (bytes, part) = match is_operand {
            true => (&mut self.operands[self.count], None),
            false => (&mut self.value, holds.then_some(&mut self.part)),
        };
        bytes.clear();
        let long_values = match is_operand || self.count > 0 {
            true => LongValues::Read,
            false => self.long_values,
        };
        match &record.value {
            RecordValue::Inline(inline) => bytes.extend_from_slice(long_values.shown(inline)),
            RecordValue::Separate(_) if long_values == LongValues::LeftOut => {}
            RecordValue::Separate(pointer) => ready!(load(pointer, ValueDestination { bytes, part }))?,
        }
        if is_operand {
            self.count += 1;
            return Poll::Ready(Ok(ControlFlow::Continue(())));
        }
        self.outcome = KeyOutcome::Value;
        self.expires_ms = record.expires_ms;
        Poll::Ready(Ok(ControlFlow::Break(())))
    }

    /// Adds a timed delete and the operands in it. `load` is used as by [`KeyState::record`].
    #[cold]
    fn timed_delete(
        &mut self,
        record: &StoredRecord<'_>,
        operator: Option<&dyn MergeOperator>,
        load: impl FnOnce(&ValuePointer, ValueDestination<'_>) -> Poll<Result<()>>,
    ) -> Poll<Result<ControlFlow<()>>> {
        let mut loaded = Vec::new();
        let operand = match &record.value {
            RecordValue::Inline(operand) => *operand,
            RecordValue::Separate(pointer) => {
                let (bytes, part) = (&mut loaded, None);
                ready!(load(pointer, ValueDestination { bytes, part }))?;
                &loaded
            }
        };
        let elements = OperandChain::elements(operand, record.expires_ms);
        for element in elements.iter().rev() {
            match *element {
                ChainElement::Operand(operand) if operator.is_some() => {
                    if self.count == self.operands.len() {
                        self.operands.push(Vec::new());
                    }
                    self.operands[self.count].clear();
                    self.operands[self.count].extend_from_slice(operand);
                    self.count += 1;
                }
                ChainElement::Operand(operand) => {
                    self.value.clear();
                    self.value.extend_from_slice(self.long_values.shown(operand));
                    self.outcome = KeyOutcome::Value;
                    self.expires_ms = 0;
                }
                ChainElement::DeletedAt(time_ms) if has_passed(time_ms, self.now_ms) => {
                    self.outcome = KeyOutcome::Nothing;
                }
                ChainElement::DeletedAt(time_ms) => self.timed.push((self.count, time_ms)),
            }
            if self.is_decided() {
                return Poll::Ready(Ok(ControlFlow::Break(())));
            }
        }
        Poll::Ready(Ok(ControlFlow::Continue(())))
    }

    /// Returns the time, in milliseconds since 1970, from which on the key has no value unless
    /// something is written to it, or 0 if it keeps its value. Operands that are newer than an
    /// expiring value or a timed delete remain after it, so the key then keeps a value.
    #[must_use]
    pub fn ends_ms(&self) -> u64 {
        let is_bare = self.count == 0 && self.outcome == KeyOutcome::Value && self.expires_ms != 0;
        let deletes = self.timed.iter().filter(|(newer, _)| *newer == 0);
        let ends = deletes.map(|(_, time_ms)| *time_ms);
        ends.chain(is_bare.then_some(self.expires_ms)).min().unwrap_or(0)
    }

    /// Applies the merge operands, assuming that there are no older messages. Returns the value, or
    /// `None` if there is none. If the operator rejects the base value, returns its error and
    /// changes nothing.
    pub fn settle(
        &mut self,
        operator: Option<&dyn MergeOperator>,
    ) -> std::result::Result<Option<&[u8]>, BadOperand> {
        if self.count > 0
            && self.outcome == KeyOutcome::Value
            && let Some(operator) = operator
        {
            operator.check_base(&self.value)?;
        }
        debug_assert!(
            self.count == 0 || self.part.is_none(),
            "operands are folded upon a copy"
        );
        let mut operands = self.operands[..self.count].iter_mut().rev();
        if self.outcome != KeyOutcome::Value {
            self.outcome = KeyOutcome::Nothing;
            if let Some(oldest) = operands.next() {
                std::mem::swap(&mut self.value, oldest);
                self.outcome = KeyOutcome::Value;
            }
        }
        for operand in operands {
            operator
                .expect("operands are kept only where there is an operator")
                .fold(&mut self.value, operand);
        }
        debug_assert_ne!(self.outcome, KeyOutcome::Open, "what is settled is decided");
        self.count = 0;
        let value = self.part.as_deref().unwrap_or(&self.value);
        Ok((self.outcome == KeyOutcome::Value).then_some(value))
    }

    /// Returns the buffer that contains the value after [`KeyState::settle`], so that the caller
    /// can move it out. Must not be called for a reader that pins pages.
    pub fn value_mut(&mut self) -> &mut Vec<u8> {
        &mut self.value
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use crate::merge::AppendOperator;
    use alluvium_base::message::MAX_SEQUENCE;

    fn fed<'op>(messages: &[Message<'_>], operator: Option<&'op dyn MergeOperator>) -> LookupState<'op> {
        let mut gather = LookupState::new(MAX_SEQUENCE, 0, operator);
        for message in messages {
            if gather.message(message).is_break() {
                break;
            }
        }
        gather
    }

    #[test]
    fn the_newest_message_is_told_whatever_it_says() {
        assert_eq!(fed(&[], None).newest(), 0);
        let mut gather = fed(&[Message::delete(9), Message::put(8, b"a")], None);
        assert_eq!(gather.newest(), 9);
        gather.reset(MAX_SEQUENCE, 0, Some(&AppendOperator));
        assert_eq!(gather.newest(), 0);
        for message in [Message::merge(7, b"b"), Message::merge(6, b"a")] {
            assert!(gather.message(&message).is_continue());
        }
        assert_eq!(gather.newest(), 7);
        gather.range_deleted(Some(12));
        assert_eq!(gather.newest(), 12);
    }

    #[test]
    fn merges_fold_upon_what_is_below_them_oldest_first() {
        let merges = [Message::merge(9, b"c"), Message::merge(8, b"b")];
        let with =
            |last: Message<'static>| fed(&[merges[0], merges[1], last], Some(&AppendOperator)).finish();
        assert_eq!(with(Message::put(7, b"a")), Some(b"abc".to_vec()));
        assert_eq!(with(Message::delete(7)), Some(b"bc".to_vec()));
        assert_eq!(with(Message::merge(7, b"a")), Some(b"abc".to_vec()));
        assert_eq!(fed(&merges, None).finish(), Some(b"c".to_vec()));
    }

    #[test]
    fn a_reset_leaves_nothing_of_the_key_before() {
        let mut gather = fed(
            &[Message::merge(9, b"c"), Message::put(8, b"b")],
            Some(&AppendOperator),
        );
        gather.range_deleted(Some(20));
        gather.reset(MAX_SEQUENCE, 0, Some(&AppendOperator));
        assert!(!gather.is_decided());
        assert_eq!(gather.value(), None);
        gather.reset(MAX_SEQUENCE, 0, None);
        assert!(gather.message(&Message::put(1, b"x")).is_break());
        assert_eq!(gather.value(), Some(&b"x"[..]));
        assert_eq!(gather.value(), Some(&b"x"[..]));
    }

    #[test]
    fn long_values_are_left_out_unless_operands_lie_upon_them() {
        let long = vec![b'v'; 2000];
        let feed = |messages: &[Message<'_>], operator: Option<&'static dyn MergeOperator>| {
            let mut gather = LookupState::new(MAX_SEQUENCE, 0, operator).leaving_out_long_values();
            for message in messages {
                let _ = gather.message(message);
            }
            gather.finish()
        };
        assert_eq!(feed(&[Message::put(1, &long)], None), Some(Vec::new()));
        assert_eq!(feed(&[Message::put(1, b"short")], None), Some(b"short".to_vec()));
        assert_eq!(feed(&[Message::delete(2), Message::put(1, &long)], None), None);
        let merged = feed(
            &[Message::merge(2, b"end"), Message::put(1, &long)],
            Some(&AppendOperator),
        );
        assert_eq!(merged.map(|value| value.len()), Some(2003));
    }

    #[test]
    fn it_tells_whether_it_was_touched_and_whether_time_changes_the_answer() {
        let mut gather = LookupState::new(9, 5, Some(&AppendOperator));
        let _ = gather.message(&Message::put(10, b"later"));
        assert!(gather.is_untouched() && !gather.expires());
        gather.range_deleted(Some(3));
        assert!(!gather.is_untouched());
        gather.reset(9, 5, Some(&AppendOperator));
        let _ = gather.message(&Message::merge(9, b"c"));
        assert!(!gather.is_untouched() && !gather.expires());
        let expired = Message {
            expires_ms: 5,
            ..Message::put(8, b"b")
        };
        let _ = gather.message(&expired);
        assert!(gather.expires());
        assert_eq!(gather.value(), Some(&b"c"[..]));
        gather.reset(9, 5, None);
        assert!(gather.is_untouched() && !gather.expires());
    }

    #[test]
    fn a_range_delete_hides_what_is_older() {
        let mut gather = LookupState::new(MAX_SEQUENCE, 0, Some(&AppendOperator));
        gather.range_deleted(Some(5));
        assert!(gather.message(&Message::merge(6, b"a")).is_continue());
        assert!(gather.message(&Message::put(4, b"b")).is_break());
        assert_eq!(gather.finish(), Some(b"a".to_vec()));
    }
}
