//! Chains of merge operands and timed deletes.
//!
//! *Scope*: what the messages of one key do together; how a chain is stored as one message.
//!
//! *Must not depend on*: which messages readers still see, where a chain is stored.
//!
//! A timed delete deletes the older messages of its key from a time on, and has no effect until
//! then (Spillane 2012, section 5.3: timestamped tombstones). Which value a reader sees therefore
//! depends on the reader's clock, so a merge cannot fold the operands below a timed delete into
//! those above it. It folds the messages of a key into a chain instead, and the chain is stored as
//! one message of the kind [`MessageKind::TimedDelete`].
//!
//! In a chain, the times of newer deletes are later, and operands lie between two deletes. An older
//! delete with a later time changes nothing, and neither does a newer delete with a later time and
//! no operand in between: what they would delete has been deleted already.

mod format;

use super::MergeOperator;
use alluvium_base::{Message, MessageKind};

pub use format::MalformedChain;

/// The time of a delete that has passed for every clock.
const ALWAYS: u64 = 1;

/// The combined effect of merge operands and timed deletes on the value of a key.
///
/// ```
/// use alluvium_dictionary::merge::{AppendOperator, OperandChain};
/// let mut chain = OperandChain::operand(b"a".to_vec());
/// chain.delete_at(10, Some(&AppendOperator));
/// chain.merge(b"b", &AppendOperator);
/// let value = |now_ms| {
///     let mut chain = chain.clone();
///     let base = (!chain.pass(now_ms)).then(|| b"base ".to_vec());
///     chain.over(base, Some(&AppendOperator))
/// };
/// assert_eq!(value(9), Some(b"base ab".to_vec()));
/// assert_eq!(value(10), Some(b"b".to_vec()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperandChain {
    /// The timed deletes, oldest first. Their times increase.
    stages: Vec<ChainStage>,
    /// The operands that are newer than all timed deletes, folded into one.
    newest: Option<Vec<u8>>,
}

/// A timed delete, and the operands between it and the next older one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ChainStage {
    /// The operands, folded into one. Only the oldest delete of a chain may have none.
    operand: Option<Vec<u8>>,
    /// The time from which the operands and all older messages are deleted, in milliseconds of the
    /// caller's clock. Never 0.
    deleted_ms: u64,
}

/// The elements of a chain.
pub type ChainElements<'c> = Vec<ChainElement<'c>>;

/// One element of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainElement<'c> {
    /// A merge operand.
    Operand(&'c [u8]),
    /// A delete from this time on.
    DeletedAt(u64),
}

/// Returns whether a timed delete takes effect for a reader whose clock shows `now_ms`.
#[must_use]
pub fn has_passed(deleted_ms: u64, now_ms: u64) -> bool {
    deleted_ms <= now_ms.max(ALWAYS)
}

impl OperandChain {
    /// Creates a chain with one operand.
    #[must_use]
    pub fn operand(operand: Vec<u8>) -> OperandChain {
        OperandChain {
            stages: Vec::new(),
            newest: Some(operand),
        }
    }

    /// Creates a chain with one timed delete.
    #[must_use]
    pub fn deleted_at(time_ms: u64) -> OperandChain {
        let mut chain = OperandChain::default();
        chain.delete_at(time_ms, None);
        chain
    }

    /// Decodes the operand and time of a [`MessageKind::TimedDelete`].
    ///
    /// # Errors
    /// [`MalformedChain`] if the operand is damaged.
    pub fn decode(operand: &[u8], deleted_ms: u64) -> Result<OperandChain, MalformedChain> {
        let mut chain = OperandChain::default();
        format::visit(operand, deleted_ms, |element| match element {
            ChainElement::Operand(operand) => chain.newest = Some(operand.to_vec()),
            ChainElement::DeletedAt(time_ms) => chain.push_stage(time_ms),
        })?;
        Ok(chain)
    }

