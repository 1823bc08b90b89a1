//! One key: its messages become as few as may be (invariants G2 to G5).

use super::{Candidate, CompactionFilter, Operator, Verdict};
use alluvium_base::{Kind, Message, Sequence};
use std::sync::Arc;

/// What lies below the sources of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Older {
    /// Nothing: the sources hold every older message of the range.
    None,
    /// There may be older messages elsewhere, which what remains must go on hiding or folding into.
    Elsewhere,
}

/// What a merge may do, read once when it is planned.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The oldest sequence number that a reader may still read at: the least of the oldest snapshot
    /// and the visible watermark.
    pub horizon: Sequence,
    /// The snapshots and the visible watermark, ascending; the horizon may be among them or not.
    /// Readers read at one of these, at the horizon, or above all of them.
    pub readers: Arc<[Sequence]>,
    /// Whether there are older messages elsewhere.
    pub older: Older,
    /// Puts that expire at or before this moment, in milliseconds of the caller's clock, are gone.
    pub now_ms: u64,
}

impl Rule {
    /// Returns up to which place older messages may still make a difference below a delete that was
    /// committed at `sequence`: what is newer is hidden from all readers that could see it.
    #[must_use]
    pub fn below_band_of(&self, sequence: Sequence) -> Sequence {
        debug_assert!(sequence > 0, "a commit has a number");
        match self.band(sequence) {
            None => sequence - 1,
            Some(band) => band.floor.unwrap_or(0),
        }
    }

    /// Returns the band of a message: those messages that every reader sees together or not at all.
    /// None when it was committed after the newest place that is known to be read at.
    fn band(&self, sequence: Sequence) -> Option<Band> {
        if sequence <= self.horizon {
            return Some(Band {
                reader: self.horizon,
                floor: None,
            });
        }
        debug_assert!(self.readers.is_sorted(), "readers in order");
        let above = self.readers.partition_point(|&reader| reader < sequence);
        let before = above.checked_sub(1).map_or(0, |before| self.readers[before]);
        Some(Band {
            reader: *self.readers.get(above)?,
            floor: Some(before.max(self.horizon)),
        })
    }
}

/// Messages that every reader sees together or not at all.
#[derive(Clone, Copy, Debug)]
struct Band {
    /// The oldest reader that sees them.
    reader: Sequence,
    /// The newest reader that does not see them; none where there is no older reader at all.
    floor: Option<Sequence>,
}

/// A message that remains of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folded<'a> {
    /// When it was committed; zero where no reader can ask any more.
    pub sequence: Sequence,
    /// What it does.
    pub kind: Kind,
    /// When a put expires; 0 means never.
    pub expires_ms: u64,
    /// The value or operand.
    pub operand: &'a [u8],
    /// Which of the messages it is, counted from the newest, when it has the operand of that
    /// message.
    pub number: Option<usize>,
}

/// Folds the messages of one key after the other. It is reused so that operands are folded in
/// memory that is there.
#[derive(Debug)]
pub struct Folder<'op> {
    rule: &'op Rule,
    operator: Option<&'op dyn Operator>,
    /// Whether there is no reader between what is folded and everything older.
    is_oldest: bool,
    /// What a user says of puts, and the key as the user knows it.
    filter: Option<(&'op dyn CompactionFilter, &'op [u8])>,
    /// The operands being folded, newest first.
    chain: Vec<u8>,
    ends: Vec<usize>,
    folded: Vec<u8>,
}

/// What was found of a band, so far.
#[derive(Clone, Copy)]
enum Below {
    Nothing,
    /// Merges without a base yet; the newest one's sequence number.
    Merges(Sequence),
    Done,
}

