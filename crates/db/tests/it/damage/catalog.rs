//! Damages the list of keyspaces and named snapshots. No single damaged page may lose it.

use super::*;
use alluvium_device::simulated::Corruption;

const PAGE: u64 = 4096;
const NAMES: [&str; 5] = ["ash", "beech", "elm", "oak", "yew"];

/// A small store with a renamed keyspace, a dropped keyspace and a named snapshot.
fn store(left: Left) -> SimDirectory {
    let directory = SimDirectory::new(5);
    let db = small().create_in(shared(&directory)).unwrap();
    for (round, name) in NAMES.into_iter().chain(["gone"]).enumerate() {
        let made = if name == "oak" { "acorn" } else { name };
        let keyspace = db.keyspace(made).unwrap();
        for number in 0..40u32 {
            keyspace.put(number.to_be_bytes(), [round as u8; 50]).unwrap();
        }
        if round == 2 {
            let _ = db.create_snapshot(SNAPSHOT).unwrap();
        }
        if round % 2 == 0 {
            db.checkpoint().unwrap();
        }
    }
    db.drop_keyspace("gone").unwrap();
    db.rename_keyspace("acorn", "oak").unwrap();
    match left {
        Left::Killed => {
            db.sync().unwrap();
            let died = directory.image(CrashSurvival::Process, 2);
            db.abandon();
            return died;
        }
        Left::Compacted => db.compact().unwrap(),
        Left::Closed => db.checkpoint().unwrap(),
    }
    db.close().unwrap();
    directory
}

/// Fails unless an open store has every keyspace and snapshot of the catalog.
fn has_all(db: &Db, what: &str) {
    assert_eq!(db.keyspaces(), NAMES, "{what}");
    assert!(db.open_snapshot(SNAPSHOT).is_ok(), "{what}");
}

#[test]
fn no_damaged_page_takes_the_names_away() {
    let (mut opened, mut repaired, mut older) = (0, 0, 0);
    for left in ALL {
        let whole = store(left);
        let pages = used_blocks(&whole)
            .into_iter()
            .filter_map(|(file, offset)| (file == "tier-0.data").then_some(offset / PAGE * PAGE));
        let mut pages: Vec<u64> = pages.collect();
        pages.dedup();
        for page in pages {
            let what = format!("{left:?}, page at {page}");
            let damaged = whole.image(CrashSurvival::Process, 3);
            let offset = page + 100;
            let flip = Corruption::FlipBit { offset, bit: 3 };
            assert!(damaged.corrupt("tier-0.data", &flip).unwrap(), "{what}");
            match small().open_existing_in(shared(&damaged)) {
                Ok(db) => {
                    has_all(&db, &what);
                    // Later changes to the catalog are kept as well.
                    db.keyspace("willow").unwrap();
                    db.drop_keyspace("willow").unwrap();
                    let closed = db.close();
                    assert!(closed.is_ok(), "{what}: {closed:?}");
                    opened += 1;
                }
                Err(error) => {
                    let error = error.to_string();
                    assert!(error.contains("run `alluvium repair`"), "{what}: {error}");
                }
            }
            let report = small()
                .repair_in(shared(&damaged))
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            repaired += usize::from(!report.is_whole());
            let db = small()
                .open_existing_in(shared(&damaged))
                .unwrap_or_else(|error| panic!("{what}: {error}\n{report}"));
            // Only damage to the root of the tree loses the most recent writes.
            match report.to_string().contains("was durable, too") {
                true => older += 1,
                false => has_all(&db, &format!("{what}, repaired: {report}")),
            }
            db.close().unwrap();
        }
    }
    println!(
        "{opened} opened as they were, {repaired} lost something in a repair, {older} their newest generation"
    );
    assert!(opened > 20 && repaired > 5 && older <= ALL.len());
}
