//! Folding of one key's messages into as few as possible (invariants G2 to G5).

use super::{CompactionFilter, FilterCandidate, FilterVerdict, MergeOperator};
use alluvium_base::{Message, MessageKind, SequenceNumber};
use std::sync::Arc;

/// Data older than the sources of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OlderData {
    /// None: the sources contain every older message of the range.
    None,
    /// Older messages may exist elsewhere. The result must continue to hide them or fold into them.
    Elsewhere,
}

/// What a merge may drop. Determined once, when the merge is planned.
#[derive(Clone, Debug)]
pub struct FoldRule {
    /// The oldest sequence number at which a reader may still read: the minimum of the oldest
    /// snapshot and the visible watermark.
    pub horizon: SequenceNumber,
    /// The snapshots and the visible watermark, ascending; may contain the horizon. Readers read at
    /// one of these, at the horizon, or above all of them.
    pub readers: Arc<[SequenceNumber]>,
    /// Whether older messages may exist elsewhere.
    pub older: OlderData,
    /// Current time in milliseconds of the caller's clock; puts that expire at or before it are
    /// treated as deleted.
    pub now_ms: u64,
}

impl FoldRule {
    /// Returns the sequence number up to which older messages may still matter below a delete
    /// committed at `sequence`. Messages between the two are hidden from every reader that could
    /// see them.
    #[must_use]
    pub fn below_band_of(&self, sequence: SequenceNumber) -> SequenceNumber {
        debug_assert!(sequence > 0, "a commit has a number");
        match self.band(sequence) {
            None => sequence - 1,
            Some(band) => band.floor.unwrap_or(0),
        }
    }

    /// Returns the band of a message (G2), or `None` if it was committed after the newest sequence
    /// number at which readers are known to read.
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

/// Messages of which every reader sees all or none.
#[derive(Clone, Copy, Debug)]
struct VisibilityBand {
    /// The oldest reader that sees them.
    reader: SequenceNumber,
    /// The newest reader that does not see them; `None` if there is no older reader.
    floor: Option<SequenceNumber>,
}

/// A message of a key that remains after folding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoldedMessage<'a> {
    /// Commit sequence number; 0 if no reader can see an older version.
    pub sequence: SequenceNumber,
    pub kind: MessageKind,
    /// Expiry time of a put; 0 means never.
    pub expires_ms: u64,
    pub operand: &'a [u8],
    /// Index of the input message with this operand, counted from the newest; `None` if the operand
    /// does not come from an input message.
    pub number: Option<usize>,
}

/// Folds the messages of one key after another. A folder is reused to keep its allocated memory.
#[derive(Debug)]
pub struct MessageFolder<'op> {
    rule: &'op FoldRule,
    operator: Option<&'op dyn MergeOperator>,
    /// Whether the current band is the oldest one, so that no reader sees anything older only.
    is_oldest: bool,
    /// User filter, and the key without its keyspace's prefix.
    filter: Option<(&'op dyn CompactionFilter, &'op [u8])>,
    /// Concatenated operands of the pending merges, newest first.
    chain: Vec<u8>,
    ends: Vec<usize>,
    folded: Vec<u8>,
}

/// State of the current band.
#[derive(Clone, Copy)]
enum BandState {
    Nothing,
    /// Merges without a base yet, with the sequence number of the newest.
    Merges(SequenceNumber),
    Done,
}

impl<'op> MessageFolder<'op> {
    /// Creates a folder. Without an operator, a merge message acts as a put of its operand.
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

    /// Sets the filter to apply (G5) to the next key, which is passed to the filter as `key`.
    #[must_use]
    pub fn filtered(mut self, filter: &'op dyn CompactionFilter, key: &'op [u8]) -> MessageFolder<'op> {
        self.filter = Some((filter, key));
        self
    }

    #[must_use]
    pub fn rule(&self) -> &FoldRule {
        self.rule
    }

    /// Folds the messages of one key, given newest first, and passes those that remain to `emit`,
    /// newest first.
    ///
    /// `deleted` returns the newest range delete at or before a sequence number that covers the
    /// key.
    pub fn fold<'m>(
        &mut self,
        messages: impl IntoIterator<Item = Message<'m>>,
        deleted: impl Fn(SequenceNumber) -> Option<SequenceNumber>,
        mut emit: impl FnMut(FoldedMessage<'_>),
    ) {
        // The current band, and the range delete that its oldest reader sees.
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
                    // A reader between the two bands sees the following messages without these
                    // merges.
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
                // Older messages in the band are invisible to every reader.
                BandState::Done if band.floor.is_none() => break,
                BandState::Done => BandState::Done,
                // All remaining messages of the band are hidden by the range delete, which is kept
                // alongside the runs (or is dropped if nothing older exists). The merges above it
                // are folded without a base.
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

    /// Handles the newest message of a band.
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

    /// Handles a message below merges that have no base yet.
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
                // The merges apply to the put until it expires, and to nothing afterwards, so both
                // must be kept. The same holds if the operator rejects the put: readers then
                // receive an error.
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

    /// Handles the end of the sources below merges without a base. A range delete does not finish
    /// them here, because messages between it and them may exist elsewhere.
    fn end(&mut self, newest: SequenceNumber, emit: &mut impl FnMut(FoldedMessage<'_>)) {
        if self.rule.older == OlderData::None {
            self.finish(BandState::Merges(newest), None, emit);
            return;
        }
        self.emit_chain(newest, emit);
    }

    /// Emits the pending merges as a single merge.
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

    /// Folds the pending merges into their base, if there is one, and emits the result as a put.
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

    /// Emits the put that remains of a band. In the oldest band, the filter is applied.
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

    /// Returns the sequence number of a remaining message: 0 if no reader can see an older version
    /// (G4).
    fn settled(&self, sequence: SequenceNumber) -> SequenceNumber {
        match self.rule.older {
            OlderData::None if self.is_oldest => 0,
            OlderData::None | OlderData::Elsewhere => sequence,
        }
    }

    fn is_expired(&self, message: &Message<'_>) -> bool {
        message.expires_ms != 0 && message.expires_ms <= self.rule.now_ms
    }

    /// Returns whether the operator rejects the value of a put as a base.
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

    /// Folds the pending operands, oldest first, into a base if there is one.
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

/// Converts a message without folding it with others.
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
