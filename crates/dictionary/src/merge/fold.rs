//! Folding, which replaces the messages of a key by as few messages as possible (invariants G2 to
//! G5).

use super::chain::{ChainElement, OperandChain, has_passed};
use super::{CompactionFilter, FilterCandidate, FilterVerdict, MergeOperator};
use alluvium_base::{Message, MessageKind, SequenceNumber};
use std::sync::Arc;

/// Whether there is data older than the sources of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OlderData {
    /// There is none: the sources contain every older message of the range.
    None,
    /// Older messages may exist outside the sources, so the merged messages must still hide them or
    /// fold with them.
    Elsewhere,
}

/// The rule for which messages a merge may drop. It is fixed when the merge is planned.
#[derive(Clone, Debug)]
pub struct FoldRule {
    /// The oldest sequence number at which a reader may still read: the lower of the oldest
    /// snapshot and the visible watermark.
    pub horizon: SequenceNumber,
    /// The sequence numbers of the snapshots and the visible watermark, in ascending order,
    /// possibly including the horizon. Every reader reads at one of these, at the horizon, or above
    /// all of them.
    pub readers: Arc<[SequenceNumber]>,
    /// Whether older messages may exist outside the sources of the merge.
    pub older: OlderData,
    /// The current time in milliseconds of the caller's clock. Values that expire at or before this
    /// time count as deleted.
    pub now_ms: u64,
}

impl FoldRule {
    /// Returns the highest sequence number at which a reader may see messages that are older than a
    /// delete committed at `sequence`, without seeing the delete itself.
    #[must_use]
    pub fn below_band_of(&self, sequence: SequenceNumber) -> SequenceNumber {
        debug_assert!(sequence > 0, "a commit has a number");
        match self.band(sequence) {
            None => sequence - 1,
            Some(band) => band.floor.unwrap_or(0),
        }
    }

    /// Returns the band of a message that was committed at `sequence` (G2). Returns `None` if the
    /// message is newer than every sequence number at which readers are known to read.
    fn band(&self, sequence: SequenceNumber) -> Option<VisibilityBand> {
        if sequence <= self.horizon {
            return Some(VisibilityBand {
                reader: self.horizon,
                floor: None,
            });
        }
        debug_assert!(self.readers.is_sorted(), "readers in order");
        let above = self.readers.partition_point(|&reader| reader < sequence);
        let before = above.checked_sub(1).map_or(0, |before| self.readers[before]);
        Some(VisibilityBand {
            reader: *self.readers.get(above)?,
            floor: Some(before.max(self.horizon)),
        })
    }
}

/// A visibility band: a range of sequence numbers whose messages every reader sees either all or
/// not at all.
#[derive(Clone, Copy, Debug)]
struct VisibilityBand {
    /// Sequence number of the oldest reader that sees the band.
    reader: SequenceNumber,
    /// Sequence number of the newest reader that does not see the band, or `None` if every reader
    /// sees it.
    floor: Option<SequenceNumber>,
}

/// A message that remains once a key's messages have been folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoldedMessage<'a> {
    /// Commit sequence number of the message, or 0 if no reader can see an older version of the
    /// key.
    pub sequence: SequenceNumber,
    pub kind: MessageKind,
    /// Expiry time of a put, or 0 if it never expires. Time of a timed delete.
    pub expires_ms: u64,
    pub operand: &'a [u8],
    /// Index of the input message from which the operand was taken unchanged, counted from the
    /// newest. `None` if there is no such message.
    pub number: Option<usize>,
}

/// Folds the messages of one key after another. A merge uses one folder for all its keys, in order
/// to reuse memory.
#[derive(Debug)]
pub struct MessageFolder<'op> {
    rule: &'op FoldRule,
    operator: Option<&'op dyn MergeOperator>,
    /// Whether the current band is the oldest one, so that no reader sees only older messages.
    is_oldest: bool,
    /// The user's compaction filter, and the key without the prefix of its keyspace.
    filter: Option<(&'op dyn CompactionFilter, &'op [u8])>,
    /// The operands of the pending merge messages, newest first, concatenated.
    chain: Vec<u8>,
    ends: Vec<usize>,
    /// The pending timed deletes, newest first: how many of the operands are newer, and the time.
    timed: Vec<(usize, u64)>,
    folded: Vec<u8>,
}

