//! Stores through mappings.

use super::*;
use crate::{Error, FileMapping};
use std::collections::BTreeSet;

fn store(mapping: &FileMapping, at: usize, bytes: &[u8]) {
    // SAFETY: these tests use a mapping from a single thread, and between other uses of the file.
    unsafe { mapping.write(at, bytes) }
}

#[test]
fn stores_are_read_at_once_and_survive_the_process_not_the_machine() {
    let directory = SimDirectory::new(1);
    let file = durable_file(&directory, "log", 8192, FileOptions::BUFFERED);
    let mapping = file.map(0..8192).expect("a buffered file");
    store(&mapping, 512, &[4; 512]);
    assert_eq!(sectors(&directory, "log")[..3], [0, 4, 0]);
    assert_eq!(sectors(&directory.image(CrashSurvival::Process, 0), "log")[1], 4);
    assert_eq!(sectors(&directory.image(CrashSurvival::All, 0), "log")[1], 4);
    assert_eq!(sectors(&directory.image(CrashSurvival::None, 0), "log")[1], 0);
    write(&file, 0, 512, 5);
    let mut seen = [0; 1];
    // SAFETY: the byte is inside the mapping, which nothing else uses.
    seen.copy_from_slice(unsafe { std::slice::from_raw_parts(mapping.as_ptr(), 1) });
    assert_eq!(seen, [5], "a write is seen through the mapping");
    mapping.sync(0..8192, Purpose::Log).expect("no fault");
    assert_eq!(
        sectors(&directory.image(CrashSurvival::None, 0), "log")[..3],
        [5, 4, 0]
    );
}

#[test]
fn a_sync_of_a_range_covers_its_pages_only() {
    let directory = SimDirectory::new(2);
    let file = durable_file(&directory, "log", 3 * 4096, FileOptions::BUFFERED);
    let mapping = file.map(0..3 * 4096).expect("a buffered file");
    for page in 0..3 {
        store(&mapping, page * 4096, &[page as u8 + 1; 8]);
    }
    mapping.sync(4096..4097, Purpose::Log).expect("no fault");
    let first_bytes =
        |image: &SimDirectory| -> Vec<u8> { sectors(image, "log").into_iter().step_by(8).collect() };
    assert_eq!(first_bytes(&directory.image(CrashSurvival::None, 0)), [0, 2, 0]);
    file.sync(Purpose::Log).expect("no fault");
    assert_eq!(first_bytes(&directory.image(CrashSurvival::None, 0)), [1, 2, 3]);
}

#[test]
fn a_range_synced_after_a_hole_does_not_bring_back_what_the_hole_took() {
    let directory = SimDirectory::new(3);
    let file = durable_file(&directory, "log", 2 * 4096, FileOptions::BUFFERED);
    write(&file, 0, 512, 1);
    file.punch_hole(0..4096).expect("no fault");
    let mapping = file.map(4096..8192).expect("a buffered file");
    store(&mapping, 0, &[2]);
    mapping.sync(0..1, Purpose::Log).expect("no fault");
    for survival in CrashSurvival::ALL {
        for image in images(&directory, survival, 50) {
            let sectors = sectors(&image, "log");
            assert_eq!((sectors[0], sectors[8]), (0, 2), "{survival:?}");
        }
    }
}

#[test]
fn pages_survive_independently_of_each_other_and_of_their_order() {
    let directory = SimDirectory::new(4);
    let file = durable_file(&directory, "log", 2 * 4096, FileOptions::BUFFERED);
    let mapping = file.map(0..2 * 4096).expect("a buffered file");
    store(&mapping, 0, &[1; 512]);
    store(&mapping, 4096, &[1; 512]);
    let found: BTreeSet<(u8, u8)> = images(&directory, CrashSurvival::Random, 200)
        .map(|image| sectors(&image, "log"))
        .map(|sectors| (sectors[0], sectors[8]))
        .collect();
    assert_eq!(found.len(), 4);
}

#[test]
fn the_seed_writes_pages_back_at_moments_of_its_own() {
    let middle_survives = |seed: u64| {
        let directory = SimDirectory::new(seed);
        let file = durable_file(&directory, "log", 4096, FileOptions::BUFFERED);
        durable_file(&directory, "other", 4096, FileOptions::DIRECT);
        let mapping = file.map(0..4096).expect("a buffered file");
        store(&mapping, 0, &[1; 512]);
        let other = directory.open("other", FileOptions::DIRECT).expect("it exists");
        for _ in 0..4 {
            write(&other, 0, 512, 7);
        }
        store(&mapping, 0, &[2; 512]);
        images(&directory, CrashSurvival::Random, 60).any(|image| sectors(&image, "log")[0] == 1)
    };
    let found: BTreeSet<bool> = (0..20).map(middle_survives).collect();
    assert_eq!(
        found.len(),
        2,
        "some seeds write the page back between the two stores, some do not"
    );
}

#[test]
fn what_was_stored_stays_when_the_mapping_goes() {
    let directory = SimDirectory::new(5);
    let file = durable_file(&directory, "log", 8192, FileOptions::BUFFERED);
    let first = file.map(0..4096).expect("a buffered file");
    let again = file.map(0..4096).expect("the same range");
    let inside = file.map(512..1024).expect("a part of it");
    assert_eq!(inside.len(), 512);
    assert_eq!(
        inside.as_ptr() as usize - first.as_ptr() as usize,
        512,
        "one memory"
    );
    assert!(
        matches!(file.map(0..8192), Err(Error::Unsupported { .. })),
        "it would have to grow"
    );
    store(&again, 0, &[3; 1]);
    store(&inside, 0, &[4; 1]);
    drop((first, again, inside));
    assert_eq!(sectors(&directory, "log")[..2], [3, 4]);
    assert!(directory.shared.world.lock().mapped.is_empty());
    file.map(0..8192).expect("nothing is mapped any more");
}

