//! External perfect hashing, implemented again from its description to be measured against:
//! where a key is in a store whose buckets are permuted, in 2.8 bits a key.
//!
//! *Knows*: how keys are split into buckets of up to 256; how a minimal perfect hash function
//! of a bucket is found and evaluated; the bytes of an index.
//!
//! *Does not know*: values; where items are; whether a key that is asked for is there.
//!
//! *Read in this order*: `shape`, `graph`, `format`, `build`, `index`, `check`.
//!
//! Botelho and Ziviani, "External perfect hashing for very large key sets" (CIKM 2007), as
//! Lim's thesis compares it with tries ("EPH", 2015, section 3.4). This is a re-implementation:
//! the buckets and their limit are theirs; the function of a bucket is that of Botelho, Pagh
//! and Ziviani ("Simple and space-efficient minimal perfect hash functions", WADS 2007); the
//! directory is that of our tries, so that both are measured alike. Theirs takes 3.8 bits a key
//! and a table of 3 MiB.
//!
//! # How it works
//!
//! A key of a bucket is an edge between three vertices, one in each third of the bucket's. An
//! edge with a vertex of its own is taken away, until none is left; if that fails, another seed
//! is tried. In the reverse order each edge gives its own vertex a value, so that the sum of an
//! edge's values modulo 3 says which of its vertices is its own. A key's place is the number of
//! vertices with a value before that vertex.
//!
//! # Invariants
//!
//! - **P1** The keys of a bucket lead to all of its places, each to another.
//! - **P2** As many vertices of a bucket have a value as it has keys; no key leads to one
//!   without.
//! - **P3** The bytes depend on the keys and the number of buckets alone, and those of a bucket
//!   on its keys.

mod build;
mod check;
mod format;
mod graph;
mod index;
mod shape;

pub use build::Builder;
pub use check::Violation;
pub use index::Index;
pub use shape::{DEFAULT_KEYS_PER_BUCKET, MAX_BUCKET_KEYS, buckets};

#[cfg(test)]
mod tests;
