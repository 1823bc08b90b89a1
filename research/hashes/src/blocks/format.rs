//! The encoding of a table's root, version 1: the location and checksum of the table's state. All
//! integers are little-endian.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  kind of table: "ABOA" or "ABOT"
//!      4     4  version, 1
//!      8     8  first byte of the state
//!     16     8  bytes of the state
//!     24     8  XXH3-64 of the state
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::error::{Error, Result};
use super::space::{BlockExtent, BlockSpace};
use alluvium_base::bytes::{ByteReader, ByteWriter};
use alluvium_base::checksum::checksum;

const VERSION: u32 = 1;

/// The maximum size of a state: levels, tails and a buffer.
const MAX_STATE_BYTES: u64 = 1 << 32;
/// The number of bytes per read of a state.
const STATE_CHUNK: u64 = 1 << 20;

/// Appends an encoded extent: its offset (8) and its length (8).
pub(crate) fn put_extent(out: &mut Vec<u8>, extent: BlockExtent) {
    ByteWriter::new(out).u64(extent.at).u64(extent.bytes);
}

/// Decodes an extent.
///
/// # Errors
/// When the bytes are too short or the extent overflows.
pub(crate) fn get_extent(reader: &mut ByteReader<'_>) -> Result<BlockExtent> {
    let extent = BlockExtent {
        at: reader.u64()?,
        bytes: reader.u64()?,
    };
    match extent.end() {
        Some(_) => Ok(extent),
        None => Err(Error::damaged(
            reader.position() as u64,
            "extent",
            "of 2^64 bytes",
            format!("{extent:?}"),
        )),
    }
}

/// Writes a state and commits a root that refers to it. `current` is the state of the last
/// commit; it is replaced by the new state.
///
/// The old state is released before the commit, so that the new commit does not count it as used.
/// If the commit fails, the space still preserves the old state for the last commit (B1).
pub(crate) fn commit_state(
    space: &dyn BlockSpace,
    kind: u32,
    state: &[u8],
    current: &mut Option<BlockExtent>,
) -> Result<()> {
    let draft = super::SpaceTransaction::new(space);
    let extent = draft.allocate(state.len() as u64)?;
    draft.write(extent.at, state)?;
    if let Some(before) = current.take() {
        space.release(before);
    }
    let mut root = Vec::new();
    ByteWriter::new(&mut root)
        .u32(kind)
        .u32(VERSION)
        .u64(extent.at)
        .u64(state.len() as u64)
        .u64(checksum(state));
    draft.commit(&root)?;
    draft.apply_releases();
    *current = Some(extent);
    Ok(())
}

/// Reads the state of the last commit.
pub(crate) fn read_state(space: &dyn BlockSpace, kind: u32) -> Result<(BlockExtent, Vec<u8>)> {
    let root = space.root().unwrap_or_default();
    let mut reader = ByteReader::new(&root);
    let (found, version) = (reader.u32()?, reader.u32()?);
    if found != kind || version != VERSION {
        let expected = format!("kind {kind:#x}, version {VERSION}");
        return Err(Error::damaged(
            0,
            "root",
            expected,
            format!("kind {found:#x}, version {version}"),
        ));
    }
    let (extent, sum) = (
        BlockExtent {
            at: reader.u64()?,
            bytes: reader.u64()?,
        },
        reader.u64()?,
    );
    if reader.remaining() > 0 || extent.bytes > MAX_STATE_BYTES || extent.end().is_none() {
        return Err(Error::damaged(
            0,
            "root",
            "a state of at most 4 GiB",
            format!("{extent:?}"),
        ));
    }
    // Memory grows with the bytes actually read, not with the length in the root.
    let mut state = Vec::new();
    while (state.len() as u64) < extent.bytes {
        let done = state.len();
        let more = (extent.bytes - done as u64).min(STATE_CHUNK) as usize;
        state.resize(done + more, 0);
        let (_, unread) = state.split_at_mut(done);
        space.read(extent.at.saturating_add(done as u64), unread)?;
    }
    if checksum(&state) != sum {
        return Err(Error::damaged(
            extent.at,
            "checksum of the state",
            sum,
            checksum(&state),
        ));
    }
    Ok((extent, state))
}

#[cfg(test)]
mod tests {
    use super::super::MemoryBlockSpace;
    use super::*;

    #[test]
    fn the_bytes_of_a_root_never_change_and_wrong_ones_are_refused() {
        let space = MemoryBlockSpace::new(64, 1 << 16);
        let mut current = None;
        commit_state(&space, 0x1234, b"state", &mut current).unwrap();
        let first = current.unwrap();
        let root = space.root().unwrap();
        assert_eq!(
            root[..24],
            [
                0x34, 0x12, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0
            ]
        );
        assert_eq!(read_state(&space, 0x1234).unwrap(), (first, b"state".to_vec()));
        assert!(read_state(&space, 0x1235).is_err());
        commit_state(&space, 0x1234, b"other", &mut current).unwrap();
        assert_eq!(space.extents(), [current.unwrap()]);
        assert_eq!(space.crashed().extents(), [current.unwrap()]);
        // A valid root with an impossible state length: it is rejected before 4 GiB are
        // allocated.
        let mut large = root.clone();
        large[16..24].copy_from_slice(&MAX_STATE_BYTES.to_le_bytes());
        space.commit(&large).unwrap();
        assert!(read_state(&space, 0x1234).is_err());
        for at in 0..root.len() {
            let mut bad = root.clone();
            bad[at] ^= 0x90;
            space.commit(&bad).unwrap();
            assert!(read_state(&space, 0x1234).is_err(), "byte {at}");
        }
    }
}
