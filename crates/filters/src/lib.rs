//! Compact answers to "might this key be here, and where".
//!
//! *Knows*: fingerprints of hashed keys, how to pack them with small values into pages, how to
//! look them up, merge them and check them. Other answers to where a hash is: indexes of
//! entropy-coded tries over sorted hashes ([`trie`]), block indexes of packed stores ([`pachash`]),
//! filters that are built once ([`listed`]). Everything is a function of byte slices, which the
//! owner reads, caches and writes; but for the Bloom filters, which live in memory.
//!
//! *Does not know*: keys (but to hash them), what a value means, pages' places, caches, devices,
//! threads, clocks.
//!
//! *Read in this order*: [`hash()`], [`Fingerprint`] and [`Entry`], [`quotient`], [`bloom`];
//! [`bits`], `packed/` (what the next have in common), [`trie`] and [`pachash`] by themselves;
//! [`fingerprint`], [`golomb`], [`listed`], [`routing`].
//!
//! Invariants:
//!
//! - **F1** No input or output, no thread, no clock: the same arguments give the same bytes.
//! - **F2** A fingerprint that was put in, and not taken out as often, is found.
//! - **F3** No bytes make a reader panic, read outside its slice, loop for ever or allocate more
//!   than a page's entries; wrong bytes give an error or a wrong answer.
//! - **F4** A filter's bytes depend on its entries and its geometry alone, not on the order or the
//!   way they came: building in bulk, inserting, removing, merging and resizing meet in the same
//!   bytes.
//! - **F5** A page holds whatever there is about its range of fingerprints, but for the runs that
//!   spilled, and says which those are: a lookup reads one page, and rarely a second.
//! - **F6** Merging, dropping and resizing need no key and keep every bit of a fingerprint.
//! - **F7** Entries are in rising order: by fingerprint, then from the newest (greatest) value to
//!   the oldest.
//! - **F8** A Bloom filter finds every key that was added, also by a thread that learns of it while
//!   others add.

pub mod bits;
pub mod bloom;
mod entry;
mod error;
pub mod fingerprint;
pub mod golomb;
mod hash;
pub mod listed;
pub mod pachash;
mod packed;
pub mod quotient;
pub mod routing;
mod sort;
mod sync;
pub mod trie;

pub use bloom::{Bits, Block, Bloom, Line, Word};
pub use entry::{Entry, Fingerprint, MAX_FINGERPRINT_BITS, MAX_VALUE_BITS};
pub use error::{Error, Result};
pub use hash::hash;
pub use quotient::{
    Builder, Built, Chunk, Counted, Found, Geometry, Image, ImageValues, Maplet, Merge, Merged, PageView,
    Presence, Shape, SpillView, Step, Values, Violation, lookup_many, merge,
};
pub use sort::sort;
