//! Requests in flight, D1 to D6, faults and a full disk.

use super::*;
use crate::simulated::InjectedFault;
use crate::{DeviceOperation, Error, IoBatch, Ticket};
use std::collections::BTreeSet;

fn submit_write(file: &Arc<dyn Device>, offset: u64, byte: u8) -> Ticket {
    let mut batch = IoBatch::new();
    batch.write(offset, AlignedBuffer::padded(&[byte; 512]), Purpose::Other);
    file.submit(batch)
}

#[test]
fn requests_complete_in_an_order_of_the_seeds_choice() {
    let orders: BTreeSet<Vec<usize>> = (0..40)
        .map(|seed| {
            let directory = shuffled(seed);
            let file = durable_file(&directory, "a", 4096, FileOptions::DIRECT);
            let mut tickets: Vec<_> = (0..3).map(|i| Some(submit_write(&file, i * 512, 1))).collect();
            let mut order = Vec::new();
            while order.len() < 3 {
                assert!(directory.shared.world.lock().flights.len() == 3 - order.len());
                assert!(directory.finish_next());
                for (index, slot) in tickets.iter_mut().enumerate() {
                    if slot.as_ref().is_some_and(Ticket::is_complete) {
                        order.push(index);
                        *slot = None;
                    }
                }
            }
            order
        })
        .collect();
    assert_eq!(orders.len(), 6, "every order of three: {orders:?}");
}

#[test]
fn a_sync_covers_what_was_complete_when_it_was_submitted_and_nothing_else() {
    let directory = shuffled(1);
    let file = durable_file(&directory, "a", 1024, FileOptions::DIRECT);
    write(&file, 0, 512, 1);
    let late = submit_write(&file, 512, 2);
    let mut batch = IoBatch::new();
    batch.sync(Purpose::Other);
    let sync = file.submit(batch);
    file.wait(&late);
    file.wait(&sync);
    assert_eq!(sectors(&directory.image(CrashSurvival::None, 1), "a"), [1, 0]);
    let mut both = IoBatch::new();
    both.write(0, AlignedBuffer::padded(&[3; 512]), Purpose::Other)
        .sync(Purpose::Other);
    file.run(both).expect("no fault");
    assert_eq!(
        sectors(&directory.image(CrashSurvival::None, 1), "a"),
        [1, 2],
        "one batch is no order (D3)"
    );
}

#[test]
fn a_request_in_flight_may_be_done_wholly_in_part_or_not_at_all() {
    let directory = shuffled(2);
    let file = durable_file(&directory, "a", 2048, FileOptions::DIRECT);
    let mut batch = IoBatch::new();
    batch.write(0, AlignedBuffer::padded(&[1; 2048]), Purpose::Other);
    let ticket = file.submit(batch);
    for survival in [
        CrashSurvival::Process,
        CrashSurvival::Random,
        CrashSurvival::Reordered,
    ] {
        let found: BTreeSet<Vec<u8>> = images(&directory, survival, 600)
            .map(|image| sectors(&image, "a"))
            .collect();
        assert_eq!(found.len(), 16, "{survival:?}");
    }
    assert_eq!(sectors(&directory.image(CrashSurvival::None, 0), "a"), [0; 4]);
    assert_eq!(sectors(&directory.image(CrashSurvival::All, 0), "a"), [1; 4]);
    assert_eq!(directory.in_flight(), 1);
    file.wait(&ticket);
    assert_eq!(directory.in_flight(), 0);
}

#[test]
fn in_order_batches_have_their_later_requests_in_flight_at_each_crash_point() {
    let directory = SimDirectory::new(3);
    let file = durable_file(&directory, "a", 1024, FileOptions::DIRECT);
    let found = Arc::new(parking_lot::Mutex::new(BTreeSet::new()));
    let seen = Arc::clone(&found);
    directory.on_operation(move |point| {
        for seed in 0..40 {
            seen.lock()
                .insert(sectors(&point.image(CrashSurvival::Process, seed), "a"));
        }
    });
    let mut batch = IoBatch::new();
    batch
        .write(0, AlignedBuffer::padded(&[1; 512]), Purpose::Other)
        .write(512, AlignedBuffer::padded(&[1; 512]), Purpose::Other);
    file.run(batch).expect("no fault");
    assert_eq!(found.lock().len(), 4, "{:?}", found.lock());
}

