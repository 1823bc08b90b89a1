//! On-disk encoding of a hashed structure in a checkpoint, version 1. All integers are
//! little-endian. A *varint* is LEB128 of at most 10 bytes.
//!
//! The version number is stored with the root (`crates/dictionary/src/blob/format.rs`). The
//! contents are:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  form: 0 SILT with a PaCHash index, 1 SILT with a trie, 2 a bundle of arrays with
//!                 filters of latest runs, 3 one with filters of sketches, 4 a bundle of trees
//!      1     1  logarithm of the number of parts
//!               of a bundle: log2 λ (1), the seed of hashes (8)
//!      …        age of the next hash store (varint)
//!               hash stores (varint), newest first, each:
//!                 age (varint), base of its sequence numbers (varint), pointer to its description (40)
//!               each part:
//!                 up to which age it has taken hash stores (varint)
//!                 of SILT: 1 and the pointer to its run's description (40); 0 if it has no record
//!                 of a bundle: levels (varint), newest first, each:
//!                   runs (varint), oldest first, each: up to which age (varint), pointer (40)
//!                   of arrays: 1 and the pointer to its filter's description (40); 0 if it has none
//!                   of trees: 1 and its tree, `hashed/trees/format.rs`; 0 if it has no run
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::options::{HashedForm, HashedOptions, IndexKind, MOST_PARTS_LOG};
use super::state::{HashedVersion, PartitionLevel};
use super::trees::names::TreeName;
use alluvium_base::SequenceNumber;
use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_dictionary::key::SEED;
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_storage::{DiskLocation, Error, PageSize, Result};

/// Encoded reference to a hash store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashStoreName {
    /// Age of the hash store. Newer hash stores have greater ages.
    pub age: u64,
    /// Number to add to the relative sequence numbers in the hash store.
    pub base: SequenceNumber,
    /// Pointer to the description from which the run is opened.
    pub run: ValuePointer,
}

/// Encoded reference to a run in a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelRunName {
    /// The run contains data only from hash stores with ages below this.
    pub upto: u64,
    /// Pointer to the description from which the run is opened.
    pub run: ValuePointer,
}

/// Encoded references of one level in a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelName {
    /// Runs of the level, oldest first.
    pub runs: Vec<LevelRunName>,
    /// Pointer to the description of the level's routing filter, if there is one.
    pub filter: Option<ValuePointer>,
    /// In a bundle of trees, the routing tree above the level's runs.
    pub tree: Option<TreeName>,
}

/// Encoded references of one part. In SILT's form, a part has at most one level with one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartName {
    /// The part contains the data of all hash stores with ages below this.
    pub upto: u64,
    /// Levels of the part, newest first.
    pub levels: Vec<LevelName>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashedContents {
    /// How data older than the hash stores is organised.
    pub form: HashedForm,
    /// Hash seed for keys.
    pub seed: u64,
    /// Kind of index that locates the leaves of the sorted store.
    pub index: IndexKind,
    /// Base-2 logarithm of the number of parts.
    pub parts_log: u8,
    /// Age of the next hash store.
    pub next_age: u64,
    /// References to the hash stores, newest first.
    pub young: Vec<HashStoreName>,
    /// References to the parts, in hash order.
    pub parts: Vec<PartName>,
}

const SILT_PACHASH: u8 = 0;
const SILT_TRIE: u8 = 1;
const BOA_LATEST: u8 = 2;
const BOA_SKETCHES: u8 = 3;
const BOT: u8 = 4;

/// Appends a byte that tells whether there is a pointer, and then the pointer if there is one.
fn optional(pointer: Option<&ValuePointer>, out: &mut Vec<u8>) {
    ByteWriter::new(out).u8(u8::from(pointer.is_some()));
    if let Some(pointer) = pointer {
        pointer.encode(out);
    }
}

