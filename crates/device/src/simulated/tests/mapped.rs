//! Stores through mappings.

use super::*;
use crate::{Error, Mapping};
use std::collections::BTreeSet;

fn store(mapping: &Mapping, at: usize, bytes: &[u8]) {
    // SAFETY: these tests use a mapping from one thread, between other uses of the file.
    unsafe { mapping.write(at, bytes) }
}

#[test]
fn stores_are_read_at_once_and_survive_the_process_not_the_machine() {
    let directory = SimDirectory::new(1);
    let file = durable_file(&directory, "log", 8192, FileOptions::BUFFERED);
    let mapping = file.map(0..8192).expect("a buffered file");
    store(&mapping, 512, &[4; 512]);
    assert_eq!(sectors(&directory, "log")[..3], [0, 4, 0]);
    assert_eq!(sectors(&directory.image(Survival::Process, 0), "log")[1], 4);
    assert_eq!(sectors(&directory.image(Survival::All, 0), "log")[1], 4);
    assert_eq!(sectors(&directory.image(Survival::None, 0), "log")[1], 0);
    write(&file, 0, 512, 5);
    let mut seen = [0; 1];
    // SAFETY: inside the mapping, nothing else uses it.
    seen.copy_from_slice(unsafe { std::slice::from_raw_parts(mapping.as_ptr(), 1) });
    assert_eq!(seen, [5], "a write is seen through the mapping");
    mapping.sync(0..8192, Purpose::Log).expect("no fault");
    assert_eq!(
        sectors(&directory.image(Survival::None, 0), "log")[..3],
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
    assert_eq!(first_bytes(&directory.image(Survival::None, 0)), [0, 2, 0]);
    file.sync(Purpose::Log).expect("no fault");
    assert_eq!(first_bytes(&directory.image(Survival::None, 0)), [1, 2, 3]);
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
    for survival in Survival::ALL {
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
    let found: BTreeSet<(u8, u8)> = images(&directory, Survival::Random, 200)
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
        images(&directory, Survival::Random, 60).any(|image| sectors(&image, "log")[0] == 1)
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
    assert_eq!(sectors(&directory.image(Survival::All, 0), "log"), expected);
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
