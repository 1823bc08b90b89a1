//! The encoding of the manifest, version 4. All integers are little-endian. A *varint* is an
//! integer in LEB128 encoding, with at most 10 bytes.
//!
//! The superblock payload, which is empty before the first checkpoint:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  version: 4 where a structure has several dictionaries, or 3
//!      1     1  0: the manifest follows; 1: a pointer to it follows
//!      2        the manifest, or the pointer (40), as the values of leaves have it
//! ```
//!
//! The manifest:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0        dictionaries (varint), by their numbers, each:
//!                 number (varint), kind (1), length of the root (varint), root
//!               keyspaces (varint) that are not in dictionary 0, by their numbers, each:
//!                 number (varint), number of its dictionary (varint)
//!               records of the catalog (varint), by their keys, each:
//!                 length of the key (varint), key, length of the value (varint), value
//!               the latest time that readers have read by, in milliseconds since 1970 (varint)
//!               dictionaries that are behind (varint), by their numbers, each:
//!                 number (varint), the last commit that it holds (varint), writes that it has not taken
//!                 (varint), their length (varint); the writes, by their sequences, each:
//!                   sequence (varint), length of its record (varint), record, as in the log
//! ```
//!
//! Version 2 ends before the time, and version 1 before the catalog's records. Both can still be
//! read. Up to version 3, a store has at most one dictionary of each structure.
//!
//! The number of a structure's first dictionary is listed in `crates/db/src/options/kind.rs`, and
//! each further one has a number that is a multiple of 256 higher. The root of levels and that of a
//! hashed structure begin with the options. No two dictionaries of a structure have the same ones.
//!
//! Keyspace number 0 is the catalog, which is in dictionary 0. The largest 32-bit number is never
//! used for a keyspace. Structure kinds have the same numbers as in catalog records; they are
//! listed in `crates/db/src/options/kind.rs`.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use crate::options::kind::{APART as APART_IDS, DictionaryId};
use crate::schema::format::{CATALOG, KeyspaceId};
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_storage::{DiskLocation, Error, PageSize, Result};
use std::collections::BTreeMap;

const VERSION: u8 = 4;
/// The version of stores with at most one dictionary of each structure.
const SINGLE_VERSION: u8 = 3;
const FIRST_VERSION: u8 = 1;
const HERE: u8 = 0;
const APART: u8 = 1;

/// A manifest entry, which describes one dictionary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DictionaryEntry {
    pub id: DictionaryId,
    /// Number of the dictionary's structure. See `options/kind.rs`.
    pub kind: u8,
    /// The root that the dictionary is opened from.
    pub root: Vec<u8>,
}

/// The dictionaries of a store, and the keyspaces in each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The dictionaries, sorted by their numbers.
    pub dictionaries: Vec<DictionaryEntry>,
    /// The dictionary of each keyspace. Unlisted keyspaces are in dictionary 0.
    pub keyspaces: BTreeMap<KeyspaceId, DictionaryId>,
    /// A second copy of the catalog's records, the first being in dictionary 0. `None` in a version
    /// 1 manifest.
    pub catalog: Option<BTreeMap<Vec<u8>, Vec<u8>>>,
    /// The latest time that any reader has compared with expiry times, in milliseconds since 1970.
    /// Stored only along with the catalog's records.
    pub time_ms: u64,
    /// The missing writes of each dictionary that has not received all commits up to the
    /// checkpoint.
    pub behind: BTreeMap<DictionaryId, DictionaryBacklog>,
}

/// The writes from before a checkpoint that a dictionary has not received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DictionaryBacklog {
    /// Sequence number of the last commit that the dictionary contains.
    pub cut: u64,
    /// Number of writes encoded in `writes`.
    pub count: u64,
    /// The writes in the manifest's encoding, each with its sequence number, length and record.
    pub writes: Vec<u8>,
}

impl DictionaryBacklog {
    /// Creates an empty backlog for a dictionary that contains every commit up to `cut`.
    #[must_use]
    pub fn new(cut: u64) -> DictionaryBacklog {
        DictionaryBacklog {
            cut,
            ..DictionaryBacklog::default()
        }
    }

    /// Appends a write and its sequence number. `record` is the write as encoded in a log record.
    pub fn push(&mut self, sequence: u64, record: &[u8]) {
        ByteWriter::new(&mut self.writes)
            .varint(sequence)
            .varint(record.len() as u64)
            .bytes(record);
        self.count += 1;
    }

