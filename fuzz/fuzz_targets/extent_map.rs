//! `Extents::open` with an arbitrary map file and an arbitrary pointer to it.
//!
//! Strategy: the input is either the raw pointer and file, or a list of (tier, generation, entry
//! count, length, entries). In the second case each record gets a header, a checksum and its link
//! in the chain, so that the entries are reached. The cost of entries that claim millions of units
//! under a valid checksum is proportional to their claim, so sealed records are restricted: a
//! record of one entry may contain any flags except "repeated"; in other records no integer exceeds
//! 255. Invariants: no panic, and memory proportional to the file; an opened map accounts for every
//! unit of the tiers, and equals the map that is opened after a freeze and a rewrite.
#![no_main]

use alluvium_base::bytes::ByteReader;
use alluvium_base::{Purpose, checksum};
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::{AlignedBuffer, Directory, FileOptions};
use alluvium_storage::extents::{ExtentOptions, Extents, MapPointer, UNIT, map_file};
use alluvium_storage::{DiskLocation, OnDiskObject, TierFiles};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

const FILE: u64 = 1;
const UNITS: u64 = 64;

fuzz_target!(|input: &[u8]| {
    let Some((mode, input)) = input.split_first() else {
        return;
    };
    let (pointer, map) = if mode % 2 == 0 {
        let mut reader = ByteReader::new(input);
        let place = DiskLocation::new(OnDiskObject::Superblock, "fuzz", 0);
        let Ok(pointer) = MapPointer::decode(&mut reader, &place) else {
            return;
        };
        (pointer, input[reader.position()..].to_vec())
    } else {
        sealed(input)
    };
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let other = MemoryDirectory::new();
    let tiers = Arc::new(TierFiles::create(&[directory.as_ref(), &other]).expect("memory"));
    for tier in 0..2 {
        tiers
            .get(tier)
            .expect("created")
            .grow(UNITS * UNIT)
            .expect("memory");
    }
    let file = directory
        .create(&map_file(pointer.file), FileOptions::DIRECT)
        .expect("memory");
    let map = AlignedBuffer::padded(&map);
    if !map.is_empty() {
        file.grow(map.len() as u64).expect("memory");
        file.write_at(0, map, Purpose::Other).expect("memory");
    }
    let options = ExtentOptions::default();
    let Ok(extents) = Extents::open(&directory, Arc::clone(&tiers), &pointer, options) else {
        return;
    };
    for tier in extents.usage().tiers {
        assert_eq!(tier.file_bytes, UNITS * UNIT);
        assert_eq!(
            tier.free_bytes + tier.live_extent_bytes,
            tier.file_bytes,
            "nothing is provisional or dead"
        );
        assert!(tier.live_bytes <= tier.live_extent_bytes);
    }
    let Some(generation) = pointer.generation.checked_add(1) else {
        return;
    };
    let again = extents
        .write_map(&directory, extents.freeze(generation))
        .expect("memory");
    let reopened = Extents::open(&directory, tiers, &again, options).expect("what was just written");
    let live = |extents: &Extents| {
        let tiers = extents.usage().tiers;
        tiers
            .iter()
            .map(|tier| (tier.live_extents, tier.live_extent_bytes, tier.live_bytes))
            .collect::<Vec<_>>()
    };
    assert_eq!(live(&reopened), live(&extents));
});

/// Builds sealed records from an input, and the pointer that covers all of them.
fn sealed(mut input: &[u8]) -> (MapPointer, Vec<u8>) {
    let mut map = Vec::new();
    let (mut link, mut generation, mut records) = (checksum::seeded(FILE, b"ALVEXMAP"), 1u64, 0);
    while let [tier, step, count, len, rest @ ..] = input {
        let (entries, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        input = rest;
        generation += u64::from(step % 4);
        records += 1;
        let at = map.len();
        map.extend(b"ALVEXMAP");
        map.extend(1u32.to_le_bytes());
        map.extend((entries.len() as u32).to_le_bytes());
        map.extend(FILE.to_le_bytes());
        map.extend(generation.to_le_bytes());
        map.extend(u32::from(*count).to_le_bytes());
        map.extend([tier % 2, 0, 0, 0]);
        map.extend([0; 8]);
        match (count, entries) {
            (1, [flags, rest @ ..]) => {
                map.push(flags & !32);
                map.extend(rest);
            }
            (_, entries) => map.extend(tame(entries)),
        }
        map.resize(map.len().next_multiple_of(512), 0);
        link = checksum::seeded(link, &map[at..]);
        map[at + 40..at + 48].copy_from_slice(&link.to_le_bytes());
    }
    let pointer = MapPointer {
        file: FILE,
        length: map.len() as u64,
        checksum: link,
        generation,
        snapshot: map.len() as u64,
        records,
    };
    (pointer, map)
}

/// Clears the continuation bit of every byte that is not followed by a one or a zero, so that
/// integers stay small.
fn tame(entries: &[u8]) -> impl Iterator<Item = u8> {
    let next = entries.iter().skip(1).chain(&[0]);
    entries
        .iter()
        .zip(next)
        .map(|(byte, next)| if *next <= 1 { *byte } else { byte & 0x7f })
}
