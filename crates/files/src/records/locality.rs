//! Where the blocks of a file stand among those of others.
//!
//! Programs that read a tree read it in the order of its paths. So the key of a block begins with
//! the names of the path at which its file was created. Renames do not change it: the file keeps
//! its blocks, and files that are created in a renamed directory stand beside the older ones.
//!
//! Deep paths would make long keys. So a directory whose names are too many begins a zone: of the
//! names above it, only the first ones remain, and its number follows.
//!
//! Invariants:
//!
//! - **L1** A locality is empty, or consists of names of at least one byte, each followed by a zero
//!   byte. Inode numbers are below 2^56, so they begin with a zero byte in keys, and no block of
//!   another file lies between those of one.

use super::format::DamagedRecord;
use crate::types::{FileKind, Inode};

/// Most bytes of a name in a locality.
/// Tuning: `40` since 2026-11-30.
const MOST_NAME: usize = 40;

/// Most bytes of the locality of a directory.
/// Tuning: `80` since 2026-11-30.
const MOST_OF_DIRECTORY: usize = 80;

/// Most bytes of the names above a zone.
/// Tuning: `40` since 2026-11-30.
const MOST_ABOVE: usize = 40;

/// The beginning of the keys of a file's blocks. It is empty where contents are ordered by inode.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Locality {
    bytes: Box<[u8]>,
}

impl Locality {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the locality of what is created in a directory that has this one.
    pub(crate) fn child(&self, inode: Inode, kind: FileKind, name: &[u8]) -> Locality {
        let name = name.get(..MOST_NAME).unwrap_or(name);
        let mut bytes = [&self.bytes, name, &[0]].concat();
        if kind == FileKind::Directory && bytes.len() > MOST_OF_DIRECTORY {
            let ends = self.bytes.iter().take(MOST_ABOVE).rposition(|byte| *byte == 0);
            bytes.truncate(ends.map_or(0, |end| end + 1));
            bytes.extend_from_slice(format!("{:x}\0", inode.0).as_bytes());
        }
        Locality { bytes: bytes.into() }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Locality, DamagedRecord> {
        let is_name = |name: &[u8]| !name.is_empty();
        let names = bytes.strip_suffix(&[0]);
        if names.is_some_and(|names| names.split(|byte| *byte == 0).all(is_name)) {
            return Ok(Locality { bytes: bytes.into() });
        }
        Err(DamagedRecord {
            what: "has a locality that no file can have",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn localities_are_in_the_order_of_paths_and_short() {
        let root = Locality::default();
        let a = root.child(Inode(5), FileKind::Directory, b"a");
        let file = a.child(Inode(9), FileKind::Regular, b"file");
        assert_eq!(file.as_bytes(), b"a\0file\0");
        assert!(file < root.child(Inode(4), FileKind::Regular, b"a.txt"));
        assert!(file < root.child(Inode(3), FileKind::Regular, b"b"));
        let (mut at, mut zones) = (a, 0);
        for number in 10..200 {
            let child = at.child(Inode(number), FileKind::Directory, b"a-name-of-twenty-one");
            zones += u32::from(!child.as_bytes().starts_with(at.as_bytes()));
            assert!(child.as_bytes().starts_with(b"a\0"), "near its first directory");
            assert!(child.as_bytes().len() <= MOST_OF_DIRECTORY);
            assert_eq!(Locality::decode(child.as_bytes()), Ok(child.clone()));
            at = child;
        }
        assert!((20..150).contains(&zones), "{zones} zones");
        let long = at.child(Inode(300), FileKind::Regular, &[b'x'; 255]);
        assert!(long.as_bytes().len() <= MOST_OF_DIRECTORY + MOST_NAME + 1);
    }

    #[test]
    fn only_names_with_ends_are_decoded() {
        for wrong in [&b""[..], b"a", b"\0", b"a\0\0", b"\0a\0", b"a\0b"] {
            assert!(Locality::decode(wrong).is_err(), "{wrong:?}");
        }
    }
}
