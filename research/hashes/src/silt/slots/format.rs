//! The encoding of a slot, version 1. All integers are little-endian.
//!
//! ```text
//! OFFSET   SIZE  MEANING
//!      0      8  XXH3-64 of the slot's other bytes, with the store's number as its seed
//!      8      1  state: 1 value, 2 deleted
//!      9      1  zero
//!     10      2  bytes of the key, k
//!     12      4  bytes of the value, v; 0 for a deletion
//!     16      k  key
//! 16 + k      v  value
//!      …      …  zeros, up to the store's size of a slot
//! ```
//!
//! An empty slot is zeros. Slot i of a store is at byte i · size.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use crate::silt::{Error, Result};
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_base::checksum::seeded;

const HEADER_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 8;

/// The state of a slot's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiltSlotState {
    /// The key has the slot's value.
    Value = 1,
    /// The key is deleted, regardless of older stores.
    Deleted = 2,
}

/// A slot that holds a key, live or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiltSlot<'b> {
    /// The state of the key.
    pub state: SiltSlotState,
    pub key: &'b [u8],
    /// The value; empty for a deletion.
    pub value: &'b [u8],
}

/// The number of a store, and the size of its slots.
///
/// ```
/// use research_hashes::silt::slots::{SiltSlotLayout, SiltSlot, SiltSlotState};
/// let layout = SiltSlotLayout { store: 5, slot_bytes: 64 };
/// let slot = SiltSlot { state: SiltSlotState::Value, key: b"k", value: b"value" };
/// let mut bytes = Vec::new();
/// layout.encode(Some(&slot), &mut bytes)?;
/// layout.encode(None, &mut bytes)?;
/// assert_eq!(layout.decode(&bytes[..64], 0)?, Some(slot));
/// assert_eq!(layout.decode(&bytes[64..], layout.at(1))?, None);
/// # Ok::<(), research_hashes::silt::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiltSlotLayout {
    /// The number of the store.
    pub store: u64,
    /// The size of a slot in bytes.
    pub slot_bytes: u32,
}

impl SiltSlotLayout {
    /// Returns the offset of a slot in bytes.
    #[must_use]
    pub fn at(&self, slot: u64) -> u64 {
        slot * u64::from(self.slot_bytes)
    }

    /// Appends an encoded slot; `None` is an empty slot.
    ///
    /// # Errors
    /// [`Error::TooLong`] when the key and value do not fit in a slot.
    pub fn encode(&self, slot: Option<&SiltSlot<'_>>, out: &mut Vec<u8>) -> Result<()> {
        let end = out.len() + self.slot_bytes as usize;
        if let Some(slot) = slot {
            let (key_bytes, value_bytes) = (slot.key.len(), slot.value.len());
            let len = HEADER_BYTES + key_bytes + value_bytes;
            if len > self.slot_bytes as usize || key_bytes > u16::MAX.into() {
                return Err(Error::TooLong {
                    key_bytes,
                    value_bytes,
                    what: "a slot",
                    most: self.slot_bytes.into(),
                });
            }
            let mut rest = Vec::with_capacity(self.slot_bytes as usize);
            ByteWriter::new(&mut rest)
                .u8(slot.state as u8)
                .u8(0)
                .u16(key_bytes as u16)
                .u32(value_bytes as u32)
                .bytes(slot.key)
                .bytes(slot.value);
            rest.resize(self.slot_bytes as usize - CHECKSUM_BYTES, 0);
            ByteWriter::new(out).u64(seeded(self.store, &rest)).bytes(&rest);
        }
        out.resize(end, 0);
        Ok(())
    }

    /// Decodes the slot at offset `at` of its store; `None` if it is empty.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the bytes are not a slot of this store.
    pub fn decode<'b>(&self, bytes: &'b [u8], at: u64) -> Result<Option<SiltSlot<'b>>> {
        let bad = |what, expected: String, found: String| Error::Corrupt {
            structure: "slot",
            at,
            what,
            expected,
            found,
        };
        if bytes.len() != self.slot_bytes as usize {
            let expected = self.slot_bytes.to_string();
            return Err(bad("length in bytes", expected, bytes.len().to_string()));
        }
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        let mut reader = ByteReader::new(bytes);
        let mut read = || -> std::result::Result<_, TruncatedInput> {
            let (sum, state, zero) = (reader.u64()?, reader.u8()?, reader.u8()?);
            let (key_bytes, value_bytes) = (reader.u16()?, reader.u32()?);
            let (key, value) = (reader.take(key_bytes.into())?, reader.take(value_bytes as usize)?);
            let padding = reader.take(reader.remaining())?;
            Ok((sum, state, zero, key, value, padding))
        };
        let (sum, state, zero, key, value, padding) =
            read().map_err(|short| bad("length", "a key and a value inside".into(), short.to_string()))?;
        let computed = seeded(self.store, bytes.get(CHECKSUM_BYTES..).unwrap_or_default());
        if sum != computed {
            return Err(bad("checksum", format!("{computed:016x}"), format!("{sum:016x}")));
        }
        if padding.iter().any(|&byte| byte != 0) {
            return Err(bad("end", "zeros".into(), format!("{padding:02x?}")));
        }
        let state = match (state, zero) {
            (1, 0) => SiltSlotState::Value,
            (2, 0) if value.is_empty() => SiltSlotState::Deleted,
            _ => {
                return Err(bad(
                    "state",
                    "1 or 2, then 0".into(),
                    format!("{state}, then {zero}"),
                ));
            }
        };
        Ok(Some(SiltSlot { state, key, value }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: SiltSlotLayout = SiltSlotLayout {
        store: 3,
        slot_bytes: 32,
    };

    #[test]
    fn the_bytes_of_a_slot_are_these() {
        let slot = SiltSlot {
            state: SiltSlotState::Value,
            key: b"key",
            value: b"value",
        };
        let mut bytes = Vec::new();
        LAYOUT.encode(Some(&slot), &mut bytes).unwrap();
        let rest = b"\x01\0\x03\0\x05\0\0\0keyvalue\0\0\0\0\0\0\0\0";
        let mut expected = seeded(3, rest).to_le_bytes().to_vec();
        expected.extend(rest);
        assert_eq!(bytes, expected);
        bytes.clear();
        LAYOUT.encode(None, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 32]);
    }

    #[test]
    fn every_changed_byte_of_a_slot_is_noticed_and_none_makes_it_panic() {
        let slot = SiltSlot {
            state: SiltSlotState::Deleted,
            key: b"a key of 16 byte",
            value: b"",
        };
        let mut bytes = Vec::new();
        LAYOUT.encode(Some(&slot), &mut bytes).unwrap();
        for at in 0..32 {
            for byte in 0..=255 {
                let mut damaged = bytes.clone();
                damaged[at] = byte;
                let found = LAYOUT.decode(&damaged, 64);
                assert_eq!(found.is_ok(), byte == bytes[at]);
            }
        }
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..10_000 {
            let bytes: Vec<u8> = (0..random.usize(0..40)).map(|_| random.u8(..)).collect();
            let is_empty = bytes.len() == 32 && bytes.iter().all(|&byte| byte == 0);
            assert!(LAYOUT.decode(&bytes, 0).is_err() || is_empty);
        }
        let long = SiltSlot {
            value: b"x",
            state: SiltSlotState::Value,
            ..slot
        };
        assert!(matches!(
            LAYOUT.encode(Some(&long), &mut bytes),
            Err(Error::TooLong { most: 32, .. })
        ));
    }
}
