//! Backups of a store, and the stores opened from them.

use alluvium::simulation::{DirectoryOpener as _, SimulationOperations as _};
use alluvium::{Compression, Db, ErrorKind, Keyspace, KeyspaceOptions, OpenMode, Options, ProgressStage};
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::simulated::{CrashSurvival, InjectedFault, SimDirectory};
use alluvium_device::{DeviceOperation, Directory, FileOptions};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

fn small() -> Options {
    Options::new().memory(16 << 20).workers(0)
}

fn memory() -> Arc<dyn Directory> {
    Arc::new(MemoryDirectory::new())
}

fn pairs(keyspace: &Keyspace) -> BTreeMap<Vec<u8>, Vec<u8>> {
    keyspace
        .iter()
        .map(|pair| pair.unwrap())
        .map(|(key, value)| (key, value.into_vec()))
        .collect()
}

/// A store with every kind of record: compressed, with a separated value, deleted, and in the log
/// only.
fn filled(options: &Options, directory: Arc<dyn Directory>, count: u32) -> Db {
    let db = options.create_in(directory).unwrap();
    let squeezed = KeyspaceOptions::new().compression(Compression::Lz4);
    let (plain, squeezed) = (
        db.keyspace("plain").unwrap(),
        db.keyspace_with("squeezed", &squeezed).unwrap(),
    );
    for number in 0..count {
        plain.put(number.to_be_bytes(), vec![number as u8; 100]).unwrap();
        squeezed
            .put(number.to_be_bytes(), number.to_string().repeat(20))
            .unwrap();
        if number % 100 == 0 {
            plain
                .put(format!("large {number}"), vec![number as u8; 5000])
                .unwrap();
        }
        if number % 3 == 0 {
            plain.delete((number / 2).to_be_bytes()).unwrap();
        }
    }
    db
}

fn contents(db: &Db) -> Vec<BTreeMap<Vec<u8>, Vec<u8>>> {
    db.keyspaces()
        .iter()
        .map(|name| pairs(&db.existing_keyspace(name).unwrap()))
        .collect()
}

