//! Folding: the messages of one key are replaced by as few messages as possible (invariants G2 to
//! G5).

use super::{CompactionFilter, FilterCandidate, FilterVerdict, MergeOperator};
use alluvium_base::{Message, MessageKind, SequenceNumber};
use std::sync::Arc;

/// Whether data exists that is older than the sources of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OlderData {
    /// No older data exists: the sources contain every older message of the range.
    None,
    /// Older messages may exist outside the sources. The merged messages must continue to hide them
    /// or to be folded with them.
    Elsewhere,
}

/// The rule that says which messages a merge may drop. It is determined once, when the merge is
/// planned.
#[derive(Clone, Debug)]
pub struct FoldRule {
    /// The oldest sequence number at which a reader may still read: the minimum of the oldest
    /// snapshot and the visible watermark.
    pub horizon: SequenceNumber,
    /// The sequence numbers of the snapshots and the visible watermark, in ascending order. The
    /// horizon may be among them. Every reader reads at one of these, at the horizon, or above all
    /// of them.
    pub readers: Arc<[SequenceNumber]>,
    /// Whether older messages may exist outside the sources of the merge.
    pub older: OlderData,
    /// The current time in milliseconds of the caller's clock. Values that expire at or before this
    /// time are treated as deleted.
    pub now_ms: u64,
}

impl FoldRule {
    /// Returns the sequence number up to which readers may still see messages below a delete that
    /// was committed at `sequence`. Every reader that could see a message between this number and
    /// `sequence` also sees the delete, which hides the message.
    #[must_use]
    pub fn below_band_of(&self, sequence: SequenceNumber) -> SequenceNumber {
        debug_assert!(sequence > 0, "a commit has a number");
        match self.band(sequence) {
            None => sequence - 1,
            Some(band) => band.floor.unwrap_or(0),
        }
    }

    /// Returns the band of a message that was committed at `sequence` (G2). Returns `None` if the
    /// message is newer than the newest sequence number at which readers are known to read.
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

/// A visibility band: a range of sequence numbers such that every reader sees either all messages
/// in it or none of them.
#[derive(Clone, Copy, Debug)]
struct VisibilityBand {
    /// Sequence number of the oldest reader that sees the messages of the band.
    reader: SequenceNumber,
    /// Sequence number of the newest reader that does not see the messages of the band; `None` if
    /// there is no such reader.
    floor: Option<SequenceNumber>,
}

/// A message that remains after the messages of a key have been folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoldedMessage<'a> {
    /// Commit sequence number of the message; 0 if no reader can see an older version of the key.
    pub sequence: SequenceNumber,
    pub kind: MessageKind,
    /// Expiry time of a put; 0 means that it never expires.
    pub expires_ms: u64,
    pub operand: &'a [u8],
    /// Index of the input message from which the operand was taken unchanged, counted from the
    /// newest. `None` if the operand was not taken from an input message.
    pub number: Option<usize>,
}

/// Folds the messages of one key after another. The same folder is used for all keys of a merge, so
/// that its allocated memory is reused.
#[derive(Debug)]
pub struct MessageFolder<'op> {
    rule: &'op FoldRule,
    operator: Option<&'op dyn MergeOperator>,
    /// Whether the current band is the oldest one. If it is, no reader sees only older messages.
    is_oldest: bool,
    /// The user's compaction filter, and the key without the prefix of its keyspace.
    filter: Option<(&'op dyn CompactionFilter, &'op [u8])>,
    /// The operands of the pending merge messages, newest first, concatenated.
    chain: Vec<u8>,
    ends: Vec<usize>,
    folded: Vec<u8>,
}

/// What was found so far in the current band.
#[derive(Clone, Copy)]
enum BandState {
    Nothing,
    /// Merge messages for which no base was found yet, with the sequence number of the newest.
    Merges(SequenceNumber),
    Done,
}

