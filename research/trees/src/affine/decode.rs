//! Everything that a file of an affine dictionary can hold, read from any bytes: for fuzzing.

use super::{format, space};

/// Reads bytes as each of the formats, and returns how many of them they are. What is read is
/// written the same again.
///
/// ```
/// use research_trees::affine::{decode, examples};
/// assert!(examples().iter().all(|example| decode(example) > 0));
/// ```
///
/// # Panics
/// When what was read is not written the same again.
#[must_use]
pub fn decode(bytes: &[u8]) -> usize {
    format::reread(bytes) + space::format::reread(bytes)
}

/// Returns bytes of each of the formats.
#[must_use]
pub fn examples() -> Vec<Vec<u8>> {
    let mut all = format::examples();
    all.extend(space::format::examples());
    all
}