#[test]
fn dropped_tickets_are_performed_all_the_same() {
    let directory = shuffled(4);
    let file = durable_file(&directory, "a", 1024, FileOptions::DIRECT);
    drop(submit_write(&file, 0, 5));
    let second = submit_write(&file, 512, 6);
    drop(file);
    let file = directory.open("a", FileOptions::DIRECT).expect("it exists");
    file.wait(&second);
    while directory.in_flight() > 0 {
        write(&file, 512, 512, 6);
    }
    assert_eq!(sectors(&directory, "a"), [5, 6]);
}

#[test]
fn a_failed_sync_poisons_what_was_open_and_no_later_sync_brings_its_writes_back() {
    let directory = SimDirectory::new(5);
    let file = durable_file(&directory, "a", 4096, FileOptions::BUFFERED);
    let mapping = file.map(0..4096).expect("a buffered file");
    write(&file, 0, 4096, 1);
    directory.inject(InjectedFault::failing(DeviceOperation::Sync).on("a"));
    assert!(matches!(file.sync(Purpose::Other), Err(Error::Io { .. })));
    let poisoned =
        |result: crate::Result<()>| assert!(matches!(result, Err(Error::Poisoned { .. })), "{result:?}");
    poisoned(file.sync(Purpose::Other));
    poisoned(
        file.write_at(0, AlignedBuffer::zeroed(512), Purpose::Other)
            .map(|_| ()),
    );
    poisoned(file.grow(1 << 20));
    poisoned(file.map(0..512).map(|_| ()));
    poisoned(mapping.sync(0..512, Purpose::Other));
    assert_eq!(sectors(&directory, "a"), [1; 8], "reads go on");

    let again = directory.open("a", FileOptions::DIRECT).expect("it exists");
    again.sync(Purpose::Other).expect("the fault was one");
    let lost: BTreeSet<Vec<u8>> = (0..20)
        .map(|seed| {
            let directory = SimDirectory::new(seed);
            let file = durable_file(&directory, "a", 4096, FileOptions::DIRECT);
            write(&file, 0, 4096, 1);
            directory.inject(InjectedFault::failing(DeviceOperation::Sync));
            assert!(file.sync(Purpose::Other).is_err());
            let again = directory.open("a", FileOptions::DIRECT).expect("it exists");
            again.sync(Purpose::Other).expect("the fault was one");
            sectors(&directory.image(CrashSurvival::None, 0), "a")
        })
        .collect();
    assert!(
        lost.len() > 10,
        "each sector reached the disk or did not: {lost:?}"
    );
    write(&again, 0, 4096, 2);
    again.sync(Purpose::Other).expect("no fault");
    assert_eq!(sectors(&directory.image(CrashSurvival::None, 0), "a"), [2; 8]);
}

#[test]
fn a_failed_sync_of_the_directory_poisons_names_until_it_is_reopened() {
    let directory = SimDirectory::new(6);
    directory.inject(InjectedFault::failing(DeviceOperation::SyncDirectory));
    assert!(matches!(directory.sync(), Err(Error::Io { .. })));
    assert!(matches!(directory.sync(), Err(Error::Poisoned { .. })));
    let refused = directory.create("a", FileOptions::DIRECT);
    assert!(matches!(refused, Err(Error::Poisoned { .. })));
    let again = directory.reopen();
    again.create("a", FileOptions::DIRECT).expect("a new handle");
    again.sync().expect("a new handle");
    assert!(directory.sync().is_err());
}

