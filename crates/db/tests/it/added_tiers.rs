//! Adding tiers to an open store.

use crate::tiers::{create, fill, is_whole, places, small};
use alluvium::simulation::{DirectoryOpener as _, SimulationOperations as _, StoreScale};
use alluvium::{Db, Options, TierOptions};
use alluvium_device::file::FileDirectory;
use alluvium_device::simulated::{CrashSurvival, SimDirectory};
use alluvium_device::{Directory, FileOptions};
use alluvium_storage::TierDirectories;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

#[test]
fn a_tier_is_added_to_an_open_store_which_remembers_it() {
    let (_place, [fast, one, two, _]) = places();
    let db = small().fast_bytes(0).open(&fast).unwrap();
    fill(&db);
    let live = |db: &Db| -> Vec<u64> {
        db.stats()
            .tiers
            .iter()
            .map(|tier| tier.space.live_bytes)
            .collect()
    };
    assert_eq!(live(&db).len(), 1);
    let limit = TierOptions::new().max_bytes(1 << 30);
    db.add_tier(&one, limit).unwrap();
    db.add_tier(&two, TierOptions::new()).unwrap();
    db.compact().unwrap();
    assert!(live(&db)[1] > 500 * 2000, "{:?}", live(&db));
    is_whole(&db);
    // A copy includes the added tiers.
    let copy = fast.with_extension("copy");
    db.checkpoint_to(&copy).unwrap();
    is_whole(&small().open(&copy).unwrap());
    db.close().unwrap();
    let db = small().fast_bytes(0).open(&fast).unwrap();
    assert_eq!(db.stats().tiers.len(), 3);
    assert!(db.stats().tiers[1].capacity_bytes <= 1 << 30, "its limit is kept");
    db.drain_tier(&one).unwrap();
    assert_eq!(live(&db)[1], 0);
    is_whole(&db);
}

#[test]
fn a_directory_that_cannot_be_a_tier_is_refused_while_the_store_is_open() {
    let (place, [fast, one, two, three]) = places();
    create(&fast, &[&one]);
    create(&two, &[&three]);
    let db = small().open(&fast).unwrap();
    let create = |path: &Path| {
        let directory = FileDirectory::create(path).unwrap();
        directory.create("file", FileOptions::BUFFERED).unwrap();
    };
    create(place.path());
    create(&place.path().join("used"));
    let file = place.path().join("file");
    for (path, words) in [
        (fast.clone(), "the same directory, or one is inside the other"),
        (one.clone(), "the same directory, or one is inside the other"),
        (
            one.join("inside"),
            "the same directory, or one is inside the other",
        ),
        (two.clone(), "it holds"),
        (three.clone(), "it holds a tier of a store"),
        (file, "it is a file"),
        (place.path().join("used"), "it holds file"),
    ] {
        let text = db.add_tier(&path, TierOptions::new()).unwrap_err().to_string();
        assert!(text.contains(words), "{}: {text}", path.display());
    }
    assert_eq!(db.stats().tiers.len(), 2);
    for number in 2..8 {
        let path = place.path().join(format!("further {number}"));
        db.add_tier(path, TierOptions::new()).unwrap();
    }
    let text = db
        .add_tier(place.path().join("one more"), TierOptions::new())
        .unwrap_err()
        .to_string();
    assert!(text.contains("at most 7"), "{text}");
    assert_eq!(db.stats().tiers.len(), 8);
    is_whole(&db);
    drop(db);
    is_whole(&small().open(&fast).unwrap());
    is_whole(&small().open(&two).unwrap());
}

#[test]
fn writes_readers_and_copies_go_on_while_tiers_are_added() {
    let (place, [fast, ..]) = places();
    let db = Options::new().memory(16 << 20).fast_bytes(0).open(&fast).unwrap();
    let keyspace = fill(&db);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..6 {
                let path = place.path().join(format!("further {number}"));
                db.add_tier(path, TierOptions::new()).unwrap();
            }
        });
        scope.spawn(|| {
            for number in 0..4000u32 {
                keyspace.put(number.to_be_bytes(), vec![8; 2000]).unwrap();
            }
        });
        scope.spawn(|| {
            for number in 0..3 {
                let path = place.path().join(format!("copy {number}"));
                // A copy that starts between two additions has directories for the earlier tiers.
                if db.checkpoint_to(&path).is_ok() {
                    let copy = small().open(&path).unwrap();
                    assert!(copy.existing_keyspace("k").unwrap().iter().count() >= 500);
                }
            }
        });
    });
    db.compact().unwrap();
    assert_eq!(db.check().unwrap(), [""; 0]);
    assert_eq!(db.stats().tiers.len(), 7);
    assert_eq!(keyspace.iter().count(), 4000);
    db.close().unwrap();
    let db = small().open(&fast).unwrap();
    assert_eq!(db.existing_keyspace("k").unwrap().iter().count(), 4000);
}

#[test]
fn a_store_that_crashes_while_a_tier_is_added_has_all_it_had() {
    let options = || {
        let mut scale = StoreScale::small(0xa11, 6 << 10, 96 << 10);
        scale.extents.planned_bytes = Some(0);
        Options::new().simulated(scale, || 1000)
    };
    let (mut with, mut without) = (0, 0);
    for survival in [
        CrashSurvival::Process,
        CrashSurvival::None,
        CrashSurvival::Reordered,
    ] {
        for call in (0..).step_by(3) {
            let machines = [SimDirectory::new(1), SimDirectory::new(2)];
            let db = options().create_in(Arc::new(machines[0].clone())).unwrap();
            let keyspace = db.keyspace("k").unwrap();
            for number in 0..100u32 {
                keyspace.put(number.to_be_bytes(), [7; 100]).unwrap();
            }
            db.sync().unwrap();
            // Count the operations of both machines together.
            let (calls, images) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(None)));
            for machine in &machines {
                let (calls, images, all) = (Arc::clone(&calls), Arc::clone(&images), machines.clone());
                machine.on_operation(move |_| {
                    if calls.fetch_add(1, Ordering::Relaxed) == call {
                        *images.lock().unwrap() = Some(all.each_ref().map(|all| all.image(survival, call)));
                    }
                });
            }
            db.add_tier_in(Arc::new(machines[1].clone())).unwrap();
            db.compact().unwrap();
            machines.iter().for_each(SimDirectory::clear_hook);
            assert!(db.stats().tiers[1].space.live_bytes > 0);
            let Some([first, second]) = images.lock().unwrap().take() else {
                break;
            };
            db.abandon();
            let (first, second): (Arc<dyn Directory>, Arc<dyn Directory>) =
                (Arc::new(first), Arc::new(second));
            let both = TierDirectories::from(&first).and(Arc::clone(&second));
            let db = match options().open_existing_in(&both) {
                Ok(db) => {
                    with += 1;
                    db
                }
                Err(_) => {
                    without += 1;
                    let db = options().open_existing_in(&first).unwrap();
                    db.add_tier_in(second).unwrap();
                    db
                }
            };
            let keyspace = db.existing_keyspace("k").unwrap();
            assert_eq!(keyspace.iter().count(), 100, "{survival:?} at {call}");
            db.compact().unwrap();
            assert_eq!(db.check().unwrap(), [""; 0], "{survival:?} at {call}");
            assert_eq!(keyspace.iter().count(), 100, "{survival:?} at {call}");
            db.abandon();
        }
    }
    assert!(with > 5 && without > 5, "{with} with it, {without} without");
}