/// What has been found in the current band.
#[derive(Clone, Copy)]
enum BandState {
    Nothing,
    /// Merge messages and timed deletes without a base so far, with the sequence number of the
    /// newest.
    Merges(SequenceNumber),
    Done,
}

impl<'op> MessageFolder<'op> {
    /// Creates a folder. Without a merge operator, a merge counts as a put of its operand.
    #[must_use]
    pub fn new(rule: &'op FoldRule, operator: Option<&'op dyn MergeOperator>) -> MessageFolder<'op> {
        MessageFolder {
            rule,
            operator,
            is_oldest: false,
            filter: None,
            chain: Vec::new(),
            ends: Vec::new(),
            timed: Vec::new(),
            folded: Vec::new(),
        }
    }

    /// Applies the compaction filter to the next key (G5), and passes it `key` as the key.
    #[must_use]
    pub fn filtered(mut self, filter: &'op dyn CompactionFilter, key: &'op [u8]) -> MessageFolder<'op> {
        self.filter = Some((filter, key));
        self
    }

    #[must_use]
    pub fn rule(&self) -> &FoldRule {
        self.rule
    }

    /// Folds the messages of one key, which must be passed from newest to oldest. Passes the
    /// remaining messages to `emit` in the same order.
    ///
    /// `deleted` maps a sequence number to the newest range delete at or before it that covers the
    /// key.
    pub fn fold<'m>(
        &mut self,
        messages: impl IntoIterator<Item = Message<'m>>,
        deleted: impl Fn(SequenceNumber) -> Option<SequenceNumber>,
        mut emit: impl FnMut(FoldedMessage<'_>),
    ) {
        // The current band, and the newest range delete that the band's oldest reader sees.
        let mut current: Option<(VisibilityBand, Option<SequenceNumber>)> = None;
        let mut below = BandState::Nothing;
        for (number, message) in messages.into_iter().enumerate() {
            let sequence = message.sequence;
            debug_assert!(
                current.is_none_or(|(band, _)| sequence <= band.reader),
                "messages of a key come newest first"
            );
            let (band, hidden) = match current {
                Some(same) if same.0.floor.is_none_or(|floor| sequence > floor) => same,
                _ => {
                    // The pending merges belong to the newer band. Some readers see the older
                    // messages without these merges, so emit the merges separately.
                    if let BandState::Merges(newest) = below {
                        self.emit_chain(newest, &mut emit);
                    }
                    below = BandState::Nothing;
                    let Some(band) = self.rule.band(sequence) else {
                        emit(whole(&message, number));
                        continue;
                    };
                    self.is_oldest = band.floor.is_none();
                    *current.insert((band, deleted(band.reader)))
                }
            };
            below = match below {
                // No reader can see older messages of this band.
                BandState::Done if band.floor.is_none() => break,
                BandState::Done => BandState::Done,
                // The range delete hides all remaining messages of the band, so the merges above it
                // have no base. The range delete itself is stored separately from the runs'
                // records, or dropped if there is no older data.
                _ if hidden.is_some_and(|deleted| sequence < deleted) => {
                    if let BandState::Merges(newest) = below {
                        self.finish(newest, None, &mut emit);
                    }
                    BandState::Done
                }
                BandState::Nothing => self.first(&message, number, &mut emit),
                BandState::Merges(newest) => self.under_merges(newest, &message, number, &mut emit),
            };
        }
        if let BandState::Merges(newest) = below {
            self.end(newest, &mut emit);
        }
    }

    /// Processes the newest message of a band and returns the band's new state.
    fn first(
        &mut self,
        message: &Message<'_>,
        number: usize,
        emit: &mut impl FnMut(FoldedMessage<'_>),
    ) -> BandState {
        self.chain.clear();
        self.ends.clear();
        self.timed.clear();
        match message.kind {
            MessageKind::Merge if self.operator.is_some() => {
                self.push(message.operand);
                return BandState::Merges(message.sequence);
            }
            MessageKind::TimedDelete => {
                return self.timed_delete(message.sequence, message, number, emit);
            }
            MessageKind::Put | MessageKind::Merge if !self.is_expired(message) => {
                self.emit_put(&whole(message, number), emit);
            }
            MessageKind::Put | MessageKind::Merge | MessageKind::Delete => {
                self.emit_tombstone(message.sequence, emit);
            }
        }
        BandState::Done
    }

    /// Processes a message below merge messages and timed deletes that have no base yet.
    fn under_merges(
        &mut self,
        newest: SequenceNumber,
        message: &Message<'_>,
        number: usize,
        emit: &mut impl FnMut(FoldedMessage<'_>),
    ) -> BandState {
        match message.kind {
            MessageKind::Merge if self.operator.is_some() => {
                self.push(message.operand);
                return BandState::Merges(newest);
            }
            MessageKind::TimedDelete => return self.timed_delete(newest, message, number, emit),
            MessageKind::Put | MessageKind::Merge if !self.is_expired(message) => {
                self.upon(newest, message, number, emit);
            }
            MessageKind::Put | MessageKind::Merge | MessageKind::Delete => {
                self.finish(newest, None, emit);
            }
        }
        BandState::Done
    }

    /// Adds the elements of a timed delete to the pending ones. If its time has passed, older
    /// messages count as deleted.
    fn timed_delete(
        &mut self,
        newest: SequenceNumber,
        message: &Message<'_>,
        number: usize,
        emit: &mut impl FnMut(FoldedMessage<'_>),
    ) -> BandState {
        let elements = OperandChain::elements(message.operand, message.expires_ms);
        let is_operand = |element: &ChainElement<'_>| matches!(element, ChainElement::Operand(_));
        if self.operator.is_none() && elements.iter().any(is_operand) {
            // The operator of a dropped keyspace is not known. An operand then counts as a put, so
            // readers see nothing below it.
            if !self.timed.is_empty() {
                self.emit_chain(newest, emit);
            }
            emit(whole(message, number));
            return BandState::Done;
        }
        for element in elements.iter().rev() {
            match *element {
                ChainElement::Operand(operand) => self.push(operand),
                ChainElement::DeletedAt(time_ms) if has_passed(time_ms, self.rule.now_ms) => {
                    self.finish(newest, None, emit);
                    return BandState::Done;
                }
                ChainElement::DeletedAt(time_ms) => self.timed.push((self.ends.len(), time_ms)),
            }
        }
        BandState::Merges(newest)
    }

    /// Folds the pending messages into the put below them, as far as possible.
    fn upon(
        &mut self,
        newest: SequenceNumber,
        put: &Message<'_>,
        number: usize,
        emit: &mut impl FnMut(FoldedMessage<'_>),
    ) {
        if self.timed.is_empty() {
            // The merges apply to the put until it expires, and to nothing afterwards, so keep
            // both. Also keep both if the operator rejects the put, in which case readers of the
            // key receive an error.
            if put.expires_ms != 0 || self.refuses(put) {
                self.emit_chain(newest, emit);
                self.emit_below(put, number, emit);
            } else {
                self.finish(newest, Some(put.operand), emit);
            }
            return;
        }
        let mut chain = self.pending();
        let oldest = match chain.oldest() {
            Some(_) if self.refuses(put) => None,
            _ => chain.take_oldest(put.expires_ms),
        };
        let Some((operand, expires_ms)) = oldest else {
            self.emit_chain(newest, emit);
            self.emit_below(put, number, emit);
            return;
        };
        let mut base = FoldedMessage {
            kind: MessageKind::Put,
            expires_ms,
            ..whole(put, number)
        };
        let mut folded = std::mem::take(&mut self.folded);
        if let Some(operand) = operand {
            folded.clear();
            folded.extend_from_slice(put.operand);
            self.operator().fold(&mut folded, &operand);
            (base.operand, base.number) = (&folded, None);
        }
        if chain.is_empty() {
            base.sequence = newest;
            self.emit_put(&base, emit);
        } else {
            // The put keeps its own sequence number, so that the two messages have different ones.
            emit_message(&chain, newest, emit);
            emit(base);
        }
        self.folded = folded;
    }

    /// Emits a put below a chain that is not folded into it.
    fn emit_below(&self, put: &Message<'_>, number: usize, emit: &mut impl FnMut(FoldedMessage<'_>)) {
        emit(FoldedMessage {
            kind: MessageKind::Put,
            sequence: self.settled(put.sequence),
            ..whole(put, number)
        });
    }

    /// Handles merge messages that have no base when the sources end. A range delete cannot serve
    /// as their base here, because messages newer than the range delete may exist outside the
    /// sources.
    fn end(&mut self, newest: SequenceNumber, emit: &mut impl FnMut(FoldedMessage<'_>)) {
        if self.rule.older == OlderData::None {
            self.finish(newest, None, emit);
            return;
        }
        self.emit_chain(newest, emit);
    }

    /// Emits the pending messages as a single message.
    fn emit_chain(&mut self, newest: SequenceNumber, emit: &mut impl FnMut(FoldedMessage<'_>)) {
        if !self.timed.is_empty() {
            return emit_message(&self.pending(), newest, emit);
        }
        self.fold_chain(None);
        emit(FoldedMessage {
            sequence: newest,
            kind: MessageKind::Merge,
            expires_ms: 0,
            operand: &self.folded,
            number: None,
        });
    }

    /// Folds the pending messages into their base, a value that does not expire or none, and emits
    /// the result. `base` must be `None` if there are pending timed deletes.
    fn finish(
        &mut self,
        newest: SequenceNumber,
        base: Option<&[u8]>,
        emit: &mut impl FnMut(FoldedMessage<'_>),
    ) {
        if !self.timed.is_empty() {
            debug_assert!(base.is_none(), "a base of timed deletes is handled elsewhere");
            return self.finish_timed(newest, emit);
        }
        if self.ends.is_empty() {
            return self.emit_tombstone(newest, emit);
        }
        self.fold_chain(base);
        let put = FoldedMessage {
            sequence: newest,
            kind: MessageKind::Put,
            expires_ms: 0,
            operand: &self.folded,
            number: None,
        };
        self.emit_put(&put, emit);
    }

    /// Emits the pending messages, at least one of which is a timed delete, if they have no base.
    fn finish_timed(&mut self, newest: SequenceNumber, emit: &mut impl FnMut(FoldedMessage<'_>)) {
        let mut chain = self.pending();
        chain.forget_base();
        if chain.is_empty() {
            return self.emit_tombstone(newest, emit);
        }
        if chain.is_timed() {
            // Older data must stay hidden, also where this merge does not see it.
            if self.rule.older == OlderData::Elsewhere || !self.is_oldest {
                chain.delete_base();
            }
            return emit_message(&chain, newest, emit);
        }
        let put = FoldedMessage {
            sequence: newest,
            kind: MessageKind::Put,
            expires_ms: 0,
            operand: chain.newest().unwrap_or_default(),
            number: None,
        };
        self.emit_put(&put, emit);
    }

    /// Returns the pending operands and timed deletes as a chain.
    fn pending(&self) -> OperandChain {
        let mut chain = OperandChain::default();
        let mut timed = self.timed.iter().rev().peekable();
        for index in (0..=self.ends.len()).rev() {
            while let Some((_, time_ms)) = timed.next_if(|(newer, _)| *newer == index) {
                chain.delete_at(*time_ms, self.operator);
            }
            if let Some(newer) = index.checked_sub(1) {
                let start = newer.checked_sub(1).map_or(0, |before| self.ends[before]);
                chain.merge(&self.chain[start..self.ends[newer]], self.operator());
            }
        }
        chain
    }

    fn operator(&self) -> &'op dyn MergeOperator {
        self.operator.expect("operands are kept only with an operator")
    }

    /// Emits the put that remains of a band. In the oldest band, applies the compaction filter
    /// first.
    fn emit_put(&self, put: &FoldedMessage<'_>, emit: &mut impl FnMut(FoldedMessage<'_>)) {
        debug_assert_ne!(put.kind, MessageKind::Delete, "a delete has no value");
        let filter = self.filter.filter(|_| self.is_oldest);
        let verdict = filter.map_or(FilterVerdict::Keep, |(filter, key)| {
            filter.decide(&FilterCandidate {
                key,
                value: put.operand,
                expires_ms: put.expires_ms,
                now_ms: self.rule.now_ms,
            })
        });
        let (operand, number) = match &verdict {
            FilterVerdict::Keep => (put.operand, put.number),
            FilterVerdict::Replace(value) => (&value[..], None),
            FilterVerdict::Remove => return self.emit_tombstone(put.sequence, emit),
        };
        emit(FoldedMessage {
            sequence: self.settled(put.sequence),
            kind: MessageKind::Put,
            operand,
            number,
            ..*put
        });
    }

    fn emit_tombstone(&self, sequence: SequenceNumber, emit: &mut impl FnMut(FoldedMessage<'_>)) {
        if self.rule.older == OlderData::Elsewhere || !self.is_oldest {
            emit(FoldedMessage {
                sequence,
                kind: MessageKind::Delete,
                expires_ms: 0,
                operand: &[],
                number: None,
            });
        }
    }

    /// Returns the sequence number to store with a remaining message: 0 if no reader can see an
    /// older version (G4), and `sequence` otherwise.
    fn settled(&self, sequence: SequenceNumber) -> SequenceNumber {
        match self.rule.older {
            OlderData::None if self.is_oldest => 0,
            OlderData::None | OlderData::Elsewhere => sequence,
        }
    }

    fn is_expired(&self, message: &Message<'_>) -> bool {
        message.expires_ms != 0 && message.expires_ms <= self.rule.now_ms
    }

    /// Returns whether the merge operator rejects the value of `put` as a base.
    fn refuses(&self, put: &Message<'_>) -> bool {
        self.operator
            .is_some_and(|operator| operator.check_base(put.operand).is_err())
    }

    fn push(&mut self, operand: &[u8]) {
        debug_assert!(
            self.operator.is_some(),
            "a chain of merges is kept only with an operator"
        );
        debug_assert_eq!(
            self.ends.last().copied().unwrap_or(0),
            self.chain.len(),
            "operands follow each other"
        );
        self.chain.extend_from_slice(operand);
        self.ends.push(self.chain.len());
    }

    /// Folds the pending operands, oldest first, into the base if there is one.
    fn fold_chain(&mut self, base: Option<&[u8]>) {
        let operator = self.operator();
        debug_assert!(!self.ends.is_empty(), "a chain has operands");
        self.folded.clear();
        self.folded.extend_from_slice(base.unwrap_or(&[]));
        let mut begun = base.is_some();
        for index in (0..self.ends.len()).rev() {
            let start = if index == 0 { 0 } else { self.ends[index - 1] };
            let operand = &self.chain[start..self.ends[index]];
            if begun {
                operator.fold(&mut self.folded, operand);
            } else {
                self.folded.extend_from_slice(operand);
                begun = true;
            }
        }
    }
}

/// Emits the message that stores a chain.
fn emit_message(chain: &OperandChain, sequence: SequenceNumber, emit: &mut impl FnMut(FoldedMessage<'_>)) {
    chain.as_message(|message| {
        emit(FoldedMessage {
            sequence,
            number: None,
            kind: message.kind,
            expires_ms: message.expires_ms,
            operand: message.operand,
        });
    });
}

/// Converts a message that is kept as it is.
fn whole<'a>(message: &Message<'a>, number: usize) -> FoldedMessage<'a> {
    let Message {
        sequence,
        kind,
        expires_ms,
        operand,
    } = *message;
    FoldedMessage {
        sequence,
        kind,
        expires_ms,
        operand,
        number: Some(number),
    }
}