#[test]
fn every_operation_can_be_made_to_fail() {
    let directory = SimDirectory::new(7);
    let file = durable_file(&directory, "a", 4096, FileOptions::BUFFERED);
    let failing = |operation, call: &dyn Fn() -> crate::Result<()>| {
        directory.inject(InjectedFault::failing(operation));
        let result = call();
        assert!(matches!(result, Err(Error::Io { .. })), "{operation}: {result:?}");
        call().expect("the fault was one");
    };
    failing(DeviceOperation::Read, &|| {
        file.read_at(0, 512, Purpose::Other).map(|_| ())
    });
    failing(DeviceOperation::Write, &|| {
        file.write_at(0, AlignedBuffer::zeroed(512), Purpose::Other)
            .map(|_| ())
    });
    failing(DeviceOperation::Grow, &|| file.grow(8192));
    failing(DeviceOperation::Truncate, &|| file.truncate(4096));
    failing(DeviceOperation::PunchHole, &|| file.punch_hole(0..4096));
    failing(DeviceOperation::Map, &|| file.map(0..4096).map(|_| ()));
    failing(DeviceOperation::Open, &|| {
        directory.open("a", FileOptions::DIRECT).map(|_| ())
    });
    failing(DeviceOperation::List, &|| directory.list().map(|_| ()));
    failing(DeviceOperation::Create, &|| {
        directory.create("b", FileOptions::DIRECT).map(|_| ())
    });
    failing(DeviceOperation::Rename, &|| directory.rename("b", "c"));
    failing(DeviceOperation::Remove, &|| directory.remove("c"));
    failing(DeviceOperation::Lock, &|| directory.lock("lock").map(|_| ()));
    assert_eq!(directory.faults_hit(), 12);
    directory.inject(InjectedFault::failing(DeviceOperation::Read).sticky());
    assert!(file.read_at(0, 512, Purpose::Other).is_err());
    assert!(file.read_at(0, 512, Purpose::Other).is_err());
    directory.clear_faults();
    assert!(file.read_at(0, 512, Purpose::Other).is_ok());
}

#[test]
fn a_failed_write_leaves_each_sector_old_or_new() {
    let found: BTreeSet<Vec<u8>> = (0..200)
        .map(|seed| {
            let directory = SimDirectory::new(seed);
            let file = durable_file(&directory, "a", 1024, FileOptions::DIRECT);
            directory.inject(InjectedFault::failing(DeviceOperation::Write));
            assert!(
                file.write_at(0, AlignedBuffer::padded(&[1; 1024]), Purpose::Other)
                    .is_err()
            );
            sectors(&directory, "a")
        })
        .collect();
    assert_eq!(found.len(), 4);
}

#[test]
fn flipped_bits_are_in_the_answer_and_not_on_the_disk() {
    let directory = SimDirectory::new(8);
    let file = durable_file(&directory, "a", 4096, FileOptions::DIRECT);
    directory.inject(InjectedFault::flipped_bits(1));
    let ones = |bytes: &[u8]| bytes.iter().map(|byte| byte.count_ones()).sum::<u32>();
    let read = || file.read_at(0, 4096, Purpose::Other).expect("inside the file");
    assert_eq!(ones(&read()), 1);
    assert_eq!(ones(&read()), 0);
}

