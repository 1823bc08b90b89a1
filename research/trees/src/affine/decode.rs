//! Decodes arbitrary bytes as each format of an affine dictionary's file, for fuzzing.

use super::{format, space};

/// Decodes the bytes as each of the formats, and returns the number of formats that accept them.
/// Each decoded value must encode to the same bytes.
///
/// ```
/// use research_trees::affine::{decode, examples};
/// assert!(examples().iter().all(|example| decode(example) > 0));
/// ```
///
/// # Panics
/// When a decoded value does not encode to the same bytes.
#[must_use]
pub fn decode(bytes: &[u8]) -> usize {
    format::reread(bytes) + space::format::reread(bytes)
}

/// Returns sample bytes for each of the formats.
#[must_use]
pub fn examples() -> Vec<Vec<u8>> {
    let mut all = format::examples();
    all.extend(space::format::examples());
    all
}