    /// Returns the elements of a [`MessageKind::TimedDelete`], oldest first. Of a damaged operand
    /// only the delete itself remains; [`OperandChain::decode`] reports the damage.
    #[must_use]
    pub fn elements(operand: &[u8], deleted_ms: u64) -> ChainElements<'_> {
        let mut elements = ChainElements::new();
        if format::visit(operand, deleted_ms, |element| elements.push(element)).is_err() {
            elements.clear();
            elements.push(ChainElement::DeletedAt(deleted_ms));
        }
        elements
    }

    /// Returns whether the chain has no effect.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.newest.is_none() && self.stages.is_empty()
    }

    /// Returns whether the chain contains an operand.
    #[must_use]
    pub fn has_operands(&self) -> bool {
        self.newest.is_some() || self.stages.iter().any(|stage| stage.operand.is_some())
    }

    /// Returns whether the chain contains a timed delete.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        !self.stages.is_empty()
    }

    /// Returns the newest operand, which is newer than all timed deletes.
    #[must_use]
    pub fn newest(&self) -> Option<&[u8]> {
        self.newest.as_deref()
    }

    /// Adds an operand, which is newer than the chain.
    pub fn merge(&mut self, operand: &[u8], operator: &dyn MergeOperator) {
        match &mut self.newest {
            Some(newest) => operator.fold(newest, operand),
            None => self.newest = Some(operand.to_vec()),
        }
    }

    /// Adds a timed delete, which is newer than the chain. The operator folds the operands of older
    /// deletes that come no earlier. A chain without operands needs none.
    pub fn delete_at(&mut self, time_ms: u64, operator: Option<&dyn MergeOperator>) {
        let time_ms = time_ms.max(ALWAYS);
        while let Some(later) = self.stages.pop_if(|stage| stage.deleted_ms >= time_ms) {
            self.newest = joined(later.operand, self.newest.take(), operator);
        }
        if self.newest.is_some() || self.stages.is_empty() {
            self.push_stage(time_ms);
        }
    }

    fn push_stage(&mut self, deleted_ms: u64) {
        let operand = self.newest.take();
        self.stages.push(ChainStage { operand, deleted_ms });
    }

    /// Removes everything that has been deleted by the time `now_ms`. Returns whether that includes
    /// the messages that are older than the chain.
    pub fn pass(&mut self, now_ms: u64) -> bool {
        let passed = self
            .stages
            .partition_point(|stage| has_passed(stage.deleted_ms, now_ms));
        self.stages.drain(..passed);
        passed > 0
    }

    /// Returns the value of the key before the first of the chain's deletes, if its value below the
    /// chain is `base`. The caller must have called [`OperandChain::pass`] and checked the base.
    #[must_use]
    pub fn over(self, base: Option<Vec<u8>>, operator: Option<&dyn MergeOperator>) -> Option<Vec<u8>> {
        let operands = self.stages.into_iter().map(|stage| stage.operand);
        let mut value = base;
        for operand in operands.chain([self.newest]) {
            value = joined(value, operand, operator);
        }
        value
    }

    /// Takes what the oldest of the chain's deletes applies to, so that it can be folded into the
    /// base of the chain, which then expires at the returned time. Returns the operand and the
    /// time; if the chain has no delete, returns its operand, and 0 as the time.
    ///
    /// `base_expires_ms` is the time at which the base expires already, or 0. Returns `None` if the
    /// operand cannot be folded, because the base expires before it is deleted.
    pub fn take_oldest(&mut self, base_expires_ms: u64) -> Option<(Option<Vec<u8>>, u64)> {
        let Some(oldest) = self.stages.first() else {
            return match (base_expires_ms, &self.newest) {
                (0, _) | (_, None) => Some((self.newest.take(), base_expires_ms)),
                _ => None,
            };
        };
        let base_goes_first = base_expires_ms != 0 && base_expires_ms < oldest.deleted_ms;
        if base_goes_first && oldest.operand.is_some() {
            return None;
        }
        let oldest = self.stages.remove(0);
        let expires_ms = if base_goes_first {
            base_expires_ms
        } else {
            oldest.deleted_ms
        };
        Some((oldest.operand, expires_ms))
    }

    /// Removes the oldest delete if nothing is below it, because the chain has no base.
    pub fn forget_base(&mut self) {
        if self.stages.first().is_some_and(|oldest| oldest.operand.is_none()) {
            self.stages.remove(0);
        }
    }

    /// Deletes the messages that are older than the chain. The oldest delete must have operands.
    pub fn delete_base(&mut self) {
        debug_assert!(
            self.stages.first().is_some_and(|oldest| oldest.operand.is_some()),
            "a delete without operands has been removed"
        );
        let (operand, deleted_ms) = (None, ALWAYS);
        self.stages.insert(0, ChainStage { operand, deleted_ms });
    }

    /// Returns the operand that would be the first to be folded into the base of the chain.
    #[must_use]
    pub fn oldest(&self) -> Option<&[u8]> {
        let operand = match self.stages.first() {
            Some(oldest) => &oldest.operand,
            None => &self.newest,
        };
        operand.as_deref()
    }

    /// Calls `with` with the message that stores the chain, which must not be empty. The sequence
    /// number of the message is 0.
    pub fn as_message<R>(&self, with: impl FnOnce(Message<'_>) -> R) -> R {
        debug_assert!(!self.is_empty(), "a message has an effect");
        let Some(last) = self.stages.last() else {
            return with(Message::merge(0, self.newest.as_deref().unwrap_or_default()));
        };
        let mut operand = Vec::new();
        format::encode(self, &mut operand);
        with(Message {
            sequence: 0,
            kind: MessageKind::TimedDelete,
            expires_ms: last.deleted_ms,
            operand: &operand,
        })
    }

    /// Returns the memory of the chain's elements, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let operands = self.stages.iter().map(|stage| stage.operand.as_ref());
        let lens = operands.chain([self.newest.as_ref()]).flatten().map(Vec::len);
        lens.sum::<usize>() + self.stages.len() * size_of::<ChainStage>()
    }
}

/// Folds the newer of two operands into the older one.
fn joined(
    older: Option<Vec<u8>>,
    newer: Option<Vec<u8>>,
    operator: Option<&dyn MergeOperator>,
) -> Option<Vec<u8>> {
    match (older, newer, operator) {
        (Some(mut older), Some(newer), Some(operator)) => {
            operator.fold(&mut older, &newer);
            Some(older)
        }
        // Without an operator, a merge counts as a put of its operand.
        (_, Some(newer), _) => Some(newer),
        (older, None, _) => older,
    }
}
