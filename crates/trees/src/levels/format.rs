//! The format of an LSM tree's contents in a checkpoint, version 2. All integers are little-endian;
//! a *varint* is LEB128 of at most 10 bytes. Version 1 has no key ranges: every run is live for all
//! keys.
//!
//! The root stores the version number (see `crates/dictionary/src/blob/format.rs`). The contents
//! are:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  bits of a fingerprint; 128 more if not every run counts for all keys
//!      1        length of the policy (varint), the policy as text, with what is kept of stitching
//!               age of the next run (varint)
//!               levels (varint), newest first, each:
//!                 runs (varint), oldest first, each:
//!                   the first of its ages (varint), the last less the first (varint),
//!                   the least sequence number of its records (varint),
//!                   pointer to its footer (32), pointer to its maplet (32)
//!                   if not every run counts for all keys, those of which it does:
//!                     length of the least (varint), the least,
//!                     0, or length of the end and 1 (varint), the end, which is not one of them
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::options::{LevelsOptions, MergePolicy};
use super::state::{LevelMember, LevelRuns, LevelsVersion, RunAge};
use crate::maplet::Maplet;
use crate::merge::stitch::StitchPolicy;
use crate::run::IndexedRun;
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_base::{Purpose, SequenceNumber};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::read::DataFiles;
use alluvium_storage::store::Store;
use alluvium_storage::{DiskLocation, Error, NodePointer, PageSize, Result};
use std::sync::Arc;

/// Maximum number of levels that the decoder accepts. Real structures have far fewer, because each
/// level has at least twice the capacity of the level above it.
const MOST_LEVELS: u64 = 4096;

/// A flag in the first byte. If it is set, each run's entry ends with the key range in which the
/// run is live.
const HAS_RANGES: u8 = 128;

/// A run's entry in the stored contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLevelRun {
    /// The lowest and highest age of the run.
    pub ages: (u64, u64),
    /// Lower bound for the sequence numbers of records. Readers use it in place of any smaller
    /// sequence number stored in the run.
    pub base: SequenceNumber,
    /// Pointer to the run's footer, from which the run is opened.
    pub run: NodePointer,
    /// Pointer to the directory of the run's maplet.
    pub maplet: NodePointer,
    /// The key range in which the run is live.
    pub range: KeyRange,
}

/// The decoded contents of an LSM tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelsContents {
    pub fingerprint_bits: u8,
    pub policy: MergePolicy,
    /// Which leaves a merge adopts. The default, which copies every leaf, is not written.
    pub stitching: StitchPolicy,
    /// The age that the next new run will get.
    pub next_age: u64,
    /// The runs of each level, from oldest to newest. Lower levels have newer data.
    pub levels: Vec<Vec<StoredLevelRun>>,
}

