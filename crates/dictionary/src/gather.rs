//! What is known of a key while its messages come, newest first, until older ones make no
//! difference.

use crate::batch::LongValues;
use crate::fetch;
use crate::found::{Found, Part, Room};
use crate::key::Key;
use crate::memtable::Memtable;
use crate::merge::{BadOperand, Operator};
use crate::record::{Record, Value};
use crate::values::ValuePointer;
use alluvium_base::{Kind, Message, Sequence};
use alluvium_storage::Result;
use std::ops::ControlFlow;
use std::task::{Poll, ready};

/// The value of a key, or none.
pub type Answer = Option<Vec<u8>>;

/// What is known of a key so far: it is fed messages newest first, from memtables and then from the
/// tree, until it needs no more.
///
/// ```
/// use alluvium_base::{Message, message::LAST};
/// use alluvium_dictionary::memtable::Memtable;
/// use alluvium_dictionary::merge::Append;
/// use alluvium_dictionary::gather::Gather;
/// use alluvium_dictionary::key::Key;
///
/// let memtable = Memtable::new(1 << 20);
/// memtable.insert(b"river", Message::put(1, b"Elbe")).unwrap();
/// memtable.insert(b"river", Message::merge(2, b", Oder")).unwrap();
/// let mut gather = Gather::new(LAST, 0, Some(&Append));
/// gather.memtable(&memtable, Key::new(b"river"));
/// assert!(gather.is_decided());
/// assert_eq!(gather.value(), Some(&b"Elbe, Oder"[..]));
/// gather.reset(1, 0, Some(&Append));
/// gather.memtable(&memtable, Key::new(b"river"));
/// assert_eq!(gather.finish(), Some(b"Elbe".to_vec()));
/// ```
#[derive(Debug)]
pub struct Gather<'op> {
    /// The merge operator of the key's keyspace.
    pub operator: Option<&'op dyn Operator>,
    /// What was fed.
    pub known: Known,
}

/// What a [`Gather`] knows of a key, without the operator: for walks, which get it key by key.
#[derive(Debug, Default)]
pub struct Known {
    at: Sequence,
    now_ms: u64,
    /// The newest range delete that was met.
    deleted: Sequence,
    /// The newest message about the key itself that was met.
    newest: Sequence,
    /// Whether a record was met that expires, or has expired.
    expires: bool,
    /// Operands of merges, newest first, in the first `count`; the memory of the others is used
    /// again.
    operands: Vec<Vec<u8>>,
    count: usize,
    outcome: Outcome,
    /// The value, or the base that the operands are folded upon.
    value: Vec<u8>,
    /// The same as a part of a page, if it is one and may be.
    part: Option<Part>,
    /// Whether it may be.
    holds: bool,
    /// What becomes of a long value that no operand lies upon.
    long_values: LongValues,
}

/// Whether older messages make a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Outcome {
    #[default]
    Open,
    /// There is nothing below the operands.
    Nothing,
    /// There is a value below the operands.
    Value,
}

impl<'op> Gather<'op> {
    /// Creates a reader at `at`, to whom puts that expire at or before `now_ms` are gone, of a key
    /// with this merge operator. Without one a merge message stands for its operand.
    #[must_use]
    pub fn new(at: Sequence, now_ms: u64, operator: Option<&'op dyn Operator>) -> Gather<'op> {
        let mut known = Known::default();
        known.reset(at, now_ms);
        Gather { operator, known }
    }

    /// Starts again for another key, with the memory that it has.
    pub fn reset(&mut self, at: Sequence, now_ms: u64, operator: Option<&'op dyn Operator>) {
        self.operator = operator;
        self.known.reset(at, now_ms);
    }

    /// A long value may stay in the page of the cache where it is found: see [`Gather::found`].
    #[must_use]
    pub fn holding(mut self) -> Gather<'op> {
        self.known.holds = true;
        self
    }

