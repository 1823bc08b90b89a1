//! Finds commands by name. Because every request does this, names are compared in words of eight
//! bytes, and the hash table uses a cheap hash function.

use super::table::{CommandSpec, all};
use std::sync::LazyLock;

/// Number of hash table slots, which must exceed twice the number of commands.
const SLOTS: usize = 1 << 10;

/// Maximum length of a command name, in words of eight bytes.
const NAME_WORDS: usize = 3;

/// A lower-case name, packed into words and padded with zeros.
type PackedName = [u64; NAME_WORDS];

/// All commands by name, in an open-addressing hash table with linear probing.
static BY_NAME: LazyLock<Vec<Option<(PackedName, &'static CommandSpec)>>> = LazyLock::new(|| {
    let mut slots = vec![None; SLOTS];
    assert!(all().count() * 2 < SLOTS, "most names stand in their own slots");
    for command in all() {
        let name = folded(command.name.as_bytes()).expect("no name is longer");
        let mut slot = slot_of(&name);
        while slots[slot].is_some() {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = Some((name, command));
    }
    slots
});

/// Converts a name to lower case and packs it into words. Returns `None` if the name is longer than
/// every command name or ends with a zero byte.
#[inline]
fn folded(name: &[u8]) -> Option<PackedName> {
    let mut lower = [0; NAME_WORDS * 8];
    lower.get_mut(..name.len())?.copy_from_slice(name);
    lower.make_ascii_lowercase();
    let is_padded = name.last() == Some(&0);
    let (words, _) = lower.as_chunks::<8>();
    (!is_padded).then(|| std::array::from_fn(|word| u64::from_ne_bytes(words[word])))
}

/// Returns the slot at which the search for a name begins.
#[inline]
fn slot_of(name: &PackedName) -> usize {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mixed = name.iter().fold(0_u64, |hash, word| {
        (hash.rotate_left(23) ^ word).wrapping_mul(FACTOR)
    });
    (mixed >> 54) as usize % SLOTS
}

/// Returns the command with this name, ignoring case, or `None` if there is none.
pub(super) fn find(name: &[u8]) -> Option<&'static CommandSpec> {
    let name = folded(name)?;
    let mut slot = slot_of(&name);
    // The search ends at an empty slot. It is short, because most slots are empty.
    while let Some((found, command)) = &BY_NAME[slot] {
        if *found == name {
            return Some(command);
        }
        slot = (slot + 1) % SLOTS;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_spelling_and_stand_for_one_command() {
        assert_eq!(find(b"GeT").unwrap().name, "get");
        assert!(find(b"").is_none() && find(b"nothing").is_none() && find(&[b'a'; 99]).is_none());
        assert!(find(b"get\0").is_none() && find(&[b'a'; 24]).is_none());
        for command in all() {
            let capitals = command.name.to_ascii_uppercase();
            assert!(
                std::ptr::eq(find(capitals.as_bytes()).unwrap(), command),
                "{capitals}"
            );
        }
    }
}
