//! Damage in one structure that its compactions encounter. Keyspaces in other structures must
//! remain usable, both in the process that encounters the damage and after the store is reopened.

use super::small;
use alluvium::simulation::DirectoryOpener as _;
use alluvium::{Db, ErrorKind, Keyspace, KeyspaceOptions};
use alluvium_base::Purpose;
use alluvium_device::simulated::{Corruption, CrashSurvival, SimDirectory};
use alluvium_device::{Directory as _, FileOptions};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Byte that fills the values of the damaged keyspace.
const MARK: u8 = 0xa7;
const KEYS: u32 = 2000;
const DATA: &str = "tier-0.data";
const PAGES: &str = "paged.pages";
/// Damage only pages after the root, which is at the start of the file. Without it, the pages do
/// not open.
const BEHIND_ROOT: u64 = 16 << 10;

fn keyspace(db: &Db, name: &str, structure: &str) -> Keyspace {
    let options = KeyspaceOptions::new().structure(structure.parse().unwrap());
    db.keyspace_with(name, &options).unwrap()
}

fn open(world: &SimDirectory) -> Db {
    small().open_in(Arc::new(world.reopen())).unwrap()
}

/// Flips a bit in every `every`th block of a file among those that hold a value of the damaged
/// keyspace. Returns the number of such blocks.
fn damage(world: &SimDirectory, name: &str, every: usize) -> usize {
    let file = world.open(name, FileOptions::BUFFERED).unwrap();
    let bytes = file.read_at(0, file.len() as usize, Purpose::Other).unwrap();
    let mut hit = 0;
    for (number, block) in (0..).zip(bytes.chunks(512)) {
        if name == PAGES && number * 512 < BEHIND_ROOT {
            continue;
        }
        if let Some(at) = block.windows(8).position(|window| window == [MARK; 8]) {
            let offset = number * 512 + at as u64;
            if hit % every == 0 {
                world
                    .corrupt(name, &Corruption::FlipBit { offset, bit: 1 })
                    .unwrap();
            }
            hit += 1;
        }
    }
    hit
}

/// Writes to both keyspaces while background work encounters the damage. No write may fail.
fn live_on(db: &Db, ill: &Keyspace, well: &Keyspace, life: u32) {
    for round in 0..30 {
        for number in 0..40 {
            let key = (life * 10_000 + round * 100 + number).to_be_bytes();
            well.put(key, [life as u8; 90]).unwrap();
            // Write keys among the damaged ones, so that merges read them.
            ill.put((number * 47 + round).to_be_bytes(), [life as u8; 90])
                .unwrap();
        }
        while db.work().unwrap() {}
    }
}

#[test]
fn damage_in_one_structure_fails_no_write_to_another_now_or_after_an_opening() {
    for (structure, other) in [
        ("levels,k=4", "tiered"),
        ("hashed", "tiered"),
        ("tiered", "levels,k=4"),
    ] {
        let world = SimDirectory::new(52);
        let db = open(&world);
        let ill = keyspace(&db, "ill", structure);
        keyspace(&db, "well", other);
        for number in 0..KEYS {
            ill.put(number.to_be_bytes(), [MARK; 90]).unwrap();
        }
        db.close().unwrap();
        drop(ill);
        assert!(damage(&world, DATA, 1) > 20, "{structure}");
        let mut met = 0;
        for life in 1..=2 {
            let db = open(&world);
            let (ill, well) = (keyspace(&db, "ill", structure), keyspace(&db, "well", other));
            live_on(&db, &ill, &well, life);
            db.checkpoint().unwrap();
            let gone = (0..KEYS).filter(|number| ill.get(number.to_be_bytes()).is_err());
            met += gone.count();
            assert!(db.compact().is_err(), "{structure}: a user who asks is told");
            db.close().unwrap();
        }
        assert!(met > 0, "{structure}: nothing was damaged");
        let db = open(&world);
        let well = keyspace(&db, "well", other);
        for key in (1..=2u32).flat_map(|life| (0..30u32).map(move |round| life * 10_000 + round * 100)) {
            assert_eq!(
                well.get(key.to_be_bytes()).unwrap().unwrap().len(),
                90,
                "{structure}"
            );
        }
        let found = db.check().unwrap();
        assert!(
            !found.is_empty() && found.iter().all(|finding| finding.contains(DATA)),
            "{found:?}"
        );
    }
}

/// Acknowledged writes of a paged keyspace, and the number of refused writes.
#[derive(Clone, Default)]
struct Acknowledged {
    pairs: BTreeMap<[u8; 4], [u8; 90]>,
    refused: usize,
}

/// Like [`live_on`], but the damaged keyspace may start refusing writes at some point.
fn live_on_beside_pages(db: &Db, ill: &Keyspace, well: &Keyspace, known: &mut Acknowledged, life: u32) {
    for round in 0..30 {
        for number in 0..40 {
            well.put(
                (life * 10_000 + round * 100 + number).to_be_bytes(),
                [life as u8; 90],
            )
            .unwrap();
            let key = (number * 47 + round).to_be_bytes();
            match ill.put(key, [life as u8; 90]) {
                Ok(()) => {
                    known.pairs.insert(key, [life as u8; 90]);
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                    let text = error.to_string();
                    assert!(text.contains("\"ill\"") && text.contains("repair"), "{text}");
                    known.refused += 1;
                }
            }
        }
        while db.work().unwrap() {}
    }
}

