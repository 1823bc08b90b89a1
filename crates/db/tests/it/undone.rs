//! Changes to keyspaces and named snapshots that failed or were not acknowledged. They must apply
//! completely or not at all, both now and after the store is reopened.

use alluvium::simulation::DirectoryOpener as _;
use alluvium::{Db, Durability, Error, Options, WriteBatch};
use alluvium_device::DeviceOperation;
use alluvium_device::simulated::{CrashSurvival, InjectedFault, SimDirectory};
use std::sync::Arc;

const SURVIVALS: [CrashSurvival; 3] = [CrashSurvival::Process, CrashSurvival::All, CrashSurvival::None];

fn options() -> Options {
    Options::new()
        .memory(16 << 20)
        .workers(0)
        .durability(Durability::Disk)
}

fn created(seed: u64) -> (SimDirectory, Db) {
    let machine = SimDirectory::new(seed);
    let db = options().create_in(Arc::new(machine.clone())).unwrap();
    let keyspace = db.keyspace("rivers").unwrap();
    for number in 0..20 {
        keyspace.put(format!("{number:02}"), "old").unwrap();
    }
    (machine, db)
}

fn opened(machine: &SimDirectory, survival: CrashSurvival) -> Db {
    let image = machine.image(survival, 1);
    options().open_existing_in(Arc::new(image)).unwrap()
}

/// Checks that either the keyspace is gone and its name is free, or all of its records are present.
fn all_or_nothing(db: &Db) {
    match db.existing_keyspace("rivers") {
        Ok(keyspace) => {
            assert_eq!(db.keyspaces(), ["rivers"]);
            assert_eq!(keyspace.iter().count(), 20);
        }
        Err(Error::NoSuchKeyspace { .. }) => {
            assert_eq!(db.keyspaces(), [""; 0]);
            assert_eq!(db.keyspace("rivers").unwrap().iter().count(), 0);
        }
        Err(error) => panic!("{error}"),
    }
    assert_eq!(db.check().unwrap(), [""; 0]);
}

#[test]
fn a_drop_that_fails_leaves_all_of_the_keyspace_or_nothing() {
    for (seed, operation) in [(1, DeviceOperation::Sync), (2, DeviceOperation::Write)] {
        for full in [false, true] {
            let (machine, db) = created(seed);
            let keyspace = db.existing_keyspace("rivers").unwrap();
            let fault = if full {
                InjectedFault::full
            } else {
                InjectedFault::failing
            };
            machine.inject(fault(operation).sticky());
            let dropped = db.drop_keyspace("rivers");
            machine.clear_faults();
            if dropped.is_ok() {
                // Writes to a mapping cannot fail.
                assert_eq!(operation, DeviceOperation::Write);
                continue;
            }
            // The keyspace is listed, and its handles do not report that it was dropped.
            assert_eq!(db.keyspaces(), ["rivers"]);
            WriteBatch::new().put(&keyspace, "20", "new").unwrap();
            let written = keyspace.put("20", "new");
            assert!(
                !matches!(written, Err(Error::KeyspaceDropped { .. })),
                "{written:?}"
            );
            if written.is_ok() {
                keyspace.delete("20").unwrap();
                assert_eq!(keyspace.iter().count(), 20);
                db.drop_keyspace("rivers").unwrap();
            }
            for survival in SURVIVALS {
                all_or_nothing(&opened(&machine, survival));
            }
        }
    }
}

#[test]
fn a_drop_that_was_killed_is_whole_or_was_not() {
    let (machine, db) = created(3);
    let images: Vec<SimDirectory> = SURVIVALS.map(|survival| machine.image(survival, 2)).into();
    db.drop_keyspace("rivers").unwrap();
    for image in images {
        let db = options().open_existing_in(Arc::new(image)).unwrap();
        assert_eq!(db.existing_keyspace("rivers").unwrap().iter().count(), 20);
    }
    for survival in SURVIVALS {
        let db = opened(&machine, survival);
        assert_eq!(db.keyspaces(), [""; 0], "it was acknowledged");
    }
}

/// Checks that a named snapshot either has its full contents, or does not exist and retains no
/// data.
fn whole_or_none(db: &Db, name: &str) -> bool {
    let keyspace = db.existing_keyspace("rivers").unwrap();
    for number in 0..20 {
        keyspace.put(format!("{number:02}"), "newest").unwrap();
    }
    db.compact().unwrap();
    let is_there = match db.open_snapshot(name) {
        Ok(snapshot) => {
            let values: Vec<_> = snapshot
                .iter(&keyspace)
                .map(|pair| pair.unwrap().1.into_vec())
                .collect();
            assert_eq!(values, vec![b"old".to_vec(); 20]);
            true
        }
        Err(Error::NoSuchSnapshot { .. }) => {
            assert_eq!((db.snapshots(), db.stats().snapshots), (Vec::new(), 0));
            db.create_snapshot(name).unwrap();
            false
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!(db.check().unwrap(), [""; 0]);
    is_there
}

#[test]
fn a_named_snapshot_that_was_acknowledged_survives_and_one_that_failed_leaves_nothing_behind() {
    // The creation was acknowledged.
    let (machine, db) = created(4);
    drop(db.create_snapshot("monday").unwrap());
    for survival in SURVIVALS {
        assert!(
            whole_or_none(&opened(&machine, survival), "monday"),
            "{survival:?}"
        );
    }
    for full in [false, true] {
        let (machine, db) = created(5);
        let before: Vec<SimDirectory> = SURVIVALS.map(|survival| machine.image(survival, 2)).into();
        let fault = if full {
            InjectedFault::full
        } else {
            InjectedFault::failing
        };
        machine.inject(fault(DeviceOperation::Sync).sticky());
        assert!(db.create_snapshot("monday").is_err());
        machine.clear_faults();
        assert_eq!((db.snapshots(), db.stats().snapshots), (Vec::new(), 0));
        // Versions that the snapshot needs are kept until the store is reopened, because the log
        // may contain its name.
        let keyspace = db.existing_keyspace("rivers").unwrap();
        if keyspace.put("00", "old").is_ok() {
            assert!(!whole_or_none(&db, "monday"));
        } else {
            let _ = db.compact();
            for survival in SURVIVALS {
                whole_or_none(&opened(&machine, survival), "monday");
            }
        }
        for image in before {
            let db = options().open_existing_in(Arc::new(image)).unwrap();
            assert!(!whole_or_none(&db, "monday"), "nobody has made it yet");
        }
    }
}