    /// Iterates over the writes with their sequence numbers. A write that cannot be decoded yields
    /// an error.
    pub fn each(&self) -> impl Iterator<Item = std::result::Result<(u64, &[u8]), String>> {
        let mut reader = ByteReader::new(&self.writes);
        let mut one = move || {
            let sequence = reader.varint()?;
            let len = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
            Ok((sequence, reader.take(len)?))
        };
        (0..self.count).map(move |_| one().map_err(|error: TruncatedInput| error.to_string()))
    }
}

/// A decoded superblock payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SuperblockPayload {
    Inline(Manifest),
    /// The version of a manifest that is too long for the superblock payload, and a pointer to it.
    External(u8, ValuePointer),
}

impl SuperblockPayload {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            SuperblockPayload::Inline(manifest) => {
                let mut out = vec![manifest.version(), HERE];
                out.extend_from_slice(&manifest.encode());
                out
            }
            SuperblockPayload::External(version, pointer) => {
                let mut out = vec![*version, APART];
                pointer.encode(&mut out);
                out
            }
        }
    }

    /// Decodes a superblock payload, which must not be empty.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or [`Error::NewerFormat`], with the location `place`.
    pub fn decode(bytes: &[u8], place: &DiskLocation, page_size: PageSize) -> Result<SuperblockPayload> {
        let mut reader = ByteReader::new(bytes);
        let cut = |error: TruncatedInput| Error::corrupt(place.clone(), "a manifest", error.to_string());
        let (version, form) = (reader.u8().map_err(cut)?, reader.u8().map_err(cut)?);
        if version > VERSION {
            return Err(Error::NewerFormat {
                place: place.clone(),
                found: u32::from(version),
                supported: u32::from(VERSION),
            });
        }
        let rest = reader.take(reader.remaining()).map_err(cut)?;
        match (version, form) {
            (FIRST_VERSION..=VERSION, HERE) => Ok(SuperblockPayload::Inline(Manifest::decode(rest, place)?)),
            (FIRST_VERSION..=VERSION, APART) => {
                let pointer = ValuePointer::decode(rest, place, page_size)?;
                Ok(SuperblockPayload::External(version, pointer))
            }
            _ => {
                let found = format!("version {version}, form {form}");
                Err(Error::corrupt(
                    place.clone(),
                    "a manifest of version 1 to 4",
                    found,
                ))
            }
        }
    }
}

impl Manifest {
    /// Returns the lowest version that has everything in this manifest, so that earlier versions of
    /// the program can read it if possible.
    #[must_use]
    pub fn version(&self) -> u8 {
        match self.dictionaries.iter().any(|entry| entry.id >= APART_IDS) {
            true => VERSION,
            false => SINGLE_VERSION,
        }
    }

    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        ByteWriter::new(&mut out).varint(self.dictionaries.len() as u64);
        for DictionaryEntry { id, kind, root } in &self.dictionaries {
            ByteWriter::new(&mut out)
                .varint(u64::from(*id))
                .u8(*kind)
                .varint(root.len() as u64)
                .bytes(root);
        }
        ByteWriter::new(&mut out).varint(self.keyspaces.len() as u64);
        for (keyspace, dictionary) in &self.keyspaces {
            ByteWriter::new(&mut out)
                .varint(u64::from(*keyspace))
                .varint(u64::from(*dictionary));
        }
        let Some(catalog) = &self.catalog else {
            return out;
        };
        ByteWriter::new(&mut out).varint(catalog.len() as u64);
        for part in catalog.iter().flat_map(|(key, value)| [key, value]) {
            ByteWriter::new(&mut out).varint(part.len() as u64).bytes(part);
        }
        ByteWriter::new(&mut out)
            .varint(self.time_ms)
            .varint(self.behind.len() as u64);
        for (id, behind) in &self.behind {
            ByteWriter::new(&mut out)
                .varint(u64::from(*id))
                .varint(behind.cut)
                .varint(behind.count)
                .varint(behind.writes.len() as u64)
                .bytes(&behind.writes);
        }
        out
    }

    /// Decodes a manifest and checks that it lists the dictionary of every keyspace.
    ///
    /// # Errors
    /// [`Error::Corrupt`], with the location `place`.
    pub fn decode(bytes: &[u8], place: &DiskLocation) -> Result<Manifest> {
        let bad = |found: String| Error::corrupt(place.clone(), "a manifest", found);
        let mut reader = ByteReader::new(bytes);
        let manifest = read(&mut reader).map_err(|error| bad(error.to_string()))?;
        if reader.remaining() > 0 {
            return Err(bad(format!("{} bytes after its end", reader.remaining())));
        }
        let manifest =
            manifest.ok_or_else(|| bad("numbers that are out of order or out of bounds".to_owned()))?;
        let known = |id: &DictionaryId| manifest.entry(*id).is_some();
        match manifest.keyspaces.iter().find(|(_, id)| !known(id)) {
            None => Ok(manifest),
            Some((keyspace, id)) => Err(bad(format!(
                "keyspace {keyspace} in dictionary {id}, which does not exist"
            ))),
        }
    }

    /// Returns the entry of the dictionary with this number, or `None` if there is none.
    #[must_use]
    pub fn entry(&self, id: DictionaryId) -> Option<&DictionaryEntry> {
        let found = self.dictionaries.binary_search_by_key(&id, |entry| entry.id);
        found.ok().and_then(|at| self.dictionaries.get(at))
    }
}

