//! Merging: several sorted sources become one, and the messages of a key become as few as may be.
//!
//! *Knows*: which source is next, which of equal keys is newer, and which messages no reader can
//! ask for any more.
//!
//! *Does not know*: where the sources come from, when a merge is worth its cost, what becomes of
//! the result.
//!
//! *Read in this order*: `operator.rs` (what a merge message means), `filter.rs` (what a user says
//! of old values), `fold.rs` (one key), `loser.rs` (many sources), `code.rs` (how their keys are
//! compared).
//!
//! Eight sources in memory, 24-byte keys and 100-byte values, one thread of a shared virtual
//! processor: 43 million records a second of random keys, 38 of keys that share eight bytes; 24
//! with comparisons of whole keys (`cargo bench -p alluvium-trees --bench merge`).
//!
//! Invariants:
//!
//! - **G1** Sources come newest first: of equal keys, all messages of a source are newer than those
//!   of the next.
//! - **G2** Messages above the newest place that is known to be read at (the visible watermark)
//!   pass unchanged. Those at or below it fall into *bands*: of two messages of a band every reader
//!   sees both or neither. The oldest band reaches up to the *horizon*, the oldest sequence number
//!   that a reader may still read at; each other one reaches from one reader's place to the next.
//! - **G3** Of the messages of one key in one band, one remains at most (two where merges lie above
//!   a put that will expire, or that their operator refuses), and every reader reads what it would
//!   have read before, now and at any later time.
//! - **G4** A merge is finished without a base only when the sources hold *every* older message of
//!   the range ([`Older::None`]). A tombstone goes, and a sequence number becomes zero, only then
//!   and in the oldest band.
//! - **G5** A filter is asked about the one put that remains at or below the horizon when nothing
//!   can change it any more, and about nothing else: no tombstone, no merge that waits for its
//!   base, no put that such merges lie above, nothing above the horizon, nothing that has expired.
//!   A put that it removes leaves a tombstone where a delete would leave one (G4).

mod code;
mod filter;
mod fold;
mod loser;
mod operator;

#[cfg(test)]
mod tests;

pub use filter::{Candidate, CompactionFilter, Verdict};
pub use fold::{Folded, Folder, Older, Rule};
pub use loser::{Direction, Merged, Source};
pub use operator::{Add, Append, BadOperand, Maximum, Minimum, Operator};
