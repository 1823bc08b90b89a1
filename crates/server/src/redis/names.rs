//! Commands by their names. Every request asks for one, so that names are compared as words of
//! eight bytes, in a table that a cheap hash leads into.

use super::table::{Command, all};
use std::sync::LazyLock;

/// The slots of the table of names: more than twice as many as there are commands.
const SLOTS: usize = 1 << 10;

/// The longest name that is looked for, in words of eight bytes.
const NAME_WORDS: usize = 3;

/// A name in small letters, padded with zeros, in words.
type Name = [u64; NAME_WORDS];

/// All commands by name: the slot that the hash of a name says, or one of the next. Every request
/// asks it.
static BY_NAME: LazyLock<Vec<Option<(Name, &'static Command)>>> = LazyLock::new(|| {
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

/// A name in words, if it is not too long for any command. No name ends with a zero.
#[inline]
fn folded(name: &[u8]) -> Option<Name> {
    let mut lower = [0; NAME_WORDS * 8];
    lower.get_mut(..name.len())?.copy_from_slice(name);
    lower.make_ascii_lowercase();
    let is_padded = name.last() == Some(&0);
    let (words, _) = lower.as_chunks::<8>();
    (!is_padded).then(|| std::array::from_fn(|word| u64::from_ne_bytes(words[word])))
}

/// The slot where a name is looked for first.
#[inline]
fn slot_of(name: &Name) -> usize {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mixed = name.iter().fold(0_u64, |hash, word| {
        (hash.rotate_left(23) ^ word).wrapping_mul(FACTOR)
    });
    (mixed >> 54) as usize % SLOTS
}

/// The command of a name, in capitals or not.
pub(super) fn find(name: &[u8]) -> Option<&'static Command> {
    let name = folded(name)?;
    let mut slot = slot_of(&name);
    // An empty slot ends the search, and most are empty.
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