#[test]
fn a_mapping_outlives_its_handle_and_its_name() {
    let directory = SimDirectory::new(6);
    let file = durable_file(&directory, "log", 4096, FileOptions::BUFFERED);
    let mapping = file.map(0..4096).expect("a buffered file");
    drop(file);
    directory.remove("log").expect("it exists");
    directory.sync().expect("no fault");
    store(&mapping, 0, &[1; 4096]);
    mapping.populate(0..4096).expect("not crashed");
    mapping.sync(0..4096, Purpose::Log).expect("no fault");
    drop(mapping);
    assert!(directory.shared.world.lock().files.is_empty());
}

#[test]
fn truncation_and_holes_reach_the_mapped_memory() {
    let directory = SimDirectory::new(7);
    let file = durable_file(&directory, "log", 8192, FileOptions::BUFFERED);
    let mapping = file.map(0..8192).expect("a buffered file");
    store(&mapping, 0, &[1; 8192]);
    file.punch_hole(0..4096).expect("no fault");
    file.truncate(4096 + 512).expect("no fault");
    file.grow(8192).expect("room");
    let mut expected = [0; 16];
    expected[8] = 1;
    assert_eq!(sectors(&directory, "log"), expected);
    assert_eq!(sectors(&directory.image(CrashSurvival::All, 0), "log"), expected);
}

#[test]
fn direct_files_and_readers_cannot_map() {
    let directory = SimDirectory::new(8);
    let direct = durable_file(&directory, "a", 4096, FileOptions::DIRECT);
    assert!(matches!(direct.map(0..4096), Err(Error::Unsupported { .. })));
    let reader = directory
        .open("a", FileOptions::BUFFERED.read_only())
        .expect("it exists");
    assert!(matches!(reader.map(0..4096), Err(Error::ReadOnly { .. })));
    let buffered = directory.open("a", FileOptions::BUFFERED).expect("it exists");
    assert!(matches!(buffered.map(0..8192), Err(Error::PastEnd { .. })));
}

/// The values that a crash may leave in each sector of a mapped file, and the current values.
struct Model {
    possible: Vec<BTreeSet<u8>>,
    current: Vec<u8>,
}

impl Model {
    fn set(&mut self, sectors: std::ops::Range<usize>, value: u8) {
        for sector in sectors {
            self.current[sector] = value;
            self.possible[sector].insert(value);
        }
    }

    fn synced(&mut self, sectors: std::ops::Range<usize>) {
        for sector in sectors {
            self.possible[sector] = BTreeSet::from([self.current[sector]]);
        }
    }

    fn check(&self, directory: &SimDirectory, seed: u64) {
        for survival in CrashSurvival::ALL {
            let found = sectors(&directory.image(survival, seed), "log");
            if matches!(survival, CrashSurvival::All | CrashSurvival::Process) {
                assert_eq!(found, self.current, "{survival:?}");
            }
            for (sector, value) in found.iter().enumerate() {
                let possible = &self.possible[sector];
                assert!(
                    possible.contains(value),
                    "{survival:?}: {value} in sector {sector}, not of {possible:?}"
                );
            }
        }
    }
}

#[test]
fn every_image_of_a_random_history_of_a_mapped_file_is_a_legal_outcome() {
    const PAGES: usize = 6;
    for seed in 0..60 {
        let directory = SimDirectory::new(seed);
        let mut rng = fastrand::Rng::with_seed(seed);
        let file = durable_file(&directory, "log", PAGES as u64 * 4096, FileOptions::BUFFERED);
        let mapping = file.map(4096..PAGES as u64 * 4096).expect("a buffered file");
        let mut model = Model {
            possible: vec![BTreeSet::from([0]); PAGES * 8],
            current: vec![0; PAGES * 8],
        };
        for step in 0..50 {
            let value = rng.u8(1..);
            let from = rng.usize(..PAGES * 8);
            let to = rng.usize(from + 1..=(from + 12).min(PAGES * 8));
            match rng.u8(..10) {
                0..=3 if from >= 8 => {
                    for sector in from..to {
                        store(&mapping, (sector - 8) * 512, &[value; 512]);
                    }
                    model.set(from..to, value);
                }
                0..=5 => {
                    write(&file, from as u64 * 512, (to - from) * 512, value);
                    model.set(from..to, value);
                }
                6 => {
                    file.punch_hole(from as u64 * 512..to as u64 * 512)
                        .expect("no fault");
                    model.set(from..to, 0);
                }
                7 => {
                    file.sync(Purpose::Log).expect("no fault");
                    model.synced(0..PAGES * 8);
                }
                _ => {
                    let (first, last) = (from.max(8), to.max(9));
                    let bytes = (first as u64 - 8) * 512..(last as u64 - 8) * 512;
                    mapping.sync(bytes, Purpose::Log).expect("no fault");
                    model.synced(first / 8 * 8..last.next_multiple_of(8));
                }
            }
            model.check(&directory, seed << 32 | step);
        }
    }
}
