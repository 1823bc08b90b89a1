//! Merges sorted sources and folds the messages of each key into as few messages as possible.
//!
//! *Scope*: which source is next; which of several equal keys is the newest; which messages no
//! reader can see any more.
//!
//! *Must not depend on*: where the sources come from, when a merge is worth its cost, what the
//! result is used for.
//!
//! Throughput with eight sources in memory, 24-byte keys and 100-byte values, on one thread of a
//! shared virtual processor (`cargo bench -p alluvium-dictionary --bench merge`): 43 million
//! records per second with random keys; 38 million if the keys share eight bytes; 24 million if
//! whole keys are compared instead of codes.
//!
//! Invariants:
//!
//! - **G1** Sources are ordered from newest to oldest. If two sources have the same key, all its
//!   messages in the first source are newer than those in the second.
//! - **G2** Messages above the visible watermark, the newest sequence number at which readers are
//!   known to read, are never changed. Messages at or below it are divided into *bands*: every
//!   reader sees either all messages of a band or none. The oldest band extends up to the
//!   *horizon*, the oldest sequence number at which a reader may still read. Each other band
//!   extends from the sequence number of one reader to that of the next.
//! - **G3** In each band, at most one message of each key remains. The exception is a merge above a
//!   put that will expire or that the merge operator rejects, in which case both remain. Timed
//!   deletes and the merges around them become one message (see [`OperandChain`]). Every reader
//!   reads the same as before the merge, now and at any later time.
//! - **G4** A merge message is folded without a base only if the sources contain *every* older
//!   message of the range ([`OlderData::None`]). Only then, and only in the oldest band, are
//!   tombstones dropped and sequence numbers set to zero.
//! - **G5** A compaction filter is applied only to the put that remains at or below the horizon,
//!   once nothing can change that put any more. It is not applied to tombstones, to merge messages
//!   without a base, to timed deletes, to puts below such messages, to messages above the horizon,
//!   or to expired values. A put that the filter removes becomes a tombstone, unless a delete in
//!   its place would be dropped (G4).

mod chain;
mod code;
mod filter;
mod fold;
mod merging_iter;
mod operator;

#[cfg(test)]
mod tests;

pub use chain::{ChainElement, ChainElements, MalformedChain, OperandChain, has_passed};
pub use filter::{CompactionFilter, FilterCandidate, FilterVerdict};
pub use fold::{FoldRule, FoldedMessage, MessageFolder, OlderData};
pub use merging_iter::{MergeDirection, MergingIter, SortedSource};
pub use operator::{
    AddOperator, AppendOperator, BadOperand, MaximumOperator, MergeOperator, MinimumOperator,
};