impl LevelsContents {
    pub(super) fn of(version: &LevelsVersion, options: &LevelsOptions) -> LevelsContents {
        let name = |member: &Arc<LevelMember>| StoredLevelRun {
            ages: member.ages,
            base: member.run.base(),
            run: *member.run.pointer(),
            maplet: *member.maplet.pointer(),
            range: member.range.clone(),
        };
        let levels = version.levels.iter();
        LevelsContents {
            fingerprint_bits: options.fingerprint_bits,
            policy: options.policy.clone(),
            stitching: options.stitching,
            next_age: version.next_age,
            levels: levels.map(|level| level.iter().map(name).collect()).collect(),
        }
    }

    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let everything = KeyRange::everything();
        let has_ranges = self.newest_first().any(|name| name.range != everything);
        assert!(self.fingerprint_bits < HAS_RANGES, "fingerprints are short");
        let mut out = vec![self.fingerprint_bits | if has_ranges { HAS_RANGES } else { 0 }];
        let policy = format!("{}{}", self.policy, self.stitching);
        ByteWriter::new(&mut out)
            .varint(policy.len() as u64)
            .bytes(policy.as_bytes())
            .varint(self.next_age)
            .varint(self.levels.len() as u64);
        for level in &self.levels {
            ByteWriter::new(&mut out).varint(level.len() as u64);
            for name in level {
                assert!(name.ages.0 <= name.ages.1, "ages ascend (V2)");
                ByteWriter::new(&mut out)
                    .varint(name.ages.0)
                    .varint(name.ages.1 - name.ages.0)
                    .varint(name.base);
                name.run.encode(&mut out);
                name.maplet.encode(&mut out);
                if has_ranges {
                    encode_range(&name.range, &mut out);
                }
            }
        }
        out
    }

    /// Decodes the contents of an LSM tree. Error messages name `place` as the location of `bytes`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] at `place` if the contents are invalid.
    pub fn decode(bytes: &[u8], place: &DiskLocation, page_size: PageSize) -> Result<LevelsContents> {
        let mut decoder = ContentsDecoder {
            reader: ByteReader::new(bytes),
            place,
            page_size,
        };
        let contents = decoder.contents()?;
        if decoder.reader.remaining() > 0 {
            return Err(decoder.bad("the end", format!("{} bytes more", decoder.reader.remaining())));
        }
        Ok(contents)
    }

    /// Returns the entries of all runs, from newest to oldest.
    pub fn newest_first(&self) -> impl Iterator<Item = &StoredLevelRun> {
        self.levels.iter().flat_map(|level| level.iter().rev())
    }

    pub(super) fn open(&self, store: &Store) -> Result<LevelRuns> {
        let mut levels = LevelRuns::new();
        for level in &self.levels {
            let mut runs = Vec::new();
            for name in level {
                runs.push(Arc::new(name.open_from(DataFiles::of(store), Purpose::Trunk)?));
            }
            levels.push(runs);
        }
        Ok(levels)
    }
}

/// Appends the key range of a run to `out`.
fn encode_range(range: &KeyRange, out: &mut Vec<u8>) {
    let mut writer = ByteWriter::new(out);
    writer.varint(range.low.len() as u64).bytes(&range.low);
    match &range.high {
        None => writer.varint(0),
        Some(high) => writer.varint(high.len() as u64 + 1).bytes(high),
    };
}

impl StoredLevelRun {
    /// Opens the run and its maplet directly from data files, so that the store need not be open.
    pub(super) fn open_from(&self, files: DataFiles<'_>, purpose: Purpose) -> Result<LevelMember> {
        Ok(LevelMember {
            ages: self.ages,
            run: IndexedRun::open_from(files, &self.run, purpose)?.based(self.base),
            maplet: Maplet::open_from(files, &self.maplet, purpose)?,
            range: self.range.clone(),
        })
    }
}

struct ContentsDecoder<'b> {
    reader: ByteReader<'b>,
    place: &'b DiskLocation,
    page_size: PageSize,
}

impl<'b> ContentsDecoder<'b> {
    fn bad(&self, expected: &str, found: impl Into<String>) -> Error {
        let expected = format!(
            "{expected} at byte {} of the contents of levels",
            self.reader.position()
        );
        Error::corrupt(self.place.clone(), expected, found.into())
    }