impl LevelName {
    fn encode(&self, form: HashedForm, out: &mut Vec<u8>) {
        ByteWriter::new(out).varint(self.runs.len() as u64);
        for run in &self.runs {
            ByteWriter::new(out).varint(run.upto);
            run.run.encode(out);
        }
        if !matches!(form, HashedForm::Bot { .. }) {
            return optional(self.filter.as_ref(), out);
        }
        ByteWriter::new(out).u8(u8::from(self.tree.is_some()));
        if let Some(tree) = &self.tree {
            tree.encode(out);
        }
    }
}

impl HashedContents {
    pub(super) fn of(version: &HashedVersion, options: &HashedOptions) -> HashedContents {
        let young = version.young.iter().map(|young| HashStoreName {
            age: young.age,
            base: young.run.base(),
            run: *young.run.pointer(),
        });
        let level = |level: &PartitionLevel| LevelName {
            runs: level
                .runs
                .iter()
                .map(|run| LevelRunName {
                    upto: run.upto,
                    run: *run.run.pointer(),
                })
                .collect(),
            filter: level.filter.as_ref().map(|filter| *filter.pointer()),
            tree: level.tree.as_ref().map(TreeName::of),
        };
        let parts = version.parts.iter().map(|part| PartName {
            upto: part.upto,
            levels: part.levels.iter().map(level).collect(),
        });
        HashedContents {
            form: options.form,
            seed: options.own_seed(),
            index: options.index,
            parts_log: options.parts_log,
            next_age: version.next_age,
            young: young.collect(),
            parts: parts.collect(),
        }
    }

    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let form = match (self.form, self.index) {
            (HashedForm::Silt, IndexKind::PaCHash) => SILT_PACHASH,
            (HashedForm::Silt, IndexKind::Trie) => SILT_TRIE,
            (HashedForm::Boa { refined: false, .. }, _) => BOA_LATEST,
            (HashedForm::Boa { refined: true, .. }, _) => BOA_SKETCHES,
            (HashedForm::Bot { .. }, _) => BOT,
        };
        ByteWriter::new(&mut out).u8(form).u8(self.parts_log);
        if self.form != HashedForm::Silt {
            ByteWriter::new(&mut out)
                .u8(self.form.character_bits())
                .u64(self.seed);
        }
        ByteWriter::new(&mut out)
            .varint(self.next_age)
            .varint(self.young.len() as u64);
        for young in &self.young {
            ByteWriter::new(&mut out).varint(young.age).varint(young.base);
            young.run.encode(&mut out);
        }
        for part in &self.parts {
            ByteWriter::new(&mut out).varint(part.upto);
            match self.form {
                HashedForm::Silt => {
                    let run = part.levels.iter().find_map(|level| level.runs.first());
                    optional(run.map(|run| &run.run), &mut out);
                }
                form @ (HashedForm::Boa { .. } | HashedForm::Bot { .. }) => {
                    ByteWriter::new(&mut out).varint(part.levels.len() as u64);
                    part.levels.iter().for_each(|level| level.encode(form, &mut out));
                }
            }
        }
        out
    }

    /// Decodes the contents of a hashed structure.
    ///
    /// # Errors
    /// [`Error::Corrupt`], with the location `place`, if the bytes are not valid contents.
    pub fn decode(bytes: &[u8], place: &DiskLocation, page_size: PageSize) -> Result<HashedContents> {
        let bad = |found: String| Error::corrupt(place.clone(), "the contents of a hashed structure", found);
        let mut reader = ByteReader::new(bytes);
        let contents = read(&mut reader, place, page_size).map_err(|error| match error {
            ContentsError::Cut(cut) => bad(cut.to_string()),
            ContentsError::Pointer(error) => *error,
            ContentsError::Other(found) => bad(found),
        })?;
        match reader.remaining() {
            0 => Ok(contents),
            left => Err(bad(format!("{left} bytes after its end"))),
        }
    }
}