/// Reads the damaged keyspace. All writes acknowledged later must be present, and so must all other
/// undamaged pairs.
fn has_all_that_is_sound(ill: &Keyspace, known: &Acknowledged, context: &str) {
    let (mut sound, mut damaged) = (0, 0);
    for key in (0..KEYS).map(u32::to_be_bytes) {
        match (known.pairs.get(&key), ill.get(key)) {
            (Some(value), found) => assert_eq!(found.unwrap().unwrap(), value[..], "{context}"),
            (None, Ok(found)) => {
                assert_eq!(found.unwrap(), [MARK; 90][..], "{context}");
                sound += 1;
            }
            (None, Err(_)) => damaged += 1,
        }
    }
    assert!(
        sound > 0 && damaged > 0,
        "{context}: {sound} sound, {damaged} damaged"
    );
}

#[test]
fn pages_in_which_damage_is_met_are_set_aside_and_the_store_lives_on_without_them() {
    for structure in [
        "paged,node=1024,key=16,value=96",
        "paged,bplus,node=1024,key=16,value=96",
    ] {
        let world = SimDirectory::new(52);
        let db = open(&world);
        let ill = keyspace(&db, "ill", structure);
        for number in 0..KEYS {
            ill.put(number.to_be_bytes(), [MARK; 90]).unwrap();
        }
        db.close().unwrap();
        drop(ill);
        assert!(damage(&world, PAGES, 3) > 20, "{structure}");
        let mut known = Acknowledged::default();
        let db = open(&world);
        let (ill, well) = (keyspace(&db, "ill", structure), keyspace(&db, "well", "tiered"));
        live_on_beside_pages(&db, &ill, &well, &mut known, 1);
        assert!(known.refused > 0 && !known.pairs.is_empty(), "{structure}");
        let killed_before = world.image(CrashSurvival::Process, 1);
        db.checkpoint().unwrap();
        let killed_behind = world.image(CrashSurvival::None, 1);
        let found = db.check().unwrap();
        assert!(
            found.iter().any(|finding| finding.contains("set aside")),
            "{found:?}"
        );
        let other = db.keyspace_with("other", ill.options()).unwrap_err();
        assert_eq!(other.kind(), ErrorKind::Corrupt);
        db.close().unwrap();
        drop((ill, well));
        for (what, world) in [
            ("closed", &world),
            ("killed before", &killed_before),
            ("killed behind", &killed_behind),
        ] {
            let mut known = known.clone();
            for life in 2..=3 {
                let context = format!("{structure} {what} life {life}");
                let db = open(world);
                let (ill, well) = (keyspace(&db, "ill", structure), keyspace(&db, "well", "tiered"));
                let is_set_aside = ill.put("x", "y").is_err();
                assert!(is_set_aside || what == "killed before", "{context}");
                if is_set_aside {
                    has_all_that_is_sound(&ill, &known, &context);
                }
                let mut more = Acknowledged::default();
                live_on_beside_pages(&db, &ill, &well, &mut more, life);
                assert!(more.refused > 0, "{context}");
                known.pairs.extend(more.pairs);
                db.compact().unwrap();
                db.close().unwrap();
            }
            small().repair_in(Arc::new(world.reopen())).unwrap();
            let db = open(world);
            let (ill, well) = (keyspace(&db, "ill", structure), keyspace(&db, "well", "tiered"));
            for (key, value) in &known.pairs {
                assert_eq!(ill.get(key).unwrap().unwrap(), value[..], "{structure} {what}");
            }
            ill.put("x", "y").unwrap();
            assert_eq!(well.iter().count(), 3 * 30 * 40, "{structure} {what}");
            db.checkpoint().unwrap();
            assert_eq!(db.check().unwrap(), [""; 0], "{structure} {what}");
        }
    }
}

#[test]
fn a_damaged_keyspace_in_pages_can_be_dropped() {
    let world = SimDirectory::new(53);
    let db = open(&world);
    let structure = "paged,node=1024,key=16,value=96";
    let ill = keyspace(&db, "ill", structure);
    for number in 0..KEYS {
        ill.put(number.to_be_bytes(), [MARK; 90]).unwrap();
    }
    db.close().unwrap();
    drop(ill);
    damage(&world, PAGES, 2);
    let db = open(&world);
    let (ill, well) = (keyspace(&db, "ill", structure), keyspace(&db, "well", "tiered"));
    let mut known = Acknowledged::default();
    live_on_beside_pages(&db, &ill, &well, &mut known, 1);
    assert!(known.refused > 0);
    drop(ill);
    db.drop_keyspace("ill").unwrap();
    db.close().unwrap();
    drop(well);
    for _ in 0..2 {
        let db = open(&world);
        assert_eq!(db.keyspaces(), ["well"]);
        db.checkpoint().unwrap();
        db.close().unwrap();
    }
    let db = open(&world);
    let again = keyspace(&db, "again", structure);
    again.put("a", "b").unwrap();
    db.checkpoint().unwrap();
    assert_eq!(again.get("a").unwrap().unwrap(), b"b");
    assert_eq!(db.check().unwrap(), [""; 0]);
}