impl<'op> MessageFolder<'op> {
    /// Creates a folder. Without a merge operator, a merge message is treated as a put of its
    /// operand.
    #[must_use]
    pub fn new(rule: &'op FoldRule, operator: Option<&'op dyn MergeOperator>) -> MessageFolder<'op> {
        MessageFolder {
            rule,
            operator,
            is_oldest: false,
            filter: None,
            chain: Vec::new(),
            ends: Vec::new(),
            folded: Vec::new(),
        }
    }

    /// Sets the compaction filter that is applied (G5) to the next key. The filter receives `key`
    /// as the key.
    #[must_use]
    pub fn filtered(mut self, filter: &'op dyn CompactionFilter, key: &'op [u8]) -> MessageFolder<'op> {
        self.filter = Some((filter, key));
        self
    }

    #[must_use]
    pub fn rule(&self) -> &FoldRule {
        self.rule
    }

    /// Folds the messages of one key, which are passed from newest to oldest. Passes the remaining
    /// messages to `emit` in the same order.
    ///
    /// `deleted` receives a sequence number. It returns the newest range delete at or before that
    /// number that covers the key.
    pub fn fold<'m>(
        &mut self,
        messages: impl IntoIterator<Item = Message<'m>>,
        deleted: impl Fn(SequenceNumber) -> Option<SequenceNumber>,
        mut emit: impl FnMut(FoldedMessage<'_>),
    ) {
        // The current band, and the newest range delete that the oldest reader of the band sees.
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
                    // The pending merge messages belong to the newer band. Some readers see the
                    // older messages but not these, so they are emitted without being folded into
                    // the older ones.
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
                // Older messages of this band are invisible to every reader.
                BandState::Done if band.floor.is_none() => break,
                BandState::Done => BandState::Done,
                // The range delete hides all remaining messages of the band. It is stored
                // separately from the runs' records, or dropped if no older data exists. The merge
                // messages above it are folded without a base.
                _ if hidden.is_some_and(|deleted| sequence < deleted) => {
                    self.finish(below, None, &mut emit);
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

    /// Processes the newest message of a band and returns the new state of the band.
    fn first(
        &mut self,
        message: &Message<'_>,
        number: usize,
        emit: &mut impl FnMut(FoldedMessage<'_>),
    ) -> BandState {
        match message.kind {
            MessageKind::Merge if self.operator.is_some() => {
                self.chain.clear();
                self.ends.clear();
                self.push(message.operand);
                return BandState::Merges(message.sequence);
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

    /// Processes a message that follows merge messages for which no base was found yet.
    fn under_merges(
        &mut self,
        newest: SequenceNumber,
        message: &Message<'_>,
        number: usize,
        emit: &mut impl FnMut(FoldedMessage<'_>),
    ) -> BandState {
        match message.kind {
            MessageKind::Merge => {
                self.push(message.operand);
                return BandState::Merges(newest);
            }
            MessageKind::Put
                if !self.is_expired(message) && (message.expires_ms != 0 || self.refuses(message)) =>
            {
                // The merge messages apply to the put until it expires, and to no value afterwards.
                // Both must therefore be kept. The same applies if the operator rejects the put;
                // readers of the key then receive an error.
                self.emit_chain(newest, emit);
                emit(FoldedMessage {
                    sequence: self.settled(message.sequence),
                    ..whole(message, number)
                });
            }
            MessageKind::Put if !self.is_expired(message) => {
                self.finish(BandState::Merges(newest), Some(message.operand), emit);
            }
            MessageKind::Put | MessageKind::Delete => self.finish(BandState::Merges(newest), None, emit),
        }
        BandState::Done
    }

    /// Processes the end of the sources while merge messages have no base yet. A range delete is
    /// not used as their base here, because messages between it and them may exist outside the
    /// sources.
    fn end(&mut self, newest: SequenceNumber, emit: &mut impl FnMut(FoldedMessage<'_>)) {
        if self.rule.older == OlderData::None {
            self.finish(BandState::Merges(newest), None, emit);
            return;
        }
        self.emit_chain(newest, emit);
    }

    /// Emits the pending merge messages as a single merge message.
    fn emit_chain(&mut self, newest: SequenceNumber, emit: &mut impl FnMut(FoldedMessage<'_>)) {
        self.fold_chain(None);
        emit(FoldedMessage {
            sequence: newest,
            kind: MessageKind::Merge,
            expires_ms: 0,
            operand: &self.folded,
            number: None,
        });
    }

    /// Folds the pending merge messages into their base, or without a base if there is none, and
    /// emits the result as a put.
    fn finish(&mut self, below: BandState, base: Option<&[u8]>, emit: &mut impl FnMut(FoldedMessage<'_>)) {
        let BandState::Merges(newest) = below else { return };
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

    /// Emits the put that remains of a band. If the band is the oldest one, the compaction filter
    /// is applied first.
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

    /// Returns the sequence number with which a remaining message is stored: 0 if no reader can see
    /// an older version (G4), and `sequence` otherwise.
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

    /// Folds the pending operands, oldest first. If there is a base, they are folded into it.
    fn fold_chain(&mut self, base: Option<&[u8]>) {
        let operator = self
            .operator
            .expect("a chain of merges is kept only with an operator");
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

/// Converts a message that is not folded with others.
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