/// Decodes a manifest. Returns `None` if its numbers do not ascend or are out of bounds.
fn read(reader: &mut ByteReader<'_>) -> std::result::Result<Option<Manifest>, TruncatedInput> {
    let mut manifest = Manifest::default();
    let mut sound = true;
    // Even if the count is wrong, this loop ends, because each entry takes at least one byte of the
    // input.
    for _ in 0..reader.varint()? {
        let id = reader.varint()?;
        let kind = reader.u8()?;
        let root = part(reader)?;
        sound &= manifest
            .dictionaries
            .last()
            .is_none_or(|last| u64::from(last.id) < id);
        sound &= id <= u64::from(DictionaryId::MAX);
        let id = id as DictionaryId;
        manifest.dictionaries.push(DictionaryEntry { id, kind, root });
    }
    for _ in 0..reader.varint()? {
        let (keyspace, id) = (reader.varint()?, reader.varint()?);
        let last = manifest.keyspaces.last_key_value();
        sound &= last.is_none_or(|(last, _)| u64::from(*last) < keyspace);
        // The catalog is always in dictionary 0. The largest number cannot be used, because a
        // keyspace's key range ends at the prefix of the next number.
        sound &= keyspace > u64::from(CATALOG) && keyspace < u64::from(KeyspaceId::MAX);
        sound &= id <= u64::from(DictionaryId::MAX);
        manifest
            .keyspaces
            .insert(keyspace as KeyspaceId, id as DictionaryId);
    }
    if reader.remaining() > 0 {
        let mut catalog = BTreeMap::new();
        for _ in 0..reader.varint()? {
            let (key, value) = (part(reader)?, part(reader)?);
            sound &= catalog.last_key_value().is_none_or(|(last, _)| *last < key);
            catalog.insert(key, value);
        }
        manifest.catalog = Some(catalog);
        if reader.remaining() > 0 {
            manifest.time_ms = reader.varint()?;
            for _ in 0..reader.varint()? {
                let id = reader.varint()?;
                let (cut, count) = (reader.varint()?, reader.varint()?);
                let writes = part(reader)?;
                sound &= manifest
                    .behind
                    .last_key_value()
                    .is_none_or(|(last, _)| u64::from(*last) < id);
                sound &= id <= u64::from(DictionaryId::MAX) && count <= writes.len() as u64;
                let behind = DictionaryBacklog { cut, count, writes };
                manifest.behind.insert(id as DictionaryId, behind);
            }
        }
    }
    Ok(sound.then_some(manifest))
}