impl<'op> Folder<'op> {
    /// Creates a folder by one rule. Without an operator, a merge message stands for its operand as
    /// a put would.
    #[must_use]
    pub fn new(rule: &'op Rule, operator: Option<&'op dyn Operator>) -> Folder<'op> {
        Folder {
            rule,
            operator,
            is_oldest: false,
            filter: None,
            chain: Vec::new(),
            ends: Vec::new(),
            folded: Vec::new(),
        }
    }

    /// The same, with a filter to be asked (G5) about the key that is folded next, of which the
    /// filter sees `key`.
    #[must_use]
    pub fn filtered(mut self, filter: &'op dyn CompactionFilter, key: &'op [u8]) -> Folder<'op> {
        self.filter = Some((filter, key));
        self
    }

    /// Returns the rule.
    #[must_use]
    pub fn rule(&self) -> &Rule {
        self.rule
    }

    /// Folds one key's messages, newest first, and hands what remains to `emit`, newest first.
    ///
    /// `deleted` returns the newest range delete, at or before a reader's place, that covers the
    /// key.
    pub fn fold<'m>(
        &mut self,
        messages: impl IntoIterator<Item = Message<'m>>,
        deleted: impl Fn(Sequence) -> Option<Sequence>,
        mut emit: impl FnMut(Folded<'_>),
    ) {
        // The band that messages are being folded of, with the range delete that its oldest reader
        // sees.
        let mut current: Option<(Band, Option<Sequence>)> = None;
        let mut below = Below::Nothing;
        for (number, message) in messages.into_iter().enumerate() {
            let sequence = message.sequence;
            debug_assert!(
                current.is_none_or(|(band, _)| sequence <= band.reader),
                "messages of a key come newest first"
            );
            let (band, hidden) = match current {
                Some(same) if same.0.floor.is_none_or(|floor| sequence > floor) => same,
                _ => {
                    // A reader between the two bands sees what follows without the merges before.
                    if let Below::Merges(newest) = below {
                        self.emit_chain(newest, &mut emit);
                    }
                    below = Below::Nothing;
                    let Some(band) = self.rule.band(sequence) else {
                        emit(whole(&message, number));
                        continue;
                    };
                    self.is_oldest = band.floor.is_none();
                    *current.insert((band, deleted(band.reader)))
                }
            };
            below = match below {
                // What is older in the band makes no difference to any reader.
                Below::Done if band.floor.is_none() => break,
                Below::Done => Below::Done,
                // Everything from here on is hidden by the range delete, which lives on beside the
                // runs (or hides nothing any more when there is nothing older): the merges above it
                // fold into nothing.
                _ if hidden.is_some_and(|deleted| sequence < deleted) => {
                    self.finish(below, None, &mut emit);
                    Below::Done
                }
                Below::Nothing => self.first(&message, number, &mut emit),
                Below::Merges(newest) => self.under_merges(newest, &message, number, &mut emit),
            };
        }
        if let Below::Merges(newest) = below {
            self.end(newest, &mut emit);
        }
    }

    /// Returns the newest message of a band.
    fn first(&mut self, message: &Message<'_>, number: usize, emit: &mut impl FnMut(Folded<'_>)) -> Below {
        match message.kind {
            Kind::Merge if self.operator.is_some() => {
                self.chain.clear();
                self.ends.clear();
                self.push(message.operand);
                return Below::Merges(message.sequence);
            }
            Kind::Put | Kind::Merge if !self.is_expired(message) => {
                self.emit_put(&whole(message, number), emit);
            }
            Kind::Put | Kind::Merge | Kind::Delete => self.emit_tombstone(message.sequence, emit),
        }
        Below::Done
    }

    /// Returns a message under merges that have no base yet.
    fn under_merges(
        &mut self,
        newest: Sequence,
        message: &Message<'_>,
        number: usize,
        emit: &mut impl FnMut(Folded<'_>),
    ) -> Below {
        match message.kind {
            Kind::Merge => {
                self.push(message.operand);
                return Below::Merges(newest);
            }
            Kind::Put if !self.is_expired(message) && (message.expires_ms != 0 || self.refuses(message)) => {
                // Until it expires the merges fold into it, and from then on into nothing: so they
                // stay apart. So they do where their
                // operator has no answer: who reads is told.
                self.emit_chain(newest, emit);
                emit(Folded {
                    sequence: self.settled(message.sequence),
                    ..whole(message, number)
                });
            }
            Kind::Put if !self.is_expired(message) => {
                self.finish(Below::Merges(newest), Some(message.operand), emit);
            }
            Kind::Put | Kind::Delete => self.finish(Below::Merges(newest), None, emit),
        }
        Below::Done
    }

    /// The sources end under merges without a base. A range delete does not finish them here:
    /// messages between it and them may be elsewhere.
    fn end(&mut self, newest: Sequence, emit: &mut impl FnMut(Folded<'_>)) {
        if self.rule.older == Older::None {
            self.finish(Below::Merges(newest), None, emit);
            return;
        }
        self.emit_chain(newest, emit);
    }

    /// The merges so far as one.
    fn emit_chain(&mut self, newest: Sequence, emit: &mut impl FnMut(Folded<'_>)) {
        self.fold_chain(None);
        emit(Folded {
            sequence: newest,
            kind: Kind::Merge,
            expires_ms: 0,
            operand: &self.folded,
            number: None,
        });
    }

    /// Folds merges into their base, or into nothing, which makes a put.
    fn finish(&mut self, below: Below, base: Option<&[u8]>, emit: &mut impl FnMut(Folded<'_>)) {
        let Below::Merges(newest) = below else { return };
        self.fold_chain(base);
        let put = Folded {
            sequence: newest,
            kind: Kind::Put,
            expires_ms: 0,
            operand: &self.folded,
            number: None,
        };
        self.emit_put(&put, emit);
    }

    /// The one put that remains of a band; a filter may have something against the oldest.
    fn emit_put(&self, put: &Folded<'_>, emit: &mut impl FnMut(Folded<'_>)) {
        debug_assert_ne!(put.kind, Kind::Delete, "a delete has no value");
        let filter = self.filter.filter(|_| self.is_oldest);
        let verdict = filter.map_or(Verdict::Keep, |(filter, key)| {
            filter.decide(&Candidate {
                key,
                value: put.operand,
                expires_ms: put.expires_ms,
                now_ms: self.rule.now_ms,
            })
        });
        let (operand, number) = match &verdict {
            Verdict::Keep => (put.operand, put.number),
            Verdict::Replace(value) => (&value[..], None),
            Verdict::Remove => return self.emit_tombstone(put.sequence, emit),
        };
        emit(Folded {
            sequence: self.settled(put.sequence),
            kind: Kind::Put,
            operand,
            number,
            ..*put
        });
    }

    fn emit_tombstone(&self, sequence: Sequence, emit: &mut impl FnMut(Folded<'_>)) {
        if self.rule.older == Older::Elsewhere || !self.is_oldest {
            emit(Folded {
                sequence,
                kind: Kind::Delete,
                expires_ms: 0,
                operand: &[],
                number: None,
            });
        }
    }

    /// Returns the sequence number of what remains: 0 when no reader can ask for an older version
    /// (G4).
    fn settled(&self, sequence: Sequence) -> Sequence {
        match self.rule.older {
            Older::None if self.is_oldest => 0,
            Older::None | Older::Elsewhere => sequence,
        }
    }

    fn is_expired(&self, message: &Message<'_>) -> bool {
        message.expires_ms != 0 && message.expires_ms <= self.rule.now_ms
    }

    /// Returns whether the operator cannot fold merges into the value of a put.
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

    /// Folds the chain, oldest operand first, upon a base or upon nothing.
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

/// Returns a message as it is.
fn whole<'a>(message: &Message<'a>, number: usize) -> Folded<'a> {
    let Message {
        sequence,
        kind,
        expires_ms,
        operand,
    } = *message;
    Folded {
        sequence,
        kind,
        expires_ms,
        operand,
        number: Some(number),
    }
}
