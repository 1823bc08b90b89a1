//! The bytes of a hashed structure at a checkpoint, version 1. All integers little-endian; a
//! *varint* is LEB128 of at most 10 bytes.
//!
//! The root of them has the version: `crates/dictionary/src/blob/format.rs`. The contents:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  index of the sorted store: 0 PaCHash, 1 trie
//!      1     1  logarithm of the number of parts
//!      2        age of the next hash store (varint)
//!               hash stores (varint), newest first, each:
//!                 age (varint), base of its sequence numbers (varint), pointer to its description (40)
//!               each part:
//!                 up to which age it has taken hash stores (varint)
//!                 1 and the pointer to its description (40); 0 if it has no record
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::options::{HashedOptions, IndexKind, MOST_PARTS_LOG};
use super::state::Version;
use alluvium_base::Sequence;
use alluvium_base::bytes::{Reader, Truncated, Writer};
use alluvium_dictionary::values::ValuePointer;
use alluvium_storage::{Error, PageSize, Place, Result};

/// A hash store as the contents name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YoungName {
    /// Its age.
    pub age: u64,
    /// What its sequence numbers are counted from.
    pub base: Sequence,
    /// Where its description is.
    pub run: ValuePointer,
}

/// A part of the sorted store as the contents name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartName {
    /// Up to which age it has taken hash stores.
    pub upto: u64,
    /// Where its description is, if it has records.
    pub run: Option<ValuePointer>,
}

/// What a structure consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// How the sorted store is indexed.
    pub index: IndexKind,
    /// It has 2^this parts.
    pub parts_log: u8,
    /// The age of the next hash store.
    pub next_age: u64,
    /// Newest first.
    pub young: Vec<YoungName>,
    /// In the order of their hashes.
    pub parts: Vec<PartName>,
}

impl Contents {
    pub(super) fn of(version: &Version, options: &HashedOptions) -> Contents {
        let young = version.young.iter().map(|young| YoungName {
            age: young.age,
            base: young.run.base(),
            run: *young.run.pointer(),
        });
        let parts = version.parts.iter().map(|part| PartName {
            upto: part.upto,
            run: part.run.as_ref().map(|run| *run.pointer()),
        });
        Contents {
            index: options.index,
            parts_log: options.parts_log,
            next_age: version.next_age,
            young: young.collect(),
            parts: parts.collect(),
        }
    }

    /// Returns the bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let index = match self.index {
            IndexKind::PaCHash => 0,
            IndexKind::Trie => 1,
        };
        Writer::new(&mut out)
            .u8(index)
            .u8(self.parts_log)
            .varint(self.next_age)
            .varint(self.young.len() as u64);
        for young in &self.young {
            Writer::new(&mut out).varint(young.age).varint(young.base);
            young.run.encode(&mut out);
        }
        for part in &self.parts {
            Writer::new(&mut out)
                .varint(part.upto)
                .u8(u8::from(part.run.is_some()));
            if let Some(run) = &part.run {
                run.encode(&mut out);
            }
        }
        out
    }

    /// Reads contents.
    ///
    /// # Errors
    /// [`Error::Corrupt`] at `place`.
    pub fn decode(bytes: &[u8], place: &Place, page_size: PageSize) -> Result<Contents> {
        let bad = |found: String| Error::corrupt(place.clone(), "the contents of a hashed structure", found);
        let mut reader = Reader::new(bytes);
        let contents = read(&mut reader, place, page_size).map_err(|error| match error {
            Bad::Cut(cut) => bad(cut.to_string()),
            Bad::Pointer(error) => *error,
            Bad::Other(found) => bad(found),
        })?;
        match reader.left() {
            0 => Ok(contents),
            left => Err(bad(format!("{left} bytes behind its end"))),
        }
    }
}

/// Why contents cannot be read.
enum Bad {
    Cut(Truncated),
    Pointer(Box<Error>),
    Other(String),
}

impl From<Truncated> for Bad {
    fn from(cut: Truncated) -> Bad {
        Bad::Cut(cut)
    }
}

