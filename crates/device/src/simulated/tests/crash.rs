//! What survives in individual examples, and crash points.

use super::*;
use crate::{DeviceOperation, Error};
use parking_lot::Mutex;
use std::collections::BTreeSet;

#[test]
fn after_none_only_what_was_synced_is_there() {
    let directory = SimDirectory::new(1);
    let file = durable_file(&directory, "a", 4096, FileOptions::DIRECT);
    write(&file, 0, 1024, 1);
    file.sync(Purpose::Other).expect("no fault");
    write(&file, 512, 1024, 2);
    file.grow(8192).expect("room");
    let image = directory.image(CrashSurvival::None, 5);
    assert_eq!(sectors(&image, "a"), [1, 1, 0, 0, 0, 0, 0, 0]);
    assert_ne!(image.boot_id(), directory.boot_id());
    let everything = directory.image(CrashSurvival::All, 5);
    assert_eq!(sectors(&everything, "a")[..4], [1, 2, 2, 0]);
    assert_eq!(sectors(&everything, "a").len(), 16);
}

#[test]
fn a_killed_process_leaves_its_writes_no_more_durable_than_they_were() {
    let directory = SimDirectory::new(2);
    let file = durable_file(&directory, "a", 512, FileOptions::DIRECT);
    write(&file, 0, 512, 9);
    let killed = directory.image(CrashSurvival::Process, 1);
    assert_eq!(killed.boot_id(), directory.boot_id());
    assert_eq!(sectors(&killed, "a"), [9]);
    assert_eq!(
        sectors(&killed.image(CrashSurvival::None, 1), "a"),
        [0],
        "power was lost after the kill"
    );
    let again = killed.open("a", FileOptions::DIRECT).expect("it exists");
    again.sync(Purpose::Other).expect("no fault");
    assert_eq!(sectors(&killed.image(CrashSurvival::None, 1), "a"), [9]);
}

#[test]
fn random_images_tear_writes_and_reach_every_subset() {
    let directory = SimDirectory::new(3);
    let file = durable_file(&directory, "a", 2048, FileOptions::DIRECT);
    write(&file, 0, 2048, 7);
    let found: BTreeSet<Vec<u8>> = images(&directory, CrashSurvival::Random, 600)
        .map(|image| sectors(&image, "a"))
        .collect();
    assert_eq!(found.len(), 16, "four sectors, each old or new: {found:?}");
}

#[test]
fn any_unsynced_version_of_a_sector_may_be_the_one_that_survives() {
    let directory = SimDirectory::new(4);
    let file = durable_file(&directory, "a", 512, FileOptions::DIRECT);
    for byte in 1..4 {
        write(&file, 0, 512, byte);
    }
    for survival in [CrashSurvival::Random, CrashSurvival::Reordered] {
        let found: BTreeSet<u8> = images(&directory, survival, 200)
            .map(|image| sectors(&image, "a")[0])
            .collect();
        assert_eq!(found, BTreeSet::from([0, 1, 2, 3]), "{survival:?}");
    }
}

#[test]
fn names_are_durable_only_after_a_sync_of_the_directory() {
    let directory = SimDirectory::new(5);
    let temporary = directory.create("new.tmp", FileOptions::DIRECT).expect("new");
    temporary.grow(512).expect("room");
    write(&temporary, 0, 512, 4);
    temporary.sync(Purpose::Other).expect("no fault");
    directory.rename("new.tmp", "new").expect("it exists");
    let names = |image: SimDirectory| image.list().expect("a list");
    assert!(names(directory.image(CrashSurvival::None, 1)).is_empty());
    let found: BTreeSet<Vec<String>> = images(&directory, CrashSurvival::Random, 100)
        .map(names)
        .collect();
    let expected = [vec![], vec!["new".to_owned()], vec!["new.tmp".to_owned()]];
    assert_eq!(found, BTreeSet::from(expected));
    directory.sync().expect("no fault");
    for image in images(&directory, CrashSurvival::Reordered, 50) {
        assert_eq!(names(image.clone()), ["new"]);
        assert_eq!(sectors(&image, "new"), [4]);
    }
}

