//! Read-only stores and damaged stores.

use alluvium::simulation::{DirectoryOpener as _, SimulationOperations as _};
use alluvium::{Db, Error, Keyspace, Options};
use alluvium_base::Purpose;
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use alluvium_device::{AlignedBuffer, Directory, FileOptions};
use std::collections::BTreeMap;
use std::sync::Arc;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn small() -> Options {
    Options::new().memory(16 << 20).workers(0)
}

fn shared(world: &SimDirectory) -> Arc<dyn Directory> {
    Arc::new(world.clone())
}

/// Returns a store with two checkpoints and records in its log, left as if its process had been
/// killed, and its contents.
fn filled() -> (SimDirectory, Pairs) {
    let world = SimDirectory::new(5);
    let db = small().create_in(shared(&world)).unwrap();
    let keyspace = db.keyspace("numbers").unwrap();
    let mut wanted = Pairs::new();
    for round in 0..3u32 {
        for number in 0..400u32 {
            let (key, value) = ((number * 3 + round).to_be_bytes(), vec![round as u8; 60]);
            keyspace.put(key, &value).unwrap();
            wanted.insert(key.to_vec(), value);
        }
        if round < 2 {
            db.checkpoint().unwrap();
        }
    }
    db.sync().unwrap();
    let died = world.image(CrashSurvival::Process, 5);
    db.abandon();
    (died, wanted)
}

/// Looks up each key, and returns the readable pairs of a keyspace.
fn readable(keyspace: &Keyspace, wanted: &Pairs) -> Pairs {
    let mut found = Pairs::new();
    for key in wanted.keys() {
        if let Ok(Some(value)) = keyspace.get(key) {
            found.insert(key.clone(), value.into_vec());
        }
    }
    found
}

fn all(db: &Db) -> Pairs {
    let keyspace = db.existing_keyspace("numbers").unwrap();
    keyspace
        .iter()
        .map(|pair| pair.unwrap())
        .map(|(key, value)| (key, value.into_vec()))
        .collect()
}

#[test]
fn a_store_that_is_read_only_shows_its_log_and_is_not_changed() {
    let (world, wanted) = filled();
    let before = world.content_hash();
    let db = small().open_read_only_in(shared(&world)).unwrap();
    let other = small().open_read_only_in(shared(&world)).unwrap();
    assert_eq!(all(&db), wanted);
    assert_eq!(all(&other), wanted);
    let writer = small().open_existing_in(shared(&world)).unwrap_err();
    assert!(writer.to_string().contains("locked"), "{writer}");
    let numbers = db.existing_keyspace("numbers").unwrap();
    let refused = [
        numbers.put("a", "b").unwrap_err(),
        numbers.delete("a").unwrap_err(),
        numbers.delete_range("a", None).unwrap_err(),
        numbers.compare_and_set("a", None, Some(b"b")).unwrap_err(),
        numbers.begin_ingest().unwrap_err(),
        db.keyspace("new").unwrap_err(),
        db.drop_keyspace("numbers").unwrap_err(),
        db.create_snapshot("now").unwrap_err(),
        db.checkpoint().unwrap_err(),
        db.compact().unwrap_err(),
        db.sync().unwrap_err(),
        db.work().unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(error, Error::ReadOnly), "{error}");
    }
    assert!(all(&db) == wanted && numbers.get("a").unwrap().is_none());
    let copy: Arc<dyn Directory> = Arc::new(SimDirectory::new(9));
    db.checkpoint_to_in(&copy, |_| ()).unwrap();
    assert_eq!(all(&small().open_existing_in(copy).unwrap()), wanted);
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
    db.close().unwrap();
    drop(other);
    assert_eq!(world.content_hash(), before);
    let writer = small().open_existing_in(shared(&world)).unwrap();
    let reader = small().open_read_only_in(shared(&world)).unwrap_err();
    assert!(reader.to_string().contains("locked"), "{reader}");
    assert_eq!(all(&writer), wanted);
}

#[test]
fn a_store_that_is_whole_is_repaired_to_what_it_was() {
    let (world, wanted) = filled();
    let report = small().repair_in(shared(&world)).unwrap();
    assert!(report.is_whole(), "{report}");
    assert_eq!(report.done.len(), 1, "{report}");
    assert_eq!(all(&small().open_existing_in(shared(&world)).unwrap()), wanted);
}