/// Why the contents are invalid.
enum ContentsError {
    Cut(TruncatedInput),
    Pointer(Box<Error>),
    Other(String),
}

impl From<TruncatedInput> for ContentsError {
    fn from(cut: TruncatedInput) -> ContentsError {
        ContentsError::Cut(cut)
    }
}

impl From<String> for ContentsError {
    fn from(found: String) -> ContentsError {
        ContentsError::Other(found)
    }
}

fn read(
    reader: &mut ByteReader<'_>,
    place: &DiskLocation,
    page_size: PageSize,
) -> std::result::Result<HashedContents, ContentsError> {
    let pointer = |reader: &mut ByteReader<'_>| {
        let bytes = reader.take(ValuePointer::BYTES)?;
        ValuePointer::decode(bytes, place, page_size).map_err(|error| ContentsError::Pointer(Box::new(error)))
    };
    let (kind, parts_log) = (reader.u8()?, reader.u8()?);
    if kind > BOT || parts_log > MOST_PARTS_LOG {
        return Err(ContentsError::Other(format!(
            "form {kind} with 2^{parts_log} parts"
        )));
    }
    let (form, seed) = form_of(kind, reader)?;
    let index = match kind {
        SILT_TRIE => IndexKind::Trie,
        _ => IndexKind::PaCHash,
    };
    let next_age = reader.varint()?;
    let mut young: Vec<HashStoreName> = Vec::new();
    // A wrong count cannot cause a large allocation, because every element takes up input bytes.
    for _ in 0..reader.varint()? {
        let (age, base) = (reader.varint()?, reader.varint()?);
        let run = pointer(reader)?;
        if age >= young.last().map_or(next_age, |newer| newer.age) {
            return Err(ContentsError::Other(format!(
                "a hash store of age {age} out of order"
            )));
        }
        young.push(HashStoreName { age, base, run });
    }
    let mut parts = Vec::new();
    for _ in 0..1u32 << parts_log {
        let upto = reader.varint()?;
        if upto > next_age {
            return Err(ContentsError::Other(format!(
                "a part up to age {upto} of {next_age}"
            )));
        }
        let levels = match form {
            HashedForm::Silt => {
                let run = optional_of(reader, &pointer)?.map(|run| LevelName {
                    runs: vec![LevelRunName { upto, run }],
                    ..LevelName::default()
                });
                run.into_iter().collect()
            }
            form => levels(reader, (form, parts_log), upto, &pointer)?,
        };
        parts.push(PartName { upto, levels });
    }
    let least = parts.iter().map(|part| part.upto).min().unwrap_or(0);
    match young.last() {
        Some(oldest) if oldest.age < least => Err(ContentsError::Other(format!(
            "a hash store of age {}, which all parts have",
            oldest.age
        ))),
        _ => Ok(HashedContents {
            form,
            seed,
            index,
            parts_log,
            next_age,
            young,
            parts,
        }),
    }
}

/// Decodes λ and the seed, which are stored only for bundles. SILT's form always uses the standard
/// seed.
fn form_of(kind: u8, reader: &mut ByteReader<'_>) -> std::result::Result<(HashedForm, u64), ContentsError> {
    if kind <= SILT_TRIE {
        return Ok((HashedForm::Silt, SEED));
    }
    let (bits, seed) = (reader.u8()?, reader.u64()?);
    if !(1..=8).contains(&bits) {
        return Err(ContentsError::Other(format!("characters of {bits} bits")));
    }
    let lambda = 1 << bits;
    let form = match kind {
        BOT => HashedForm::Bot { lambda },
        _ => HashedForm::Boa {
            lambda,
            refined: kind == BOA_SKETCHES,
        },
    };
    Ok((form, seed))
}