#[test]
fn reordered_images_show_names_without_contents_and_lengths_without_bytes() {
    let directory = SimDirectory::new(6);
    let file = directory.create("a.tmp", FileOptions::DIRECT).expect("new");
    file.grow(512).expect("room");
    write(&file, 0, 512, 8);
    directory.rename("a.tmp", "a").expect("it exists");
    let states: BTreeSet<Option<Vec<u8>>> = images(&directory, CrashSurvival::Reordered, 300)
        .map(|image| {
            image
                .list()
                .expect("a list")
                .contains(&"a".to_owned())
                .then(|| sectors(&image, "a"))
        })
        .collect();
    let expected = [None, Some(vec![]), Some(vec![0]), Some(vec![8])];
    assert_eq!(
        states,
        BTreeSet::from(expected),
        "lost, without length, without bytes, whole"
    );
}

#[test]
fn a_removed_file_may_come_back_until_the_directory_is_synced() {
    let directory = SimDirectory::new(7);
    let file = durable_file(&directory, "a", 512, FileOptions::DIRECT);
    write(&file, 0, 512, 3);
    file.sync(Purpose::Other).expect("no fault");
    drop(file);
    directory.remove("a").expect("it exists");
    assert_eq!(sectors(&directory.image(CrashSurvival::None, 1), "a"), [3]);
    directory.sync().expect("no fault");
    assert!(
        directory
            .image(CrashSurvival::None, 1)
            .open("a", FileOptions::DIRECT)
            .is_err()
    );
    assert!(
        directory.shared.world.lock().files.is_empty(),
        "nothing can reach it any more"
    );
}

#[test]
fn the_hook_runs_before_every_operation_and_before_its_effect() {
    let directory = SimDirectory::new(8);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    directory.on_operation(move |point| {
        let killed = point.image(CrashSurvival::Process, point.index);
        let len = killed.open("a", FileOptions::DIRECT).map_or(0, |file| file.len());
        log.lock()
            .push((point.index, point.operation, point.file.to_owned(), len));
    });
    let file = durable_file(&directory, "a", 512, FileOptions::DIRECT);
    write(&file, 0, 512, 1);
    file.read_at(0, 512, Purpose::Other).expect("inside the file");
    file.allocate(0..512).expect("room");
    file.punch_hole(0..512).expect("no fault");
    file.truncate(0).expect("no fault");
    directory.rename("a", "b").expect("it exists");
    directory.remove("b").expect("it exists");
    assert_eq!(directory.operations(), 10);
    let (a, b) = ("a".to_owned(), "b".to_owned());
    let expected = [
        (0, DeviceOperation::Create, a.clone(), 0),
        (1, DeviceOperation::Grow, a.clone(), 0),
        (2, DeviceOperation::Sync, a.clone(), 512),
        (3, DeviceOperation::SyncDirectory, String::new(), 512),
        (4, DeviceOperation::Write, a.clone(), 512),
        (5, DeviceOperation::Grow, a.clone(), 512),
        (6, DeviceOperation::PunchHole, a.clone(), 512),
        (7, DeviceOperation::Truncate, a.clone(), 512),
        (8, DeviceOperation::Rename, a, 0),
        (9, DeviceOperation::Remove, b, 0),
    ];
    assert_eq!(*seen.lock(), expected);
    directory.clear_hook();
    directory.sync().expect("no fault");
    assert_eq!(seen.lock().len(), 10);
}

#[test]
fn a_hook_may_work_on_images_hook_them_and_crash_the_world() {
    let directory = SimDirectory::new(9);
    let file = durable_file(&directory, "a", 1024, FileOptions::DIRECT);
    let nested = Arc::new(Mutex::new(0));
    let count = Arc::clone(&nested);
    directory.on_operation(move |point| {
        let image = point.image(CrashSurvival::Random, point.index);
        let count = Arc::clone(&count);
        image.on_operation(move |inner| {
            drop(inner.image(CrashSurvival::None, 1));
            *count.lock() += 1;
        });
        let file = image.open("a", FileOptions::DIRECT).expect("it exists");
        write(&file, 0, 512, 1);
        file.sync(Purpose::Other).expect("no fault");
        let on_itself = point.directory.create("from the hook", FileOptions::DIRECT);
        assert!(on_itself.is_ok(), "the hook itself is not hooked");
        point.directory.crash();
    });
    let failure = file.write_at(512, AlignedBuffer::padded(&[5; 512]), Purpose::Other);
    assert!(matches!(failure, Err(Error::Crashed { .. })), "{failure:?}");
    assert_eq!(*nested.lock(), 2);
    assert!(directory.is_crashed());
}

