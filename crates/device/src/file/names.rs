//! Boot ids, and the detection of removed files.

use crate::BootId;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::OwnedFd;

/// Returns whether an open file or directory no longer has a name, or false if the system does not
/// report it.
pub(super) fn has_no_name(descriptor: &OwnedFd) -> bool {
    rustix::fs::fstat(descriptor).is_ok_and(|stat| stat.st_nlink == 0)
}

/// Parses the sixteen bytes of a UUID.
pub(super) fn parse_boot_id(text: &str) -> Option<BootId> {
    let digits: String = text.trim().chars().filter(|&digit| digit != '-').collect();
    if digits.len() != 32 || !digits.is_ascii() {
        return None;
    }
    let mut id = [0; 16];
    for (at, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(BootId(id))
}

/// Returns a unique id for this open, made from the random keys of the standard library's hash
/// tables.
pub(super) fn unique_boot_id() -> BootId {
    let mut id = [0; 16];
    for half in id.chunks_mut(8) {
        let random = RandomState::new().build_hasher().finish();
        for (at, byte) in half.iter_mut().enumerate() {
            *byte = (random >> (8 * at)) as u8;
        }
    }
    BootId(id)
}