/// Damages 512 bytes of a file at an offset by inverting some bits of each.
fn damage(world: &SimDirectory, name: &str, offset: u64) {
    let file = shared(world).open(name, FileOptions::BUFFERED).unwrap();
    let bytes = file.read_at(offset, 512, Purpose::Other).unwrap();
    let turned: Vec<u8> = bytes.iter().map(|byte| byte ^ 0x5a).collect();
    file.write_at(offset, AlignedBuffer::padded(&turned), Purpose::Other)
        .unwrap();
}

/// Returns whether the store opens without a repair and is undamaged.
fn is_sound(world: &SimDirectory) -> bool {
    let image = world.image(CrashSurvival::Process, 1);
    match small().open_existing_in(shared(&image)) {
        Ok(db) => {
            let findings = db.check();
            db.abandon();
            findings.is_ok_and(|findings| findings.is_empty())
        }
        Err(_) => false,
    }
}

#[test]
fn whatever_block_is_damaged_a_repair_says_what_was_lost_and_saves_the_rest() {
    let (whole, wanted) = filled();
    let (mut repaired, mut hopeless, mut left, mut lost) = (0, 0, 0, 0);
    for name in shared(&whole).list().unwrap() {
        let len = shared(&whole).open(&name, FileOptions::BUFFERED).unwrap().len();
        // Files are preallocated, so damage only blocks in use.
        for offset in (0..len.min(1 << 20)).step_by(4096) {
            let file = shared(&whole).open(&name, FileOptions::BUFFERED).unwrap();
            let block = file.read_at(offset, 512, Purpose::Other).unwrap();
            if block.iter().all(|&byte| byte == 0) {
                continue;
            }
            let world = whole.image(CrashSurvival::Process, offset);
            damage(&world, &name, offset);
            if is_sound(&world) {
                continue;
            }
            let what = format!("{name} at {offset}");
            let report = match small().repair_in(shared(&world)) {
                Ok(report) => report,
                Err(error) => {
                    assert!(matches!(error, Error::Storage(_)), "{what}: {error}");
                    hopeless += 1;
                    continue;
                }
            };
            repaired += 1;
            left += usize::from(!report.left.is_empty());
            lost += usize::from(!report.lost.is_empty());
            let db = small()
                .open_existing_in(shared(&world))
                .unwrap_or_else(|error| panic!("{what}: {error} after\n{report}"));
            let found = match db.existing_keyspace("numbers") {
                Ok(keyspace) => readable(&keyspace, &wanted),
                Err(_) => Pairs::new(),
            };
            let wrong = found.iter().find(|(key, value)| {
                let newer = &wanted[*key];
                // The value is an older version, but the report lists no newer one as lost.
                *value != newer && report.lost.is_empty()
            });
            assert_eq!(wrong, None, "{what}:\n{report}");
            if found.len() < wanted.len() {
                assert!(!report.is_whole(), "{what}: {} keys\n{report}", found.len());
            }
            if report.left.is_empty() {
                assert_eq!(db.check().unwrap(), Vec::<String>::new(), "{what}");
            }
        }
    }
    println!("{repaired} repaired, {left} with damage left, {lost} with losses, {hopeless} hopeless");
    assert!(
        repaired > 5 * hopeless && left == 0 && lost > 0,
        "{repaired}, {left}, {lost}, {hopeless}"
    );
}

#[test]
fn where_both_copies_of_a_superblock_are_damaged_the_one_before_is_taken() {
    let (whole, wanted) = filled();
    let slots = shared(&whole)
        .open("superblock", FileOptions::BUFFERED)
        .unwrap()
        .len()
        / 4;
    let mut older = 0;
    for pair in [0, 2] {
        let world = whole.image(CrashSurvival::Process, pair);
        damage(&world, "superblock", pair * slots);
        damage(&world, "superblock", (pair + 1) * slots);
        if is_sound(&world) {
            continue;
        }
        let report = small().repair_in(shared(&world)).unwrap();
        assert!(!report.lost.is_empty(), "{report}");
        assert!(report.to_string().contains("lost: generation"), "{report}");
        let db = small().open_existing_in(shared(&world)).unwrap();
        let found = readable(&db.existing_keyspace("numbers").unwrap(), &wanted);
        assert!(
            found.len() >= 400,
            "what the older one held and the log has: {}",
            found.len()
        );
        older += 1;
    }
    assert_eq!(older, 1);
    let world = whole.image(CrashSurvival::Process, 4);
    for slot in 0..4 {
        damage(&world, "superblock", slot * slots);
    }
    let before = world.content_hash();
    small().repair_in(shared(&world)).unwrap_err();
    assert_eq!(
        world.content_hash(),
        before,
        "nothing is changed where nothing can be saved"
    );
}