    /// Takes a long value for an empty one, and does not read one outside leaves, unless operands
    /// of a merge lie upon it.
    #[must_use]
    pub fn leaving_out_long_values(mut self) -> Gather<'op> {
        self.known.long_values = LongValues::LeftOut;
        self
    }

    /// Returns whether it takes long values for empty ones.
    #[must_use]
    pub fn leaves_out_long_values(&self) -> bool {
        self.known.long_values == LongValues::LeftOut
    }

    /// Returns whether older messages make no difference any more.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.known.is_decided()
    }

    /// Returns whether nothing that was fed so far says anything about the key.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        let known = &self.known;
        !known.is_decided() && known.count == 0 && known.deleted == 0
    }

    /// Returns whether the answer may change by the mere passing of time.
    #[must_use]
    pub fn expires(&self) -> bool {
        self.known.expires
    }

    /// Returns the sequence number of the newest message that was fed, a range delete included;
    /// zero where there was none.
    #[must_use]
    pub fn newest(&self) -> Sequence {
        self.known.newest.max(self.known.deleted)
    }

    /// A range delete covers the key.
    pub fn range_deleted(&mut self, sequence: Option<Sequence>) {
        self.known.range_deleted(sequence);
    }

    /// Ends with a range delete that covers the key, if there is one: whatever is older than it,
    /// in this source or in one below, makes no difference. All newer messages were fed.
    ///
    /// ```
    /// use alluvium_base::{Message, message::LAST};
    /// use alluvium_dictionary::gather::Gather;
    /// use alluvium_dictionary::merge::Append;
    ///
    /// let mut gather = Gather::new(LAST, 0, Some(&Append));
    /// assert!(gather.message(&Message::merge(7, b"new")).is_continue());
    /// gather.end_at(Some(6));
    /// assert!(gather.is_decided());
    /// assert_eq!(gather.finish(), Some(b"new".to_vec()));
    /// ```
    pub fn end_at(&mut self, deleted: Option<Sequence>) {
        let seen = deleted.filter(|&sequence| sequence <= self.known.at());
        if let Some(sequence) = seen.filter(|_| !self.is_decided()) {
            let _ = self.message(&Message::delete(sequence));
            assert!(self.is_decided(), "below a deleted range is nothing");
        }
    }

    /// Returns the next older message, out of memory.
    pub fn message(&mut self, message: &Message<'_>) -> ControlFlow<()> {
        self.known.message(message, self.operator)
    }

    /// All that the next older memtable says of a key.
    pub fn memtable(&mut self, memtable: &Memtable, key: Key<'_>) {
        self.known.memtable(memtable, key, self.operator);
    }

    /// Takes the value that a cache above the dictionary has: all that is older than what was fed.
    /// `get` appends it, and returns whether there is one.
    #[inline]
    pub fn cached(&mut self, get: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        self.known.cached(get)
    }

    /// Returns the value, when there is nothing older than what was fed; none where the operator
    /// refuses it, which [`Gather::found`] tells. Nothing more can be fed then, until a reset.
    pub fn value(&mut self) -> Option<&[u8]> {
        self.known.settle(self.operator).ok().flatten()
    }

    /// As [`Gather::value`], but owned.
    #[must_use]
    pub fn finish(self) -> Answer {
        self.found().ok().flatten().map(Found::into_vec)
    }

    /// Returns the value of `key`, when there is nothing older than what was fed.
    ///
    /// # Errors
    /// [`Error::BadBase`](alluvium_storage::Error::BadBase) where the operator refuses the value
    /// that operands lie upon.
    pub fn answer(self, key: &[u8]) -> Result<Answer> {
        let found = self.found().map_err(|bad| bad.under_operands_of(key))?;
        Ok(found.map(Found::into_vec))
    }

    /// Returns the value, when there is nothing older than what was fed, without a copy where it is
    /// in a page.
    ///
    /// # Errors
    /// What the operator says of a value that operands lie upon and that it refuses.
    pub fn found(mut self) -> std::result::Result<Option<Found>, BadOperand> {
        if self.known.settle(self.operator)?.is_none() {
            return Ok(None);
        }
        let Known { value, part, .. } = self.known;
        Ok(Some(part.map_or_else(|| Found::from(value), Found::part)))
    }
}

impl Known {
    /// Starts the next key, with the memory that it has.
    pub fn reset(&mut self, at: Sequence, now_ms: u64) {
        (self.at, self.now_ms) = (at, now_ms);
        self.deleted = 0;
        self.newest = 0;
        self.expires = false;
        self.count = 0;
        self.outcome = Outcome::Open;
        self.part = None;
    }