fn read(reader: &mut Reader<'_>, place: &Place, page_size: PageSize) -> std::result::Result<Contents, Bad> {
    let pointer = |reader: &mut Reader<'_>| {
        let bytes = reader.take(ValuePointer::BYTES)?;
        ValuePointer::decode(bytes, place, page_size).map_err(|error| Bad::Pointer(Box::new(error)))
    };
    let index = match reader.u8()? {
        0 => IndexKind::PaCHash,
        1 => IndexKind::Trie,
        other => return Err(Bad::Other(format!("index {other}"))),
    };
    let parts_log = reader.u8()?;
    if parts_log > MOST_PARTS_LOG {
        return Err(Bad::Other(format!("2^{parts_log} parts")));
    }
    let next_age = reader.varint()?;
    let mut young: Vec<YoungName> = Vec::new();
    // Counts that are not true end with the bytes: whatever is counted takes some.
    for _ in 0..reader.varint()? {
        let (age, base) = (reader.varint()?, reader.varint()?);
        let run = pointer(reader)?;
        if age >= young.last().map_or(next_age, |newer| newer.age) {
            return Err(Bad::Other(format!("a hash store of age {age} out of order")));
        }
        young.push(YoungName { age, base, run });
    }
    let mut parts = Vec::new();
    for _ in 0..1u32 << parts_log {
        let upto = reader.varint()?;
        let run = match reader.u8()? {
            0 => None,
            1 => Some(pointer(reader)?),
            other => return Err(Bad::Other(format!("{other} runs of a part"))),
        };
        if upto > next_age {
            return Err(Bad::Other(format!("a part up to age {upto} of {next_age}")));
        }
        parts.push(PartName { upto, run });
    }
    let least = parts.iter().map(|part| part.upto).min().unwrap_or(0);
    match young.last() {
        Some(oldest) if oldest.age < least => Err(Bad::Other(format!(
            "a hash store of age {}, which all parts have",
            oldest.age
        ))),
        _ => Ok(Contents {
            index,
            parts_log,
            next_age,
            young,
            parts,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_storage::{Codec, NodePointer, Structure};

    fn place() -> Place {
        Place::new(Structure::Node, "a structure", 0)
    }

    fn pointer() -> ValuePointer {
        let node = NodePointer {
            offset: 8192,
            birth: 3,
            checksum: 5,
            encoded_len: 4096,
            tier: 0,
            pages: 1,
            codec: Codec::None,
        };
        ValuePointer {
            node,
            at: 0,
            len: 4000,
        }
    }

    fn example() -> Contents {
        let young = |age, base| YoungName {
            age,
            base,
            run: pointer(),
        };
        Contents {
            index: IndexKind::Trie,
            parts_log: 1,
            next_age: 7,
            young: vec![young(6, 300), young(4, 0)],
            parts: vec![
                PartName {
                    upto: 6,
                    run: Some(pointer()),
                },
                PartName { upto: 4, run: None },
            ],
        }
    }

    #[test]
    fn the_bytes_of_version_1_do_not_change() {
        let mut run = Vec::new();
        pointer().encode(&mut run);
        let mut expected = b"\x01\x01\x07\x02\x06\xac\x02".to_vec();
        expected.extend(&run);
        expected.extend(b"\x04\0");
        expected.extend(&run);
        expected.extend(b"\x06\x01");
        expected.extend(&run);
        expected.extend(b"\x04\0");
        assert_eq!(example().encode(), expected);
        assert_eq!(
            Contents::decode(&expected, &place(), PageSize::MIN).unwrap(),
            example()
        );
    }

    #[test]
    fn contents_that_are_cut_or_out_of_order_are_refused() {
        let bytes = example().encode();
        let decode = |bytes: &[u8]| Contents::decode(bytes, &place(), PageSize::MIN);
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err(), "{len} bytes");
        }
        assert!(decode(&[&bytes[..], b"\0"].concat()).is_err());
        let refused = |at: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            decode(&bytes).is_err()
        };
        assert!(refused(0, 2), "an index that there is not");
        assert!(refused(1, 13), "too many parts");
        assert!(refused(2, 6), "a hash store as old as the next");
        assert!(refused(4, 3), "hash stores out of order");
        assert!(refused(bytes.len() - 2, 5), "a hash store that all parts have");
        assert!(refused(bytes.len() - 2, 8), "a part newer than all");
        for at in 0..bytes.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let _ = refused(at, byte);
            }
        }
    }
}