/// Decodes a length-prefixed byte string.
fn part(reader: &mut ByteReader<'_>) -> std::result::Result<Vec<u8>, TruncatedInput> {
    let len = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
    Ok(reader.take(len)?.to_vec())
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use alluvium_storage::{NodeCodec, NodePointer, OnDiskObject};

    fn place() -> DiskLocation {
        DiskLocation::new(OnDiskObject::Superblock, "superblock", 0)
    }

    fn example() -> Manifest {
        let entry = |id, kind, root: &[u8]| DictionaryEntry {
            id,
            kind,
            root: root.to_vec(),
        };
        Manifest {
            dictionaries: vec![entry(0, 1, b"root"), entry(300, 77, b"")],
            keyspaces: BTreeMap::from([(5, 300), (1000, 0)]),
            catalog: Some(BTreeMap::from([
                (b"\0kone".to_vec(), b"record".to_vec()),
                (b"\0n".to_vec(), Vec::new()),
            ])),
            time_ms: 300,
            behind: BTreeMap::from([(300, behind())]),
        }
    }

    fn behind() -> DictionaryBacklog {
        let mut behind = DictionaryBacklog::new(7);
        behind.push(9, b"put");
        behind.push(400, b"");
        behind
    }

    const FIRST: &[u8] = b"\x01\x00\x02\x00\x01\x04root\xac\x02\x4d\x00\x02\x05\xac\x02\xe8\x07\x00";
    const SECOND: &[u8] = b"\x02\x00\x02\x00\x01\x04root\xac\x02\x4d\x00\x02\x05\xac\x02\xe8\x07\x00\x02\x05\0kone\x06record\x02\0n\x00";
    const BYTES: &[u8] = b"\x04\x00\x02\x00\x01\x04root\xac\x02\x4d\x00\x02\x05\xac\x02\xe8\x07\x00\x02\x05\0kone\x06record\x02\0n\x00\xac\x02\x01\xac\x02\x07\x02\x08\x09\x03put\x90\x03\x00";

    fn decode(bytes: &[u8]) -> Result<SuperblockPayload> {
        SuperblockPayload::decode(bytes, &place(), PageSize::MIN)
    }

    #[test]
    fn the_bytes_of_version_4_do_not_change_and_those_of_versions_1_to_3_are_read() {
        assert_eq!(SuperblockPayload::Inline(example()).encode(), BYTES);
        assert_eq!(decode(BYTES).unwrap(), SuperblockPayload::Inline(example()));
        let third = [b"\x03", &BYTES[1..]].concat();
        assert_eq!(decode(&third).unwrap(), SuperblockPayload::Inline(example()));
        let before = Manifest {
            time_ms: 0,
            behind: BTreeMap::new(),
            ..example()
        };
        assert_eq!(decode(SECOND).unwrap(), SuperblockPayload::Inline(before));
        let before = Manifest {
            catalog: None,
            time_ms: 0,
            behind: BTreeMap::new(),
            ..example()
        };
        assert_eq!(decode(FIRST).unwrap(), SuperblockPayload::Inline(before));
        let node = NodePointer {
            offset: 8192,
            birth: 3,
            checksum: 5,
            encoded_len: 4096,
            tier: 1,
            pages: 1,
            codec: NodeCodec::None,
        };
        let value = ValuePointer {
            node,
            at: 0,
            len: 4000,
        };
        let pointer = SuperblockPayload::External(3, value);
        let bytes = pointer.encode();
        assert_eq!((bytes.len(), &bytes[..2]), (42, &[3, 1][..]));
        assert_eq!(decode(&bytes).unwrap(), pointer);
    }

    #[test]
    fn earlier_versions_can_read_a_store_with_one_dictionary_of_each_structure() {
        let mut single = example();
        single.dictionaries[1].id = 255;
        assert_eq!((single.version(), example().version()), (3, 4));
        single.keyspaces.clear();
        single.behind.clear();
        let bytes = SuperblockPayload::Inline(single.clone()).encode();
        assert_eq!(bytes[0], 3);
        assert_eq!(decode(&bytes).unwrap(), SuperblockPayload::Inline(single));
    }

    #[test]
    fn a_manifest_that_is_cut_or_out_of_order_is_refused() {
        for len in 0..BYTES.len() {
            // Version 1 ends where the catalog's records begin, and version 2 where they end.
            let is_earlier = len == FIRST.len() || len == SECOND.len();
            assert_eq!(decode(&BYTES[..len]).is_err(), !is_earlier, "{len} bytes");
        }
        for len in 0..FIRST.len() {
            assert!(decode(&FIRST[..len]).is_err(), "{len} bytes");
        }
        assert!(decode(&[BYTES, b"\0"].concat()).is_err());
        let refused = |change: &dyn Fn(&mut Manifest)| {
            let mut manifest = example();
            change(&mut manifest);
            decode(&SuperblockPayload::Inline(manifest).encode()).is_err()
        };
        assert!(!refused(&|_| ()));
        assert!(refused(&|manifest| manifest.dictionaries.swap(0, 1)));
        assert!(refused(&|manifest| manifest.dictionaries[1].id = 0));
        assert!(refused(&|manifest| manifest.dictionaries[1].id = 301));
        assert!(refused(&|manifest| manifest.dictionaries.clear()));
        for number in [CATALOG, KeyspaceId::MAX] {
            assert!(refused(&|manifest| manifest.keyspaces.extend([(number, 300)])));
        }
    }

    #[test]
    fn writes_that_a_dictionary_has_not_taken_are_read_back() {
        let behind = behind();
        let all: Vec<_> = behind.each().collect();
        assert_eq!(all, [Ok((9, &b"put"[..])), Ok((400, &b""[..]))]);
        let short = DictionaryBacklog { count: 3, ..behind };
        assert!(short.each().last().unwrap().is_err());
    }

    #[test]
    fn a_newer_version_is_named() {
        let mut bytes = BYTES.to_vec();
        bytes[0] = 5;
        assert!(matches!(decode(&bytes), Err(Error::NewerFormat { found: 5, .. })));
        bytes[0] = 0;
        assert!(matches!(decode(&bytes), Err(Error::Corrupt { .. })));
    }
}