    /// Returns the reader's sequence number.
    #[must_use]
    pub fn at(&self) -> Sequence {
        self.at
    }

    /// Returns whether older messages make no difference.
    #[must_use]
    #[inline]
    pub fn is_decided(&self) -> bool {
        self.outcome != Outcome::Open
    }

    /// As [`Gather::expires`].
    #[must_use]
    #[inline]
    pub fn expires(&self) -> bool {
        self.expires
    }

    /// Returns whether operands of a merge were met, which the value below them is needed for.
    #[must_use]
    pub fn has_operands(&self) -> bool {
        debug_assert!(self.count <= self.operands.len(), "{} operands", self.count);
        self.count > 0
    }

    /// Takes note of the newest range delete in a source that covers the key.
    #[inline]
    pub fn range_deleted(&mut self, sequence: Option<Sequence>) {
        self.deleted = self.deleted.max(sequence.unwrap_or(0));
    }

    /// Takes all messages of a key from the next older memtable.
    pub fn memtable(&mut self, memtable: &Memtable, key: Key<'_>, operator: Option<&dyn Operator>) {
        if self.is_decided() {
            return;
        }
        self.range_deleted(memtable.range_deleted(key.bytes(), self.at));
        debug_assert!(
            self.deleted <= self.at,
            "a reader sees no range delete from after its place"
        );
        for message in memtable.get(key, self.at) {
            if self.message(&message, operator).is_break() {
                break;
            }
        }
    }

    /// As [`Gather::cached`].
    #[inline]
    pub fn cached(&mut self, get: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        debug_assert!(!self.is_decided(), "what is decided takes no more");
        self.value.clear();
        if !get(&mut self.value) {
            return false;
        }
        // A range delete that was met is newer than all that the cache stands for.
        self.outcome = match self.deleted {
            0 => Outcome::Value,
            _ => Outcome::Nothing,
        };
        true
    }

    /// Takes the next older message, out of memory.
    pub fn message(&mut self, message: &Message<'_>, operator: Option<&dyn Operator>) -> ControlFlow<()> {
        let loaded = |_: &ValuePointer, _: Room<'_>| Poll::Ready(Ok(()));
        fetch::found(self.record(&Record::from(*message), operator, loaded))
            .expect("an operand in memory is loaded already")
    }

    /// The next older message, out of a run. `load` brings a value that is kept apart; where it
    /// fails or is pending nothing has changed.
    pub fn record(
        &mut self,
        record: &Record<'_>,
        operator: Option<&dyn Operator>,
        load: impl FnOnce(&ValuePointer, Room<'_>) -> Poll<Result<()>>,
    ) -> Poll<Result<ControlFlow<()>>> {
        if self.is_decided() {
            return Poll::Ready(Ok(ControlFlow::Break(())));
        }
        if record.sequence > self.at {
            return Poll::Ready(Ok(ControlFlow::Continue(())));
        }
        self.newest = self.newest.max(record.sequence);
        self.expires |= record.expires_ms != 0;
        let expired = record.expires_ms != 0 && record.expires_ms <= self.now_ms;
        if record.sequence < self.deleted || record.kind == Kind::Delete || expired {
            self.outcome = Outcome::Nothing;
            return Poll::Ready(Ok(ControlFlow::Break(())));
        }
        let is_operand = record.kind == Kind::Merge && operator.is_some();
        if is_operand && self.count == self.operands.len() {
            self.operands.push(Vec::new());
        }
        debug_assert!(
            self.outcome == Outcome::Open && self.part.is_none(),
            "what is decided takes no more"
        );
        debug_assert!(self.count <= self.operands.len(), "{} operands", self.count);
        // What operands are folded upon is copied.
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
            Value::Inline(inline) => bytes.extend_from_slice(long_values.shown(inline)),
            Value::Separate(_) if long_values == LongValues::LeftOut => {}
            Value::Separate(pointer) => ready!(load(pointer, Room { bytes, part }))?,
        }
        if is_operand {
            self.count += 1;
            return Poll::Ready(Ok(ControlFlow::Continue(())));
        }
        self.outcome = Outcome::Value;
        Poll::Ready(Ok(ControlFlow::Break(())))
    }