#[test]
fn a_copy_is_a_store_with_all_that_was_acknowledged() {
    let db = filled(&small(), memory(), 5000);
    let wanted = contents(&db);
    let copy = memory();
    let mut steps = Vec::new();
    let at = db
        .checkpoint_to_in(&copy, |progress| steps.push(progress))
        .unwrap();
    assert_eq!(at, db.sequence());
    let last = steps.last().unwrap();
    assert_eq!((last.stage, last.fraction()), (ProgressStage::Checking, 1.0));
    assert!(last.total_bytes > 500_000, "{last:?}");
    let mut copying = steps.iter().filter(|step| step.stage == ProgressStage::Copying);
    assert_eq!(copying.next_back().unwrap().fraction(), 1.0);
    let plain = db.keyspace("plain").unwrap();
    plain.put("after", "the copy").unwrap();
    let copied = small().open_existing_in(Arc::clone(&copy)).unwrap();
    assert_eq!(contents(&copied), wanted);
    assert_eq!(copied.sequence(), at);
    assert_eq!(copied.check().unwrap(), Vec::<String>::new());
    // The two stores are independent.
    copied.keyspace("plain").unwrap().put("only", "here").unwrap();
    assert_eq!(plain.get("only").unwrap(), None);
    copied.close().unwrap();
    let copied = small().open_existing_in(copy).unwrap();
    assert_eq!(
        copied.keyspace("plain").unwrap().get("only").unwrap().unwrap(),
        b"here"
    );
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

#[test]
fn a_copy_made_while_writing_holds_a_prefix_of_the_writes() {
    let place = tempfile::tempdir().unwrap();
    let db = Options::new()
        .memory(16 << 20)
        .mode(OpenMode::New)
        .open(place.path().join("store"))
        .unwrap();
    let keyspace = db.keyspace("numbers").unwrap();
    let (written, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..u64::MAX {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                keyspace.put(number.to_be_bytes(), [number as u8; 200]).unwrap();
                if number % 7 == 0 {
                    keyspace.delete((number / 2).to_be_bytes()).unwrap();
                }
                written.store(number + 1, Ordering::Release);
            }
        });
        for round in 0..3 {
            let path = place.path().join(format!("copy {round}"));
            std::thread::sleep(std::time::Duration::from_millis(30));
            let before = written.load(Ordering::Acquire);
            db.checkpoint_to(&path).unwrap();
            let copy = small().mode(OpenMode::Existing).open(&path).unwrap();
            let found = pairs(&copy.keyspace("numbers").unwrap());
            let last = found.keys().next_back().unwrap();
            let last = u64::from_be_bytes(last[..].try_into().unwrap());
            assert!(last + 1 >= before, "{last} of {before}");
            let mut wanted = BTreeMap::new();
            for number in 0..=last {
                wanted.insert(number.to_be_bytes().to_vec(), vec![number as u8; 200]);
                // The last delete may come after the backup's cut.
                let is_there = number < last || !found.contains_key(&(last / 2).to_be_bytes()[..]);
                if number % 7 == 0 && is_there {
                    wanted.remove(&(number / 2).to_be_bytes()[..]);
                }
            }
            assert!(found == wanted, "the copy {round} is no prefix");
            assert_eq!(copy.check().unwrap(), Vec::<String>::new());
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

#[test]
fn what_is_copied_is_not_used_again_meanwhile() {
    let db = filled(&small(), memory(), 3000);
    db.checkpoint().unwrap();
    let wanted = contents(&db);
    let plain = db.keyspace("plain").unwrap();
    let (copy, mut first) = (memory(), true);
    db.checkpoint_to_in(&copy, |_| {
        // Delete everything and, where possible, overwrite it before the first byte is copied.
        if std::mem::take(&mut first) {
            for round in 0..3u8 {
                plain.delete_range("", None).unwrap();
                for number in 0..3000u32 {
                    plain.put(number.to_be_bytes(), [round; 300]).unwrap();
                }
                db.compact().unwrap();
                while db.work().unwrap() {}
            }
        }
    })
    .unwrap();
    let copied = small().open_existing_in(copy).unwrap();
    assert_eq!(contents(&copied), wanted);
    assert_eq!(copied.check().unwrap(), Vec::<String>::new());
    let dead = db.stats().space.dead_bytes;
    db.compact().unwrap();
    while db.work().unwrap() {}
    assert!(
        db.stats().space.dead_bytes < dead.max(1),
        "it is used again afterwards"
    );
    assert_eq!(db.check().unwrap(), Vec::<String>::new());
}

#[test]
fn a_copy_goes_into_an_empty_directory_only() {
    let db = filled(&small(), memory(), 10);
    let (other, strange) = (memory(), memory());
    drop(filled(&small(), Arc::clone(&other), 10));
    strange.create("notes.txt", FileOptions::BUFFERED).unwrap();
    for target in [other, strange] {
        let before = target.list().unwrap();
        let error = db.checkpoint_to_in(&target, |_| ()).unwrap_err();
        assert!(error.kind() == ErrorKind::NotAStore, "{error}");
        assert_eq!(target.list().unwrap(), before);
    }
}

#[test]
fn a_copy_that_is_interrupted_anywhere_is_none_or_whole() {
    let db = filled(&small(), memory(), 100);
    let wanted = contents(&db);
    let world = SimDirectory::new(1);
    let images = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&images);
    world.on_operation(move |point| {
        for survival in [CrashSurvival::None, CrashSurvival::Random, CrashSurvival::All] {
            taken
                .lock()
                .unwrap()
                .push((point.index, point.image(survival, point.index)));
        }
    });
    db.checkpoint_to_in(&(Arc::new(world.clone()) as Arc<_>), |_| ())
        .unwrap();
    world.clear_hook();
    let (mut none, mut whole) = (0, 0);
    for (point, image) in std::mem::take(&mut *images.lock().unwrap()) {
        let image: Arc<dyn Directory> = Arc::new(image);
        match small().open_existing_in(Arc::clone(&image)) {
            Ok(copy) => {
                assert_eq!(contents(&copy), wanted, "crash at {point}");
                assert_eq!(copy.check().unwrap(), Vec::<String>::new());
                whole += 1;
            }
            Err(error) if error.kind() == ErrorKind::NotAStore => {
                // Repeating the backup completes it.
                db.checkpoint_to_in(&image, |_| ()).unwrap();
                assert_eq!(contents(&small().open_existing_in(image).unwrap()), wanted);
                none += 1;
            }
            Err(error) => panic!("crash at {point}: {error}"),
        }
    }
    assert!(none > 30 && whole > 0, "{none} and {whole}");
}

#[test]
fn a_copy_to_a_device_that_fails_is_no_store_and_harms_nothing() {
    let db = filled(&small(), memory(), 100);
    let wanted = contents(&db);
    let mut failed = 0;
    for operation in [
        DeviceOperation::Create,
        DeviceOperation::Grow,
        DeviceOperation::PunchHole,
        DeviceOperation::Write,
        DeviceOperation::Sync,
        DeviceOperation::SyncDirectory,
        DeviceOperation::Rename,
    ] {
        for fault in [InjectedFault::failing(operation), InjectedFault::full(operation)] {
            for call in 1.. {
                let world = SimDirectory::new(7);
                world.inject(fault.clone().at(call));
                let copied = db.checkpoint_to_in(&(Arc::new(world.clone()) as Arc<_>), |_| ());
                if world.faults_hit() == 0 {
                    copied.unwrap();
                    break;
                }
                failed += usize::from(copied.is_err());
                let image: Arc<dyn Directory> = Arc::new(world.image(CrashSurvival::Random, call));
                match small().open_existing_in(image) {
                    Ok(copy) => assert_eq!(contents(&copy), wanted, "{fault:?} at {call}"),
                    Err(error) if error.kind() == ErrorKind::NotAStore => {}
                    Err(error) => panic!("{fault:?} at {call}: {error}"),
                }
            }
        }
    }
    assert!(failed > 20, "{failed}");
    assert_eq!(contents(&db), wanted);
    db.keyspace("plain").unwrap().put("still", "writing").unwrap();
}

#[test]
fn a_store_is_restored_from_any_copy_with_its_log() {
    let world = SimDirectory::new(3);
    let backup: Arc<dyn Directory> = Arc::new(world.clone());
    let (wanted, died) = {
        let db = filled(&small(), memory(), 2000);
        db.checkpoint_to_in(&backup, |_| ()).unwrap();
        // The copy was in use when its process was killed.
        let copy = small().open_existing_in(Arc::clone(&backup)).unwrap();
        copy.keyspace("plain").unwrap().put("in the log", "only").unwrap();
        let wanted = contents(&copy);
        let to = memory();
        let error = small().restore_in(&backup, &to, |_| ()).unwrap_err();
        assert!(error.to_string().contains("locked"), "{error}");
        assert!(to.list().unwrap().is_empty());
        (wanted, world.image(CrashSurvival::Process, 3))
    };
    let before = died.content_hash();
    let left: Arc<dyn Directory> = Arc::new(died.clone());
    let to = memory();
    let mut stages = Vec::new();
    small()
        .restore_in(&left, &to, |progress| stages.push(progress.stage))
        .unwrap();
    stages.dedup();
    assert_eq!(stages, [ProgressStage::Copying, ProgressStage::Checking]);
    assert_eq!(before, died.content_hash(), "the backup was changed");
    let restored = small().open_existing_in(Arc::clone(&to)).unwrap();
    assert_eq!(contents(&restored), wanted);
    drop(restored);
    let error = small().restore_in(&left, &to, |_| ()).unwrap_err();
    assert!(error.kind() == ErrorKind::NotAStore, "{error}");
    let error = small().restore_in(memory(), memory(), |_| ()).unwrap_err();
    assert!(error.kind() == ErrorKind::NotAStore, "{error}");
}