/// Decodes a pointer that [`optional`] has written.
fn optional_of(
    reader: &mut ByteReader<'_>,
    pointer: &impl Fn(&mut ByteReader<'_>) -> std::result::Result<ValuePointer, ContentsError>,
) -> std::result::Result<Option<ValuePointer>, ContentsError> {
    match reader.u8()? {
        0 => Ok(None),
        1 => Ok(Some(pointer(reader)?)),
        other => Err(ContentsError::Other(format!("{other} runs or filters"))),
    }
}

/// Decodes the tree of a level with `runs` runs. Returns `None` for a level without runs.
fn tree_of(
    reader: &mut ByteReader<'_>,
    bits: (u8, u8),
    runs: usize,
    pointer: &impl Fn(&mut ByteReader<'_>) -> std::result::Result<ValuePointer, ContentsError>,
) -> std::result::Result<Option<TreeName>, ContentsError> {
    match (reader.u8()?, runs) {
        (0, 0) => Ok(None),
        (1, 1..) => {
            let pointer = |reader: &mut ByteReader<'_>| optional_of(reader, pointer);
            TreeName::decode(reader, bits, runs, &pointer).map(Some)
        }
        (found, runs) => Err(ContentsError::Other(format!("{found} trees of {runs} runs"))),
    }
}

/// Decodes the levels of a part and checks their order (U1, U3, V1).
fn levels(
    reader: &mut ByteReader<'_>,
    (form, parts_log): (HashedForm, u8),
    upto: u64,
    pointer: &impl Fn(&mut ByteReader<'_>) -> std::result::Result<ValuePointer, ContentsError>,
) -> std::result::Result<Vec<LevelName>, ContentsError> {
    let mut levels = Vec::new();
    // Every run from here on must contain only hash stores below this age.
    let mut above = upto.saturating_add(1);
    for _ in 0..reader.varint()? {
        let (count, mut level) = (reader.varint()?, LevelName::default());
        if let HashedForm::Boa { lambda, .. } = form
            && count >= lambda.into()
        {
            return Err(ContentsError::Other(format!(
                "too many runs in a level: {count} (U3)"
            )));
        }
        for _ in 0..count {
            let upto = reader.varint()?;
            if level.runs.last().is_some_and(|older| older.upto >= upto) || upto >= above {
                return Err(ContentsError::Other(format!(
                    "a run up to age {upto} out of order (U1)"
                )));
            }
            level.runs.push(LevelRunName {
                upto,
                run: pointer(reader)?,
            });
        }
        if let HashedForm::Bot { .. } = form {
            let bits = (parts_log, form.character_bits());
            level.tree = tree_of(reader, bits, level.runs.len(), pointer)?;
        } else {
            level.filter = optional_of(reader, pointer)?;
        }
        if level.filter.is_some() && count == 0 {
            return Err(ContentsError::Other(
                "a level with a filter but no runs (U4)".to_owned(),
            ));
        }
        above = level.runs.first().map_or(above, |oldest| oldest.upto);
        levels.push(level);
    }
    match levels.last() {
        Some(last) if last.runs.is_empty() => {
            Err(ContentsError::Other("no runs in the last level".to_owned()))
        }
        _ => Ok(levels),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_storage::{NodeCodec, NodePointer, OnDiskObject};

    fn place() -> DiskLocation {
        DiskLocation::new(OnDiskObject::Node, "a structure", 0)
    }

    fn pointer() -> ValuePointer {
        let node = NodePointer {
            offset: 8192,
            birth: 3,
            checksum: 5,
            encoded_len: 4096,
            tier: 0,
            pages: 1,
            codec: NodeCodec::None,
        };
        ValuePointer {
            node,
            at: 0,
            len: 4000,
        }
    }

    fn silts(upto: u64) -> LevelName {
        LevelName {
            runs: vec![LevelRunName { upto, run: pointer() }],
            ..LevelName::default()
        }
    }

    fn bundle() -> HashedContents {
        let run = |upto| LevelRunName { upto, run: pointer() };
        let newest = LevelName {
            runs: vec![run(5), run(6)],
            filter: Some(pointer()),
            tree: None,
        };
        HashedContents {
            form: HashedForm::Boa {
                lambda: 4,
                refined: true,
            },
            seed: 0x0102_0304_0506_0708,
            index: IndexKind::PaCHash,
            parts: vec![
                PartName {
                    upto: 6,
                    levels: vec![newest, LevelName::default(), silts(2)],
                },
                PartName {
                    upto: 4,
                    levels: Vec::new(),
                },
            ],
            ..example()
        }
    }

    fn example() -> HashedContents {
        let young = |age, base| HashStoreName {
            age,
            base,
            run: pointer(),
        };
        HashedContents {
            form: HashedForm::Silt,
            seed: SEED,
            index: IndexKind::Trie,
            parts_log: 1,
            next_age: 7,
            young: vec![young(6, 300), young(4, 0)],
            parts: vec![
                PartName {
                    upto: 6,
                    levels: vec![silts(6)],
                },
                PartName {
                    upto: 4,
                    levels: Vec::new(),
                },
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
            HashedContents::decode(&expected, &place(), PageSize::MIN).unwrap(),
            example()
        );
    }

    #[test]
    fn the_bytes_of_a_bundle_do_not_change() {
        let mut run = Vec::new();
        pointer().encode(&mut run);
        let mut expected = b"\x03\x01\x02\x08\x07\x06\x05\x04\x03\x02\x01\x07\x02\x06\xac\x02".to_vec();
        expected.extend(&run);
        expected.extend(b"\x04\0");
        expected.extend(&run);
        for before in [&b"\x06\x03\x02\x05"[..], b"\x06", b"\x01", b"\0\0\x01\x02"] {
            expected.extend(before);
            expected.extend(&run);
        }
        expected.extend(b"\0\x04\0");
        assert_eq!(bundle().encode(), expected);
        let decode = |bytes: &[u8]| HashedContents::decode(bytes, &place(), PageSize::MIN);
        assert_eq!(decode(&expected).unwrap(), bundle());
        for len in 0..expected.len() {
            assert!(decode(&expected[..len]).is_err(), "{len} bytes");
        }
        let with = |change: &dyn Fn(&mut HashedContents)| {
            let mut contents = bundle();
            change(&mut contents);
            decode(&contents.encode()).is_err()
        };
        assert!(
            with(&|all| all.parts[0].levels[0].runs[0].upto = 6),
            "two of one age"
        );
        assert!(
            with(&|all| all.parts[0].levels[0].runs[1].upto = 7),
            "newer than its part"
        );
        assert!(
            with(&|all| all.parts[0].levels[2].runs[0].upto = 5),
            "a level out of order"
        );
        assert!(
            with(&|all| all.parts[0].levels[1].filter = Some(pointer())),
            "of no runs"
        );
        assert!(
            with(&|all| all.parts[0].levels[2].runs.clear()),
            "no runs in the last level"
        );
        assert!(
            with(&|all| {
                let runs = (0..4).map(|upto| LevelRunName { upto, run: pointer() });
                all.parts[0].levels = vec![LevelName {
                    runs: runs.collect(),
                    ..LevelName::default()
                }];
            }),
            "as many runs as λ (U3)"
        );
        for at in 0..expected.len() {
            for byte in [0, 1, 9, 0x7f, 0x80, 0xff] {
                let mut damaged = expected.clone();
                damaged[at] = byte;
                let _ = decode(&damaged);
            }
        }
    }

    #[test]
    fn contents_that_are_cut_or_out_of_order_are_refused() {
        let bytes = example().encode();
        let decode = |bytes: &[u8]| HashedContents::decode(bytes, &place(), PageSize::MIN);
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err(), "{len} bytes");
        }
        assert!(decode(&[&bytes[..], b"\0"].concat()).is_err());
        let refused = |at: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            decode(&bytes).is_err()
        };
        assert!(refused(0, 5), "a form that there is not");
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
