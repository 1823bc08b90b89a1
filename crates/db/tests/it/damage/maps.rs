//! Damages extent maps. A map holds only information that can be derived from the other structures,
//! so no data is lost.

use super::*;
use alluvium::simulation::DirectoryOpener as _;
use alluvium_device::simulated::{Corruption, InjectedFault};
use alluvium_device::{AlignedBuffer, DeviceOperation};

/// Returns the name of the store's only map file.
fn map_of(world: &SimDirectory) -> String {
    let names = shared(world).list().unwrap();
    let mut maps = names.into_iter().filter(|name| name.starts_with("extents-"));
    let map = maps.next().unwrap();
    assert_eq!(maps.next(), None);
    map
}

/// Fails unless a store with a damaged map can be read, names the remedy when opened for writing,
/// and has its full contents after a repair.
fn is_mended(world: &World, damaged: &SimDirectory, what: &str) {
    let db = small()
        .open_read_only_in(shared(damaged))
        .unwrap_or_else(|error| panic!("{what}: reading without the map: {error}"));
    let reading = read(&db, &world.contents);
    assert_eq!((&reading.errors, &reading.wrong), (&vec![], &vec![]), "{what}");
    drop(db);
    let refused = small().open_existing_in(shared(damaged)).unwrap_err().to_string();
    assert!(refused.contains("run `alluvium repair`"), "{what}: {refused}");
    let report = small()
        .repair_in(shared(damaged))
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(report.is_whole(), "{what}: {report}");
    assert!(
        report.to_string().contains("extent map was rebuilt"),
        "{what}: {report}"
    );
    // New writes must not allocate space that is in use.
    let db = small().open_existing_in(shared(damaged)).unwrap();
    assert_eq!(db.check().unwrap(), Vec::<String>::new(), "{what}");
    let more = db.keyspace("more").unwrap();
    for number in 0..600u32 {
        more.put(number.to_be_bytes(), [7; 300]).unwrap();
        if number % 100 == 0 {
            while db.work().unwrap() {}
        }
    }
    db.checkpoint().unwrap();
    let reading = read(&db, &world.contents);
    assert_eq!((&reading.errors, &reading.wrong), (&vec![], &vec![]), "{what}");
    assert_eq!(db.check().unwrap(), Vec::<String>::new(), "{what}");
    db.close().unwrap();
    let map = map_of(damaged);
    let db = small().open_existing_in(shared(damaged)).unwrap();
    assert_eq!(db.check().unwrap(), Vec::<String>::new(), "{what}, {map}");
    db.close().unwrap();
}

#[test]
fn a_store_whose_extent_map_is_damaged_loses_nothing() {
    for world in ALL.map(world) {
        let map = map_of(&world.directory);
        let used: Vec<u64> = used_blocks(&world.directory)
            .into_iter()
            .filter_map(|(file, offset)| (file == map).then_some(offset))
            .collect();
        let len = shared(&world.directory)
            .open(&map, FileOptions::BUFFERED)
            .unwrap()
            .len();
        let mut random = fastrand::Rng::with_seed(3);
        let mut damages: Vec<Corruption> = (0..size("ALLUVIUM_DAMAGE_MAPS", 12))
            .map(|_| Corruption::FlipBit {
                offset: used[random.usize(..used.len())] + random.u64(..512),
                bit: random.u8(..8),
            })
            .collect();
        damages.extend([
            Corruption::Remove,
            Corruption::Truncate { len: 0 },
            Corruption::Truncate { len: 512 },
            Corruption::Zero { range: 0..512 },
            Corruption::Zero { range: 0..len },
            Corruption::Swap {
                other: "tier-0.data".to_owned(),
            },
        ]);
        for (number, damage) in damages.iter().enumerate() {
            let damaged = world.directory.image(CrashSurvival::Process, number as u64);
            let what = format!("{:?}, {damage:?}", world.left);
            if matches!(damage, Corruption::Swap { .. }) {
                // Replace the map, but not the data, with that of an older generation.
                replace_by_older(&world, &damaged, &map);
            } else {
                assert!(damaged.corrupt(&map, damage).unwrap(), "{what}");
            }
            if small()
                .open_existing_in(shared(&damaged.image(CrashSurvival::Process, 1)))
                .is_ok()
            {
                // The flipped bit is after the prefix that the superblock names, or in a snapshot
                // with the same beginning.
                continue;
            }
            is_mended(&world, &damaged, &what);
        }
    }
}

/// Replaces a map with that of an earlier generation.
fn replace_by_older(world: &World, damaged: &SimDirectory, map: &str) {
    let older = shared(&world.older);
    let source = older.open(&map_of(&world.older), FileOptions::BUFFERED).unwrap();
    let bytes = source.read_at(0, source.len() as usize, Purpose::Other).unwrap();
    let directory = shared(damaged);
    directory.remove(map).unwrap();
    let file = directory.create(map, FileOptions::BUFFERED).unwrap();
    file.grow(bytes.len() as u64).unwrap();
    file.write_at(0, AlignedBuffer::padded(&bytes), Purpose::Other)
        .unwrap();
}

#[test]
fn a_repair_that_is_killed_leaves_a_store_that_can_be_repaired() {
    let world = world(Left::Killed);
    let map = map_of(&world.directory);
    for step in 0..60 {
        let damaged = world.directory.image(CrashSurvival::Process, step);
        damaged
            .corrupt(&map, &Corruption::FlipBit { offset: 49, bit: 2 })
            .unwrap();
        let fault = InjectedFault::failing(DeviceOperation::Write)
            .at(step + 1)
            .sticky();
        damaged.inject(fault);
        let first = small().repair_in(shared(&damaged));
        damaged.clear_faults();
        let left = damaged.image(CrashSurvival::Process, 1);
        if first.is_err() {
            let report = small().repair_in(shared(&left)).unwrap();
            assert!(report.is_whole(), "{step}: {report}");
        }
        let db = small().open_existing_in(shared(&left)).unwrap();
        let reading = read(&db, &world.contents);
        assert_eq!((&reading.errors, &reading.wrong), (&vec![], &vec![]), "{step}");
        assert_eq!(db.check().unwrap(), Vec::<String>::new(), "{step}");
        db.close().unwrap();
        if first.is_ok() {
            assert!(step > 3, "{step}");
            return;
        }
    }
}