    /// Folds what there is, as if there were nothing older; the value, if there is one. Fails, and
    /// changes nothing, where the operator refuses the value
    /// that operands lie upon.
    pub fn settle(
        &mut self,
        operator: Option<&dyn Operator>,
    ) -> std::result::Result<Option<&[u8]>, BadOperand> {
        if self.count > 0
            && self.outcome == Outcome::Value
            && let Some(operator) = operator
        {
            operator.check_base(&self.value)?;
        }
        debug_assert!(
            self.count == 0 || self.part.is_none(),
            "operands are folded upon a copy"
        );
        let mut operands = self.operands[..self.count].iter_mut().rev();
        if self.outcome != Outcome::Value {
            self.outcome = Outcome::Nothing;
            if let Some(oldest) = operands.next() {
                std::mem::swap(&mut self.value, oldest);
                self.outcome = Outcome::Value;
            }
        }
        for operand in operands {
            operator
                .expect("operands are kept only where there is an operator")
                .fold(&mut self.value, operand);
        }
        debug_assert_ne!(self.outcome, Outcome::Open, "what is settled is decided");
        self.count = 0;
        let value = self.part.as_deref().unwrap_or(&self.value);
        Ok((self.outcome == Outcome::Value).then_some(value))
    }

    /// Returns the value that was settled, to be moved elsewhere: that of a reader who does not
    /// hold pages.
    pub fn value_mut(&mut self) -> &mut Vec<u8> {
        &mut self.value
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use crate::merge::Append;
    use alluvium_base::message::LAST;

    fn fed<'op>(messages: &[Message<'_>], operator: Option<&'op dyn Operator>) -> Gather<'op> {
        let mut gather = Gather::new(LAST, 0, operator);
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
        gather.reset(LAST, 0, Some(&Append));
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
        let with = |last: Message<'static>| fed(&[merges[0], merges[1], last], Some(&Append)).finish();
        assert_eq!(with(Message::put(7, b"a")), Some(b"abc".to_vec()));
        assert_eq!(with(Message::delete(7)), Some(b"bc".to_vec()));
        assert_eq!(with(Message::merge(7, b"a")), Some(b"abc".to_vec()));
        assert_eq!(fed(&merges, None).finish(), Some(b"c".to_vec()));
    }

    #[test]
    fn a_reset_leaves_nothing_of_the_key_before() {
        let mut gather = fed(&[Message::merge(9, b"c"), Message::put(8, b"b")], Some(&Append));
        gather.range_deleted(Some(20));
        gather.reset(LAST, 0, Some(&Append));
        assert!(!gather.is_decided());
        assert_eq!(gather.value(), None);
        gather.reset(LAST, 0, None);
        assert!(gather.message(&Message::put(1, b"x")).is_break());
        assert_eq!(gather.value(), Some(&b"x"[..]));
        assert_eq!(gather.value(), Some(&b"x"[..]));
    }

    #[test]
    fn long_values_are_left_out_unless_operands_lie_upon_them() {
        let long = vec![b'v'; 2000];
        let feed = |messages: &[Message<'_>], operator: Option<&'static dyn Operator>| {
            let mut gather = Gather::new(LAST, 0, operator).leaving_out_long_values();
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
            Some(&Append),
        );
        assert_eq!(merged.map(|value| value.len()), Some(2003));
    }

    #[test]
    fn it_tells_whether_it_was_touched_and_whether_time_changes_the_answer() {
        let mut gather = Gather::new(9, 5, Some(&Append));
        let _ = gather.message(&Message::put(10, b"later"));
        assert!(gather.is_untouched() && !gather.expires());
        gather.range_deleted(Some(3));
        assert!(!gather.is_untouched());
        gather.reset(9, 5, Some(&Append));
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
        let mut gather = Gather::new(LAST, 0, Some(&Append));
        gather.range_deleted(Some(5));
        assert!(gather.message(&Message::merge(6, b"a")).is_continue());
        assert!(gather.message(&Message::put(4, b"b")).is_break());
        assert_eq!(gather.finish(), Some(b"a".to_vec()));
    }
}