    fn read<T>(
        &mut self,
        read: impl FnOnce(&mut ByteReader<'b>) -> std::result::Result<T, TruncatedInput>,
    ) -> Result<T> {
        read(&mut self.reader).map_err(|cut| self.bad("more bytes", cut.to_string()))
    }

    fn contents(&mut self) -> Result<LevelsContents> {
        let first = self.read(ByteReader::u8)?;
        let (fingerprint_bits, has_ranges) = (first & !HAS_RANGES, first & HAS_RANGES != 0);
        let len = usize::try_from(self.read(ByteReader::varint)?).unwrap_or(usize::MAX);
        let text = self.read(|reader| reader.take(len))?;
        let said = std::str::from_utf8(text).ok();
        let said = said.and_then(|text| StitchPolicy::split(text).ok());
        let said = said.and_then(|(policy, stitching)| Some((policy.parse().ok()?, stitching)));
        let Some((policy, stitching)) = said else {
            return Err(self.bad("a policy", format!("\"{}\"", text.escape_ascii())));
        };
        let next_age = self.read(ByteReader::varint)?;
        let count = self.read(ByteReader::varint)?;
        if count > MOST_LEVELS {
            return Err(self.bad("the number of levels", count.to_string()));
        }
        let mut levels = Vec::new();
        // Newer levels come first, so ages decrease from one level to the next.
        let mut above = next_age;
        for _ in 0..count {
            let level = self.level(above, has_ranges)?;
            above = level
                .first()
                .map_or(above, |oldest: &StoredLevelRun| oldest.ages.0);
            levels.push(level);
        }
        Ok(LevelsContents {
            fingerprint_bits,
            policy,
            stitching,
            next_age,
            levels,
        })
    }

    fn level(&mut self, above: RunAge, has_ranges: bool) -> Result<Vec<StoredLevelRun>> {
        let mut level: Vec<StoredLevelRun> = Vec::new();
        // If a damaged count is too high, decoding stops at the end of the input, because every run
        // takes at least one byte.
        for _ in 0..self.read(ByteReader::varint)? {
            let first = self.read(ByteReader::varint)?;
            let more = self.read(ByteReader::varint)?;
            let last = first.saturating_add(more);
            let ages = (first, last);
            let before = level.last();
            let is_newer = before.is_none_or(|older| older.ages.1 < first);
            let is_beside = before.is_some_and(|other| other.ages == ages);
            let end = before.and_then(|other| other.range.high.clone());
            if !(is_newer || is_beside && has_ranges) || last >= above {
                return Err(self.bad("the age of a run", format!("{first} to {last}")));
            }
            let base = self.read(ByteReader::varint)?;
            let run = NodePointer::decode(&mut self.reader, self.place, self.page_size)?;
            let maplet = NodePointer::decode(&mut self.reader, self.place, self.page_size)?;
            let range = match has_ranges {
                true => self.range()?,
                false => KeyRange::everything(),
            };
            if is_beside && end.is_none_or(|end| end > range.low) {
                return Err(self.bad("keys that no other run of its age has", format!("{range:?}")));
            }
            level.push(StoredLevelRun {
                ages,
                base,
                run,
                maplet,
                range,
            });
        }
        Ok(level)
    }

    /// Decodes the key range of a run.
    fn range(&mut self) -> Result<KeyRange> {
        let low = self.read(ByteReader::varint)?;
        let low = self.key(low)?;
        let high = match self.read(ByteReader::varint)? {
            0 => None,
            len => Some(self.key(len - 1)?),
        };
        let range = KeyRange::new(low, high);
        match range.is_empty() {
            true => Err(self.bad("keys of which a run counts", format!("{range:?}"))),
            false => Ok(range),
        }
    }

    /// Decodes a key of `len` bytes.
    fn key(&mut self, len: u64) -> Result<&'b [u8]> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.read(|reader| reader.take(len))
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use alluvium_dictionary::blob::BlobRoot;
    use alluvium_storage::{NodeCodec, OnDiskObject};

    fn place() -> DiskLocation {
        DiskLocation::new(OnDiskObject::Node, "levels", 0)
    }

    fn node_at(offset: u64) -> NodePointer {
        NodePointer {
            offset,
            birth: 7,
            checksum: 0x0102_0304_0506_0708,
            encoded_len: 4096,
            tier: 0,
            pages: 1,
            codec: NodeCodec::None,
        }
    }

    fn example() -> LevelsContents {
        let name = |ages, at: u64| StoredLevelRun {
            ages,
            base: 300,
            run: node_at(at << 17),
            maplet: node_at((at + 1) << 17),
            range: KeyRange::everything(),
        };
        LevelsContents {
            fingerprint_bits: 40,
            policy: "samt,k=4".parse().unwrap(),
            stitching: StitchPolicy::default(),
            next_age: 9,
            levels: vec![
                vec![name((7, 7), 1), name((8, 8), 3)],
                vec![],
                vec![name((0, 6), 5)],
            ],
        }
    }

    fn pointer_bytes(at: u64) -> Vec<u8> {
        let mut out = Vec::new();
        node_at(at << 17).encode(&mut out);
        out
    }

    #[test]
    fn the_bytes_of_version_1_do_not_change() {
        let mut expected = b"\x28\x08samt,k=4\x09\x03\x02".to_vec();
        let mut run = |head: &[u8], at| {
            expected.extend_from_slice(head);
            expected.extend(pointer_bytes(at));
            expected.extend(pointer_bytes(at + 1));
        };
        run(b"\x07\x00\xac\x02", 1);
        run(b"\x08\x00\xac\x02", 3);
        run(b"\x00\x01\x00\x06\xac\x02", 5);
        let bytes = example().encode();
        assert_eq!(bytes, expected);
        assert_eq!(
            LevelsContents::decode(&bytes, &place(), PageSize::MIN).unwrap(),
            example()
        );
        let root = BlobRoot::Here(&bytes).encode();
        assert_eq!(&root[..2], [1, 0]);
        assert_eq!(
            BlobRoot::decode(&root, &place(), PageSize::MIN).unwrap(),
            BlobRoot::Here(&bytes)
        );
        let mut stitched = example();
        stitched.stitching = StitchPolicy::split("samt,f=3,scan=8").unwrap().1;
        let bytes = stitched.encode();
        assert!(bytes.starts_with(b"\x28\x13samt,k=4,f=3,scan=8\x09"));
        assert_eq!(
            LevelsContents::decode(&bytes, &place(), PageSize::MIN).unwrap(),
            stitched
        );
        let newest: Vec<u64> = example().newest_first().map(|name| name.ages.1).collect();
        assert_eq!(newest, [8, 7, 6]);
    }

    /// Returns contents with two runs of the same age that are live for adjacent key ranges.
    fn in_parts() -> LevelsContents {
        let mut contents = example();
        let whole = contents.levels[2][0].clone();
        let part = |low: &[u8], high: Option<&[u8]>| StoredLevelRun {
            range: KeyRange::new(low, high),
            ..whole.clone()
        };
        contents.levels[2] = vec![part(b"", Some(b"ko")), part(b"ma", None)];
        contents
    }

    #[test]
    fn runs_are_named_with_the_keys_of_which_they_count() {
        let bytes = in_parts().encode();
        assert_eq!(bytes[0], 128 + 40);
        assert!(bytes.ends_with(&[&pointer_bytes(6)[..], b"\x02ma\x00"].concat()));
        let first = [&pointer_bytes(6)[..], b"\x00\x03ko\x00\x06"].concat();
        assert!(bytes.windows(first.len()).any(|window| window == first));
        let decode = |bytes: &[u8]| LevelsContents::decode(bytes, &place(), PageSize::MIN);
        assert_eq!(decode(&bytes).unwrap(), in_parts());
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err(), "{len} bytes");
        }
        for (low, high) in [(&b"kn"[..], None), (&b"z"[..], Some(&b"y"[..]))] {
            let mut wrong = in_parts();
            wrong.levels[2][1].range = KeyRange::new(low, high);
            assert!(decode(&wrong.encode()).is_err(), "{low:?} to {high:?}");
        }
        let mut endless = in_parts();
        endless.levels[2][0].range.high = None;
        assert!(
            decode(&endless.encode()).is_err(),
            "keys that two runs of an age have"
        );
    }

    #[test]
    fn contents_that_are_cut_or_out_of_order_are_refused() {
        let bytes = example().encode();
        let decode = |bytes: &[u8]| LevelsContents::decode(bytes, &place(), PageSize::MIN);
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err(), "{len} bytes");
        }
        assert!(decode(&[&bytes[..], b"\0"].concat()).is_err());
        let said = |at: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            decode(&bytes).unwrap_err().to_string()
        };
        assert!(said(9, b'1').contains("a policy"), "{}", said(9, b'1'));
        assert!(said(10, 8).contains("the age of a run"), "an age that is to come");
        let mut same = example();
        same.levels[2][0].ages = (7, 7);
        assert!(decode(&same.encode()).is_err(), "an age that two runs have");
        let mut newer = BlobRoot::Here(&bytes).encode();
        newer[0] = 2;
        let read = BlobRoot::decode(&newer, &place(), PageSize::MIN);
        assert!(matches!(read, Err(Error::NewerFormat { found: 2, .. })));
        assert!(BlobRoot::decode(&[1, 2], &place(), PageSize::MIN).is_err());
    }
}
