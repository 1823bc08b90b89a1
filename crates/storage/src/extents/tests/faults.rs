//! Tests that damage to an extent map is always detected and never causes a panic.

use super::*;
use crate::extents::format::{
    MapEntry, MapRecordBuilder, MapRecordHeader, decode_record, first_link, record_len,
};
use alluvium_base::bytes::ByteReader;
use alluvium_base::{Purpose, checksum};
use alluvium_device::{AlignedBuffer, BLOCK, FileOptions};

/// A store whose map consists of a snapshot and several deltas.
struct Sample {
    bed: Bed,
    pointer: MapPointer,
    bytes: Vec<u8>,
    installed: Vec<(Extent, u32)>,
}

fn sample() -> Sample {
    let bed = bed(2, ExtentOptions::default());
    let mut random = fastrand::Rng::with_seed(3);
    let mut installed: Vec<(Extent, u32)> = Vec::new();
    let mut pointer = bed.checkpoint(1);
    for generation in 2..9 {
        for _ in 0..60 {
            let units = random.u32(1..9);
            installed.push((bed.live(random.u8(..2), units, random.u64(..UNIT)), 1));
            let (extent, references) = random.choice(&mut installed).unwrap();
            if random.bool() {
                bed.extents.retain(*extent);
                *references += 1;
            }
            let at = random.usize(..installed.len());
            if random.bool() {
                let (extent, references) = installed.swap_remove(at);
                (0..references).for_each(|_| _ = bed.extents.release(extent, 0));
            }
        }
        pointer = bed.checkpoint(generation);
        bed.extents.reclaim(1, ReclaimLimit::default()).unwrap();
    }
    let bytes = read(&bed, &pointer);
    Sample {
        bed,
        pointer,
        bytes,
        installed,
    }
}

fn read(bed: &Bed, pointer: &MapPointer) -> Vec<u8> {
    let file = bed
        .directory
        .open(&map_file(pointer.file), FileOptions::DIRECT)
        .unwrap();
    file.read_at(0, file.len() as usize, Purpose::Check)
        .unwrap()
        .to_vec()
}

impl Sample {
    /// Opens the extents with a map file of the given bytes.
    fn open(&self, bytes: &[u8], pointer: &MapPointer) -> Result<Extents, Error> {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        let file = directory
            .create(&map_file(pointer.file), FileOptions::DIRECT)
            .unwrap();
        file.grow(bytes.len() as u64).unwrap();
        if !bytes.is_empty() {
            file.write_at(0, AlignedBuffer::padded(bytes), Purpose::Other)
                .unwrap();
        }
        Extents::open(
            &directory,
            Arc::clone(&self.bed.tiers),
            pointer,
            ExtentOptions::default(),
        )
    }

    #[track_caller]
    fn expect_corrupt(&self, bytes: &[u8], what: &str) {
        match self.open(bytes, &self.pointer) {
            // Damage must not be reported as a later format version, because a repair only handles
            // damage.
            Err(Error::Corrupt { .. }) => {}
            other => panic!("{what}: {other:?}"),
        }
    }
}

#[test]
fn the_sample_is_good_and_what_follows_its_prefix_does_not_matter() {
    let sample = sample();
    assert!(sample.pointer.records > 10 && sample.pointer.snapshot < sample.pointer.length);
    let mut bytes = sample.bytes.clone();
    bytes[sample.pointer.length as usize..].fill(0xa5);
    let opened = sample.open(&bytes, &sample.pointer).unwrap();
    assert_eq!(opened.check(sample.installed.iter().copied()), []);
}

#[test]
fn every_flipped_bit_of_the_prefix_is_found() {
    let sample = sample();
    let mut bytes = sample.bytes.clone();
    for at in 0..sample.pointer.length as usize {
        let bit = 1 << (at % 8);
        bytes[at] ^= bit;
        sample.expect_corrupt(&bytes, &format!("bit {} of byte {at}", at % 8));
        bytes[at] ^= bit;
    }
}

#[test]
fn zeroed_misdirected_stale_and_missing_blocks_are_found() {
    let sample = sample();
    let block = BLOCK as usize;
    let blocks = sample.pointer.length as usize / block;
    let part = |index: usize| index * block..(index + 1) * block;
    // Another store's map has the same shape but different contents.
    let stale = {
        let other = bed(2, ExtentOptions::default());
        let mut pointer = other.checkpoint(1);
        (2..9).for_each(|generation| {
            (0..60).for_each(|_| _ = other.live(0, 2, 7));
            pointer = other.checkpoint(generation);
        });
        read(&other, &pointer)
    };
    for index in 0..blocks {
        let mut zeroed = sample.bytes.clone();
        zeroed[part(index)].fill(0);
        sample.expect_corrupt(&zeroed, &format!("block {index} zeroed"));
        if stale[part(index)] != sample.bytes[part(index)] {
            let mut old = sample.bytes.clone();
            old[part(index)].copy_from_slice(&stale[part(index)]);
            sample.expect_corrupt(&old, &format!("block {index} of another store"));
        }
        sample.expect_corrupt(&sample.bytes[..index * block], &format!("cut at block {index}"));
        for from in (0..blocks).filter(|&from| sample.bytes[part(from)] != sample.bytes[part(index)]) {
            let mut misdirected = sample.bytes.clone();
            misdirected.copy_within(part(from), index * block);
            sample.expect_corrupt(&misdirected, &format!("block {from} over {index}"));
        }
    }
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let tiers = Arc::clone(&sample.bed.tiers);
    let missing = Extents::open(&directory, tiers, &sample.pointer, ExtentOptions::default());
    assert!(matches!(missing, Err(Error::Corrupt { .. })));
}

