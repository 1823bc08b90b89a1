//! A small first tier under writers at full speed. Compactions move data to the next tier, so
//! writers wait for space instead of being refused.

use crate::tiers::{places, small};
use alluvium::simulation::{DirectoryOpener as _, StoreScale};
use alluvium::{
    Db, HashedForm, HashedOptions, Keyspace, KeyspaceOptions, LevelsOptions, Options, Structure, TierOptions,
};
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::simulated::SimDirectory;
use alluvium_storage::extents::{ExtentOptions, UNIT};
use alluvium_storage::{LogOptions, TierDirectories};
use std::ops::Range;
use std::sync::Arc;

/// The minimum size of a first tier. The test writes several times that many bytes.
const FIRST_BYTES: u64 = 16 << 20;
const RECORDS: u32 = 8_000;

fn load(structure: &Structure) {
    let (_place, [fast, large, ..]) = places();
    let options = Options::new().memory(16 << 20).workers(2).max_bytes(FIRST_BYTES);
    let db: Db = options.tier(&large, TierOptions::new()).open(&fast).unwrap();
    let named = KeyspaceOptions::new().structure(structure.clone());
    let keyspace = db.keyspace_with("k", &named).unwrap();
    for number in 0..RECORDS {
        let key = number.wrapping_mul(0x9e37_79b1).to_be_bytes();
        let written = keyspace.put(key, vec![number as u8; 4000]);
        written.unwrap_or_else(|error| panic!("{structure}: record {number}: {error}"));
    }
    let stats = db.stats();
    let used: Vec<u64> = stats
        .tiers
        .iter()
        .map(|tier| tier.space.live_extent_bytes)
        .collect();
    assert!(
        used[0] <= FIRST_BYTES && used[1] > FIRST_BYTES,
        "{structure}: {used:?}"
    );
    assert_eq!(keyspace.unordered().count(), RECORDS as usize, "{structure}");
    assert_eq!(db.check().unwrap(), [""; 0], "{structure}");
}

/// Writers wait at most five seconds of wall time. `.ci/campaign` sets `ALLUVIUM_NARROW` to load
/// all structures; otherwise only the default structure is loaded.
#[test]
fn writers_wait_for_space_that_is_coming() {
    let bundle = HashedForm::Boa {
        lambda: 4,
        refined: true,
    };
    for structure in [
        Structure::Tiered,
        Structure::Levels(LevelsOptions::samt(4)),
        Structure::Hashed(HashedOptions::default()),
        Structure::Hashed(HashedOptions::default().form(bundle)),
    ] {
        load(&structure);
        if std::env::var_os("ALLUVIUM_NARROW").is_none() {
            break;
        }
    }
}

/// Log size of a store whose first file system is limited, and the capacity of that file system, in
/// bytes.
const LOG_BYTES: u64 = 2 << 20;
const CAPACITY: u64 = LOG_BYTES + 300 * UNIT;

/// Returns a store whose first file system is limited, and that file system.
fn limited() -> (SimDirectory, Db) {
    let disk = SimDirectory::new(1);
    disk.set_capacity(CAPACITY);
    let mut scale = StoreScale::small(26, 1 << 20, LOG_BYTES);
    scale.log = LogOptions {
        starts_small: true,
        ..LogOptions::with_limit(LOG_BYTES)
    };
    scale.extents = ExtentOptions {
        min_reserve: 8 * UNIT,
        max_reserve: 8 * UNIT,
        ..ExtentOptions::default()
    };
    let directories = TierDirectories::from(Arc::new(disk.clone())).and(Arc::new(MemoryDirectory::new()));
    let db = small().simulated(scale, || 1000).open_in(directories).unwrap();
    (disk, db)
}

/// Writes records with these numbers and does the background work that they cause.
fn write(db: &Db, keyspace: &Keyspace, numbers: Range<u32>) {
    for number in numbers {
        let key = number.wrapping_mul(0x9e37_79b1).to_be_bytes();
        let written = keyspace.put(key, vec![number as u8; 4000]);
        written.unwrap_or_else(|error| panic!("record {number}: {error}\n{}", db.stats()));
        if number.is_multiple_of(16) {
            while db.work().is_ok_and(|more| more) {}
        }
    }
}

#[test]
fn the_log_gets_what_lies_free_in_the_data_file_before_a_write_is_refused() {
    let (disk, db) = limited();
    let keyspace = db.keyspace_with("k0", &KeyspaceOptions::new()).unwrap();
    write(&db, &keyspace, 0..2 * RECORDS);
    assert!(disk.used() > CAPACITY - 8 * UNIT, "the first tier is full");
    assert_eq!(keyspace.iter().count(), 2 * RECORDS as usize);
    assert_eq!(db.check().unwrap(), [""; 0]);
}

#[test]
fn a_load_has_space_freed_on_a_first_tier_that_is_full() {
    let (disk, db) = limited();
    let keyspace = db.keyspace_with("k0", &KeyspaceOptions::new()).unwrap();
    let (rounds, written, loaded) = (40u32, 200, 40);
    for round in 0..rounds {
        // Writers do only urgent background work, so compactions are due most of the time.
        for number in round * written..(round + 1) * written {
            let key = number.wrapping_mul(0x9e37_79b1).to_be_bytes();
            keyspace.put(key, vec![number as u8; 4000]).unwrap();
        }
        // From the second round on, some files have space that can be released.
        if round > 0 {
            disk.set_capacity(disk.used() + UNIT);
        }
        let first = u64::from(round * loaded);
        let records = (first..first + u64::from(loaded)).map(|number| (number.to_be_bytes(), [7; 100]));
        let result = keyspace.ingest(records);
        result.unwrap_or_else(|error| panic!("round {round}: {error}\n{}", db.stats()));
        disk.set_capacity(CAPACITY);
    }
    assert_eq!(keyspace.iter().count(), (rounds * (written + loaded)) as usize);
    assert_eq!(db.check().unwrap(), [""; 0]);
}
