//! From where the bytes of a changed file come.

use super::contents::{BLOCK, FileStretch};
use super::upper::{ChangedInode, UpperStore};
use crate::error::Result;
use crate::types::Inode;

/// Blocks of a map that are read together.
const BLOCKS_AT_ONCE: u64 = 16 << 10;

/// Returns the first stretch of the bytes from `at` to `end`, of which there is at least one.
pub(super) fn first(
    upper: &UpperStore,
    inode: Inode,
    changed: &ChangedInode,
    at: u64,
    end: u64,
) -> Result<FileStretch> {
    let lower_bytes = changed.record.lower_bytes;
    if at >= lower_bytes {
        return Ok(FileStretch {
            start: at,
            end,
            is_lower: false,
        });
    }
    let last = end.min(lower_bytes);
    let first = at / BLOCK;
    let count = (last.div_ceil(BLOCK) - first).min(BLOCKS_AT_ONCE);
    let blocks = upper.map(inode, first, count)?;
    let is_changed = blocks.first().copied().unwrap_or(false);
    let same = blocks.iter().take_while(|block| **block == is_changed).count() as u64;
    Ok(FileStretch {
        start: at,
        end: ((first + same) * BLOCK).min(last),
        is_lower: !is_changed,
    })
}