#[test]
fn a_pointer_to_anything_but_its_prefix_is_refused() {
    let sample = sample();
    let good = sample.pointer;
    let bad = [
        MapPointer {
            length: good.length - BLOCK,
            ..good
        },
        MapPointer {
            length: good.length + BLOCK,
            ..good
        },
        MapPointer {
            checksum: good.checksum ^ 1,
            ..good
        },
        MapPointer {
            generation: good.generation - 1,
            ..good
        },
        MapPointer {
            generation: good.generation + 1,
            ..good
        },
        MapPointer {
            snapshot: good.snapshot + BLOCK / 2,
            ..good
        },
        MapPointer {
            records: good.records - 1,
            ..good
        },
        MapPointer {
            file: good.file + 1,
            ..good
        },
    ];
    for pointer in bad {
        let error = sample.open(&sample.bytes, &pointer).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{pointer:?}: {error}");
    }
}

#[test]
fn a_tier_that_was_cut_short_is_found() {
    let sample = sample();
    let last = sample
        .installed
        .iter()
        .filter(|(extent, _)| extent.tier == 0)
        .map(|(extent, _)| extent.end())
        .max();
    let file = sample.bed.tiers.get(0).unwrap();
    file.truncate(u64::from(last.unwrap()) * UNIT).unwrap();
    assert!(sample.open(&sample.bytes, &sample.pointer).is_ok());
    file.truncate(u64::from(last.unwrap()) * UNIT - BLOCK).unwrap();
    sample.expect_corrupt(&sample.bytes, "a tier without its last unit");
}

/// Damages bytes of a map and then fixes every checksum, to test the checks that follow the
/// checksum verification.
fn resealed(bytes: &[u8], pointer: &MapPointer, random: &mut fastrand::Rng) -> (Vec<u8>, MapPointer) {
    let (mut bytes, mut pointer) = (bytes.to_vec(), *pointer);
    let (mut at, mut link) = (0, first_link(pointer.file));
    let place = format::place(pointer.file, 0);
    while at < pointer.length as usize {
        let len = record_len(&bytes[at..], &place).unwrap();
        let record = &mut bytes[at..at + len];
        let damage = if random.u8(..12) == 0 {
            random.usize(1..3)
        } else {
            0
        };
        for _ in 0..damage {
            let range = if random.u8(..4) == 0 { 16..48 } else { 48..len };
            let target = random.usize(range);
            record[target] = if random.bool() {
                random.u8(..)
            } else {
                record[target] ^ (1 << random.u8(..8))
            };
        }
        record[40..48].fill(0);
        link = checksum::seeded(link, record);
        record[40..48].copy_from_slice(&link.to_le_bytes());
        at += len;
    }
    pointer.checksum = link;
    (bytes, pointer)
}

#[test]
fn no_bytes_make_opening_panic() {
    let sample = sample();
    let mut random = fastrand::Rng::with_seed(8);
    let mut opened = 0;
    for _ in 0..4000 {
        let (bytes, pointer) = resealed(&sample.bytes, &sample.pointer, &mut random);
        if let Ok(extents) = sample.open(&bytes, &pointer) {
            let violations = extents.check(std::iter::empty());
            let leaked = |violation: &ExtentViolation| matches!(violation, ExtentViolation::Leaked { .. });
            assert!(violations.iter().all(leaked), "{violations:?}");
            opened += 1;
        }
    }
    assert!((10..3990).contains(&opened), "{opened} of 4000 could be opened");
    for _ in 0..2000 {
        let blocks = random.usize(..5);
        let bytes: Vec<u8> = (0..blocks * BLOCK as usize).map(|_| random.u8(..)).collect();
        assert!(sample.open(&bytes, &sample.pointer).is_err());
        let link = first_link(random.u64(..));
        let place = format::place(1, 0);
        assert!(decode_record(&bytes, link, &place, |_, _| Ok(())).is_err());
        let _ = MapPointer::decode(&mut ByteReader::new(&bytes), &place);
        let _ = Extent::decode(&mut ByteReader::new(&bytes), &place);
    }
}

#[test]
fn an_entry_for_a_whole_tier_costs_no_more_than_the_file_has() {
    let sample = sample();
    let header = MapRecordHeader {
        file: 9,
        generation: 1,
        tier: 0,
    };
    let mut builder = MapRecordBuilder::default();
    builder.push(&MapEntry {
        start: 0,
        units: 1,
        now: Some((1, 0)),
        new: true,
        repeats: MAX_TIER_UNITS - 1,
    });
    let (buffer, checksum) = builder.seal(&header, first_link(9));
    let length = buffer.len() as u64;
    let pointer = MapPointer {
        file: 9,
        length,
        checksum,
        generation: 1,
        snapshot: length,
        records: 1,
    };
    let error = sample.open(&buffer, &pointer).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
}
