//! External perfect hashing, re-implemented from its description as a baseline for measurements:
//! it locates a key in a store of permuted buckets with 2.8 bits per key.
//!
//! *Scope*: how keys are divided into buckets of up to 256; how a bucket's minimal perfect hash
//! function is found and evaluated; the bytes of an index.
//!
//! *Must not depend on*: values; where items are stored; whether a looked-up key is present.
//!
//! Botelho and Ziviani, "External perfect hashing for very large key sets" (CIKM 2007), which
//! Lim's thesis compares with tries ("EPH", 2015, section 3.4). This is a re-implementation: the
//! buckets and their limit are those of the paper; the function of a bucket is that of Botelho,
//! Pagh and Ziviani ("Simple and space-efficient minimal perfect hash functions", WADS 2007); the
//! directory is that of our tries, so that both are measured alike. The original uses 3.8 bits
//! per key and a table of 3 MiB.
//!
//! # How it works
//!
//! Each key of a bucket is an edge between three vertices, one in each third of the bucket's
//! vertices. Construction repeatedly removes an edge that has a vertex of degree one, its own
//! vertex, until no edge is left; if that fails, it tries another seed. In the reverse order each
//! edge assigns a value to its own vertex, so that the sum of the edge's values modulo 3
//! identifies its own vertex. A key's position is the number of assigned vertices before its own
//! vertex.
//!
//! # Invariants
//!
//! - **P1** The keys of a bucket map one-to-one to all of its positions.
//! - **P2** A bucket has as many assigned vertices as keys; no key maps to an unassigned vertex.
//! - **P3** The bytes depend only on the keys and the number of buckets; those of a bucket depend
//!   only on its keys.

mod build;
mod check;
mod format;
mod graph;
mod index;
mod shape;

pub use build::PerfectHashBuilder;
pub use check::PerfectHashViolation;
pub use index::PerfectHashIndex;
pub use shape::{DEFAULT_KEYS_PER_BUCKET, MAX_BUCKET_KEYS, buckets};

#[cfg(test)]
mod tests;