#[test]
fn after_a_crash_every_operation_fails_and_images_show_that_moment() {
    let directory = shuffled(10);
    let file = durable_file(&directory, "a", 1024, FileOptions::BUFFERED);
    write(&file, 0, 512, 1);
    let mapping = file.map(0..1024).expect("a buffered file");
    let mut batch = crate::IoBatch::new();
    batch.write(512, AlignedBuffer::padded(&[2; 512]), Purpose::Other);
    let ticket = file.submit(batch);
    let before: Vec<u64> = images(&directory, CrashSurvival::Process, 20)
        .map(|i| i.content_hash())
        .collect();
    directory.crash();
    file.wait(&ticket);
    assert!(matches!(ticket.take_buffers(), Err(Error::Crashed { .. })));
    // SAFETY: nothing else uses the mapping.
    unsafe { mapping.write(0, &[7; 512]) };
    drop(mapping);
    let crashed =
        |result: crate::Result<()>| assert!(matches!(result, Err(Error::Crashed { .. })), "{result:?}");
    crashed(file.grow(1 << 20));
    crashed(file.truncate(0));
    crashed(file.punch_hole(0..512));
    crashed(file.allocate(0..512));
    crashed(file.sync(Purpose::Other));
    crashed(file.read_at(0, 512, Purpose::Other).map(|_| ()));
    crashed(file.map(0..512).map(|_| ()));
    crashed(directory.sync());
    crashed(directory.rename("a", "b"));
    crashed(directory.remove("a"));
    crashed(directory.create("b", FileOptions::DIRECT).map(|_| ()));
    crashed(directory.open("a", FileOptions::DIRECT).map(|_| ()));
    crashed(directory.list().map(|_| ()));
    crashed(directory.space().map(|_| ()));
    crashed(directory.lock("lock").map(|_| ()));
    let after: Vec<u64> = images(&directory, CrashSurvival::Process, 20)
        .map(|i| i.content_hash())
        .collect();
    assert_eq!(before, after);
    let distinct: BTreeSet<u64> = after.into_iter().collect();
    assert_eq!(distinct.len(), 2, "the write in flight is done or not");
}

#[test]
fn equal_seeds_and_calls_give_equal_traces_orders_and_images() {
    let run = |seed: u64, watched: bool| {
        let directory = shuffled(seed);
        if watched {
            directory.on_operation(|point| drop(point.image(CrashSurvival::Random, 1)));
        }
        let file = durable_file(&directory, "a", 1 << 16, FileOptions::BUFFERED);
        let mapping = file.map(0..8192).expect("a buffered file");
        let mut order = Vec::new();
        for round in 0..20u64 {
            let tickets: Vec<_> = (0..4)
                .map(|index| {
                    let mut batch = crate::IoBatch::new();
                    batch.write(
                        8192 + (round * 4 + index) * 512,
                        AlignedBuffer::padded(&[round as u8; 512]),
                        Purpose::Other,
                    );
                    file.submit(batch)
                })
                .collect();
            // SAFETY: nothing else uses the mapping.
            unsafe { mapping.write(round as usize * 100, &[round as u8 + 1; 100]) };
            while tickets.iter().any(|ticket| !file.poll(ticket)) {
                order.push(tickets.iter().map(crate::Ticket::is_complete).collect::<Vec<_>>());
            }
        }
        let images: Vec<u64> = (0..30)
            .map(|seed| directory.image(CrashSurvival::Random, seed).content_hash())
            .collect();
        (directory.trace_hash(), order, directory.operations(), images)
    };
    let (first, again, watched, other) = (run(11, false), run(11, false), run(11, true), run(12, false));
    assert_eq!(first, again);
    assert_eq!(
        (&first.0, &first.1, &first.2),
        (&watched.0, &watched.1, &watched.2),
        "watching changes nothing"
    );
    assert_ne!(first.0, other.0);
    assert_ne!(first.1, other.1);
}

#[test]
fn content_hashes_tell_contents_lengths_and_names_apart() {
    let directory = SimDirectory::new(13);
    let mut found = BTreeSet::new();
    let mut see = |directory: &SimDirectory| assert!(found.insert(directory.content_hash()));
    see(&directory);
    let file = directory.create("a", FileOptions::DIRECT).expect("new");
    see(&directory);
    file.grow(8192).expect("room");
    see(&directory);
    write(&file, 0, 512, 1);
    see(&directory);
    write(&file, 512, 512, 1);
    see(&directory);
    directory.rename("a", "b").expect("it exists");
    see(&directory);
    let before = directory.content_hash();
    write(&file, 4096, 512, 0);
    assert_eq!(
        directory.content_hash(),
        before,
        "zeros over a hole change nothing"
    );
    assert_eq!(directory.image(CrashSurvival::Process, 3).content_hash(), before);
}