#[test]
fn a_full_disk_changes_nothing_and_goes_on_once_there_is_room() {
    let directory = SimDirectory::with(SimOptions {
        capacity: 10 * 4096,
        ..SimOptions::new(9)
    });
    let file = directory.create("a", FileOptions::DIRECT).expect("new");
    file.grow(8 * 4096).expect("room");
    let before = directory.content_hash();
    for wanted in [11 * 4096, 10 * 4096 + 1] {
        let full = file.grow(wanted);
        assert!(full.is_err_and(|error| error.is_disk_full()), "{wanted}");
    }
    file.grow(10 * 4096).expect("to the last byte");
    file.truncate(8 * 4096).expect("no fault");
    assert_eq!((directory.content_hash(), directory.used()), (before, 8 * 4096));

    file.punch_hole(0..3 * 4096).expect("no fault");
    assert_eq!(directory.space().expect("a size").free, 5 * 4096);
    let other = directory.create("b", FileOptions::DIRECT).expect("new");
    other.grow(5 * 4096).expect("the hole's room");
    let into_hole = file.write_at(0, AlignedBuffer::zeroed(4096), Purpose::Other);
    assert!(into_hole.is_err_and(|error| error.is_disk_full()));
    assert!(file.allocate(0..4096).is_err_and(|error| error.is_disk_full()));
    file.write_at(3 * 4096, AlignedBuffer::zeroed(4096), Purpose::Other)
        .expect("what is allocated is not full");
    directory.remove("b").expect("it exists");
    assert!(file.allocate(0..4096).is_err(), "an open file keeps its space");
    drop(other);
    file.allocate(0..4096).expect("freed");
    directory.set_capacity(1);
    assert!(file.allocate(4096..8192).is_err());
    directory.set_capacity(1 << 20);
    file.allocate(4096..8192).expect("more room");
    directory.inject(InjectedFault::full(DeviceOperation::Grow).at(2));
    file.grow(1 << 16).expect("the first");
    assert!(file.grow(1 << 17).is_err_and(|error| error.is_disk_full()));
    file.grow(1 << 17).expect("once");
}

#[test]
fn requests_are_counted_once_under_their_purpose() {
    let directory = shuffled(10);
    let file = durable_file(&directory, "a", 4096, FileOptions::DIRECT);
    let before = directory.counters().snapshot();
    let mut batch = IoBatch::new();
    batch
        .write(0, AlignedBuffer::zeroed(1024), Purpose::Log)
        .read(0, AlignedBuffer::zeroed(512), Purpose::Log)
        .sync(Purpose::Log)
        .read(1 << 30, AlignedBuffer::zeroed(512), Purpose::Log);
    let ticket = file.submit(batch);
    file.wait(&ticket);
    assert!(matches!(ticket.take()[3].result, Err(Error::PastEnd { .. })));
    let counts = directory.counters().snapshot().since(&before).of(Purpose::Log);
    let (reads, bytes) = (counts.reads, counts.read_bytes);
    assert_eq!(
        (reads, bytes, counts.writes, counts.written_bytes, counts.syncs),
        (2, 1024, 1, 1024, 1)
    );
    file.punch_hole(0..4096).expect("no fault");
    assert_eq!(directory.counters().snapshot().total().punched_bytes, 4096);
}

#[test]
fn a_lock_is_exclusive_and_does_not_survive_the_process() {
    let directory = SimDirectory::new(11);
    let held = directory.lock("lock").expect("free");
    assert!(matches!(directory.lock("lock"), Err(Error::Locked { .. })));
    assert!(directory.image(CrashSurvival::Process, 0).lock("lock").is_ok());
    drop(held);
    assert!(directory.lock("lock").is_ok());
    assert_eq!(directory.list().expect("a list"), ["lock"]);
}

#[test]
fn what_waits_for_a_sync_too_long_is_written_back_oldest_first() {
    let directory = SimDirectory::with(SimOptions {
        pending_limit: 4,
        ..SimOptions::new(12)
    });
    let file = durable_file(&directory, "a", 5 * 512, FileOptions::DIRECT);
    for sector in 0..5 {
        write(&file, sector * 512, 512, 1);
    }
    assert_eq!(
        sectors(&directory.image(CrashSurvival::None, 0), "a"),
        [1, 1, 0, 0, 0]
    );
}

#[test]
fn two_threads_wait_for_each_others_requests() {
    let directory = shuffled(13);
    let file = durable_file(&directory, "a", 1 << 16, FileOptions::DIRECT);
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let file = &file;
            scope.spawn(move || {
                for round in 0..500 {
                    let offset = (thread * 64 + round % 64) * 512;
                    let ticket = submit_write(file, offset, thread as u8 + 1);
                    file.wait(&ticket);
                    assert_eq!(ticket.take_buffers().expect("no fault").len(), 1);
                }
            });
        }
    });
    assert_eq!(directory.in_flight(), 0);
    assert_eq!(sectors(&directory, "a"), [[1; 64], [2; 64]].concat());
}
