//! The contract of a directory and its files (D1–D7), as one suite for all implementations.

use crate::copies::{
    a_lock_is_exclusive_until_it_is_dropped, a_range_is_copied_from_a_file_of_any_directory,
    a_shared_lock_is_shared_and_keeps_out_whoever_wants_it_alone, large_transfers_arrive_whole,
};
use crate::places::Place;
use alluvium_base::Purpose;
use alluvium_device::file::IoEngine;
use alluvium_device::{AlignedBuffer, CacheMode, Device, Error, FileOptions, IoBatch, IoOutcome, Ticket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs every test of the suite on every place.
macro_rules! suite {
    ($($test:ident)*) => {
        suite!(@place memory_direct, Place::memory(CacheMode::Direct), $($test)*);
        suite!(@place memory_buffered, Place::memory(CacheMode::Buffered), $($test)*);
        suite!(@place simulated_direct, Place::simulated(CacheMode::Direct), $($test)*);
        suite!(@place simulated_buffered, Place::simulated(CacheMode::Buffered), $($test)*);
        suite!(@place shuffled_direct, Place::shuffled(CacheMode::Direct), $($test)*);
        suite!(@place shuffled_buffered, Place::shuffled(CacheMode::Buffered), $($test)*);
        suite!(@place throttled, Place::throttled(CacheMode::Direct), $($test)*);
        suite!(@place uring_direct, Place::files(IoEngine::Auto, CacheMode::Direct), $($test)*);
        suite!(@place uring_buffered, Place::files(IoEngine::Auto, CacheMode::Buffered), $($test)*);
        suite!(@place threads_direct, Place::files(IoEngine::Threads, CacheMode::Direct), $($test)*);
        suite!(@place threads_buffered, Place::files(IoEngine::Threads, CacheMode::Buffered), $($test)*);
        suite!(@place tmpfs_uring, Place::tmpfs(IoEngine::Auto, CacheMode::Direct), $($test)*);
        suite!(@place tmpfs_threads, Place::tmpfs(IoEngine::Threads, CacheMode::Direct), $($test)*);
    };
    (@place $place:ident, $make:expr, $($test:ident)*) => {
        mod $place {
            use super::*;
            $(#[test] fn $test() { super::$test(&$make); })*
        }
    };
}

suite! {
    what_is_written_is_read
    outcomes_come_in_the_order_of_their_requests
    an_empty_batch_is_complete_at_once
    a_grown_file_reads_as_zeros
    what_was_cut_off_reads_as_zeros_when_it_is_grown_back
    growing_to_less_does_nothing
    a_request_past_the_end_fails_alone_and_gives_its_buffer_back
    a_file_for_reading_only_refuses_every_change
    a_hole_reads_as_zeros_and_keeps_the_length
    an_allocated_range_keeps_what_it_holds
    a_misaligned_direct_request_panics
    a_dropped_ticket_leaves_its_writes_on_their_way
    batches_in_flight_together_are_waited_for_in_any_order
    a_batch_longer_than_any_queue_completes
    polling_alone_completes_a_batch
    a_ticket_may_be_waited_for_by_another_thread
    threads_do_not_see_each_others_requests
    every_request_is_counted_once_under_its_purpose
    refused_requests_give_their_buffers_back
    names_are_created_opened_renamed_and_removed
    open_handles_survive_a_rename_and_a_removal
    two_handles_of_a_file_share_its_length_and_content
    a_lock_is_exclusive_until_it_is_dropped
    a_shared_lock_is_shared_and_keeps_out_whoever_wants_it_alone
    a_range_is_copied_from_a_file_of_any_directory
    the_boot_and_the_space_are_told
    a_mapping_shares_its_bytes_with_reads
    a_mapping_outlives_its_handle
    a_mapping_that_cannot_be_is_refused
    large_transfers_arrive_whole
}

// On an overlay, operations do not reach a device and so are not counted, and files cannot be
// mapped.
suite!(@place overlay_direct, Place::overlay(CacheMode::Direct),
    what_is_written_is_read outcomes_come_in_the_order_of_their_requests
    an_empty_batch_is_complete_at_once a_grown_file_reads_as_zeros
    what_was_cut_off_reads_as_zeros_when_it_is_grown_back growing_to_less_does_nothing
    a_request_past_the_end_fails_alone_and_gives_its_buffer_back a_file_for_reading_only_refuses_every_change
    a_hole_reads_as_zeros_and_keeps_the_length an_allocated_range_keeps_what_it_holds
    a_misaligned_direct_request_panics a_dropped_ticket_leaves_its_writes_on_their_way
    batches_in_flight_together_are_waited_for_in_any_order a_batch_longer_than_any_queue_completes
    polling_alone_completes_a_batch a_ticket_may_be_waited_for_by_another_thread
    threads_do_not_see_each_others_requests refused_requests_give_their_buffers_back
    names_are_created_opened_renamed_and_removed open_handles_survive_a_rename_and_a_removal
    two_handles_of_a_file_share_its_length_and_content a_lock_is_exclusive_until_it_is_dropped
    a_shared_lock_is_shared_and_keeps_out_whoever_wants_it_alone a_range_is_copied_from_a_file_of_any_directory
    the_boot_and_the_space_are_told large_transfers_arrive_whole
);

pub(crate) const OTHER: Purpose = Purpose::Other;

/// Creates a file of `blocks` blocks, each filled with a distinct pattern.
pub(crate) fn filled(place: &Place, name: &str, blocks: u64) -> Arc<dyn Device> {
    let file = place.directory.create(name, place.options).unwrap();
    file.grow(blocks * 512).unwrap();
    let mut batch = IoBatch::new();
    for number in 0..blocks {
        batch.write(number * 512, block(number), OTHER);
    }
    file.run(batch).unwrap();
    file
}

/// Returns a block whose bytes identify its number.
pub(crate) fn block(number: u64) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::zeroed(512);
    for (at, byte) in buffer.iter_mut().enumerate() {
        *byte = pattern(number, at);
    }
    buffer
}

fn pattern(number: u64, at: usize) -> u8 {
    (number as u8).wrapping_mul(31).wrapping_add(at as u8) | 1
}

pub(crate) fn assert_block(number: u64, bytes: &[u8]) {
    for (at, byte) in bytes.iter().enumerate() {
        assert_eq!(*byte, pattern(number, at), "byte {at} of block {number}");
    }
}

fn reads(numbers: impl IntoIterator<Item = u64>) -> IoBatch {
    let mut batch = IoBatch::new();
    for number in numbers {
        batch.read(number * 512, AlignedBuffer::zeroed(512), OTHER);
    }
    batch
}

fn finish(file: &Arc<dyn Device>, ticket: Ticket) -> Vec<IoOutcome> {
    file.wait(&ticket);
    ticket.take()
}

fn what_is_written_is_read(place: &Place) {
    let file = filled(place, "f", 64);
    for number in [0, 63, 17] {
        assert_block(number, &file.read_at(number * 512, 512, OTHER).unwrap());
    }
    let all = file.read_at(0, 64 * 512, OTHER).unwrap();
    for (number, bytes) in all.chunks(512).enumerate() {
        assert_block(number as u64, bytes);
    }
    let given_back = file.write_at(512, block(9), OTHER).unwrap();
    assert_block(9, &given_back);
    assert_block(9, &file.read_at(512, 512, OTHER).unwrap());
}

fn outcomes_come_in_the_order_of_their_requests(place: &Place) {
    let file = filled(place, "f", 100);
    let order: Vec<u64> = (0..100).map(|number| number * 37 % 100).collect();
    let ticket = file.submit(reads(order.iter().copied()));
    for (outcome, number) in finish(&file, ticket).into_iter().zip(order) {
        assert_block(number, &outcome.into_buffer().unwrap());
    }
}

fn an_empty_batch_is_complete_at_once(place: &Place) {
    let file = filled(place, "f", 1);
    let ticket = file.submit(IoBatch::new());
    assert!(ticket.is_complete() && file.poll(&ticket));
    assert!(finish(&file, ticket).is_empty());
    assert!(file.run(IoBatch::new()).unwrap().is_empty());
}

fn a_grown_file_reads_as_zeros(place: &Place) {
    let file = place.directory.create("f", place.options).unwrap();
    assert!(file.is_empty());
    file.grow(1 << 20).unwrap();
    assert_eq!(file.len(), 1 << 20);
    assert!(
        file.read_at(0, 1 << 20, OTHER)
            .unwrap()
            .iter()
            .all(|&byte| byte == 0)
    );
}

fn what_was_cut_off_reads_as_zeros_when_it_is_grown_back(place: &Place) {
    let file = filled(place, "f", 32);
    file.truncate(8 * 512).unwrap();
    assert_eq!(file.len(), 8 * 512);
    file.truncate(1 << 30).unwrap();
    assert_eq!(file.len(), 8 * 512, "truncating never lengthens");
    file.grow(32 * 512).unwrap();
    assert_block(7, &file.read_at(7 * 512, 512, OTHER).unwrap());
    assert!(
        file.read_at(8 * 512, 24 * 512, OTHER)
            .unwrap()
            .iter()
            .all(|&byte| byte == 0)
    );
}

fn growing_to_less_does_nothing(place: &Place) {
    let file = filled(place, "f", 8);
    file.grow(512).unwrap();
    assert_eq!(file.len(), 8 * 512);
    assert_block(7, &file.read_at(7 * 512, 512, OTHER).unwrap());
}

fn a_request_past_the_end_fails_alone_and_gives_its_buffer_back(place: &Place) {
    let file = filled(place, "f", 8);
    let mut batch = IoBatch::new();
    batch.read(7 * 512, AlignedBuffer::zeroed(512), OTHER);
    batch.read(8 * 512, AlignedBuffer::zeroed(512), OTHER);
    batch.write(7 * 512, AlignedBuffer::zeroed(1024), OTHER);
    batch.read(u64::MAX / 512 * 512, AlignedBuffer::zeroed(512), OTHER);
    batch.write(6 * 512, block(99), OTHER);
    let ticket = file.submit(batch);
    let outcomes = finish(&file, ticket);
    assert!(outcomes.iter().all(|outcome| outcome.buffer.is_some()));
    let past: Vec<bool> = outcomes
        .iter()
        .map(|outcome| matches!(outcome.result, Err(Error::PastEnd { end: 4096, .. })))
        .collect();
    assert_eq!(past, [false, true, true, true, false]);
    assert_block(99, &file.read_at(6 * 512, 512, OTHER).unwrap());
    assert_block(7, &file.read_at(7 * 512, 512, OTHER).unwrap());
    assert_eq!(file.len(), 8 * 512);
}

fn a_file_for_reading_only_refuses_every_change(place: &Place) {
    filled(place, "f", 8).sync(OTHER).unwrap();
    let file = place.directory.open("f", place.options.read_only()).unwrap();
    let refused = |result: Result<(), Error>| {
        assert!(matches!(result, Err(Error::ReadOnly { .. })), "{result:?}");
    };
    refused(file.write_at(0, block(0), OTHER).map(|_| ()));
    refused(file.grow(1 << 20));
    refused(file.allocate(0..512));
    refused(file.truncate(0));
    refused(file.punch_hole(0..4096));
    refused(file.map(0..4096).map(|_| ()));
    let mut batch = IoBatch::new();
    batch
        .write(0, block(3), OTHER)
        .read(512, AlignedBuffer::zeroed(512), OTHER);
    let ticket = file.submit(batch);
    let mut outcomes = finish(&file, ticket).into_iter();
    refused(outcomes.next().unwrap().result);
    assert_block(1, &outcomes.next().unwrap().into_buffer().unwrap());
    assert_eq!(file.len(), 8 * 512);
}

fn a_hole_reads_as_zeros_and_keeps_the_length(place: &Place) {
    let file = filled(place, "f", 64);
    file.punch_hole(4096..16384).unwrap();
    assert_eq!(file.len(), 64 * 512);
    let all = file.read_at(0, 64 * 512, OTHER).unwrap();
    for (number, bytes) in all.chunks(512).enumerate() {
        if (8..32).contains(&number) {
            assert!(bytes.iter().all(|&byte| byte == 0), "block {number}");
        } else {
            assert_block(number as u64, bytes);
        }
    }
    // Punch a hole beyond the end, and an empty one.
    file.punch_hole(60 * 512..1 << 30).unwrap();
    file.punch_hole(1 << 30..2 << 30).unwrap();
    file.punch_hole(0..0).unwrap();
    assert_eq!(file.len(), 64 * 512);
    assert_block(59, &file.read_at(59 * 512, 512, OTHER).unwrap());
    assert_eq!(file.read_at(60 * 512, 512, OTHER).unwrap()[0], 0);
}

fn an_allocated_range_keeps_what_it_holds(place: &Place) {
    let file = filled(place, "f", 64);
    file.punch_hole(8192..16384).unwrap();
    file.allocate(4096..20480).unwrap();
    assert_eq!(file.len(), 64 * 512);
    assert_block(8, &file.read_at(4096, 512, OTHER).unwrap());
    assert_eq!(file.read_at(8192, 512, OTHER).unwrap()[0], 0);
    assert_block(32, &file.read_at(16384, 512, OTHER).unwrap());
    assert!(matches!(file.allocate(0..1 << 30), Err(Error::PastEnd { .. })));
}

fn a_misaligned_direct_request_panics(place: &Place) {
    if place.options.caching == CacheMode::Buffered {
        // Buffered files have no alignment requirement.
        let file = filled(place, "f", 2);
        let read = file.read_at(100, 512, OTHER).unwrap();
        assert_eq!(read[..412], file.read_at(0, 512, OTHER).unwrap()[100..]);
        return;
    }
    let file = filled(place, "f", 8);
    let misaligned = |offset| {
        let mut batch = IoBatch::new();
        batch.read(0, AlignedBuffer::zeroed(512), OTHER);
        batch.read(offset, AlignedBuffer::zeroed(512), OTHER);
        file.run(batch)
    };
    for offset in [1, 511, 513] {
        assert!(
            catch_unwind(AssertUnwindSafe(|| misaligned(offset))).is_err(),
            "offset {offset}"
        );
    }
    assert!(misaligned(512).is_ok(), "the file is usable afterwards");
}

fn a_dropped_ticket_leaves_its_writes_on_their_way(place: &Place) {
    let file = filled(place, "f", 64);
    for round in 0..8 {
        let mut batch = IoBatch::new();
        for number in 0..64 {
            batch.write(number * 512, block(number + 64 + round), OTHER);
        }
        drop(file.submit(batch));
        // The tickets of these reads are dropped, but their memory must not be freed while the
        // device uses it.
        drop(file.submit(reads(0..64)));
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let arrived = (0..64).all(|number| {
                let bytes = file.read_at(number * 512, 512, OTHER).unwrap();
                bytes[0] == pattern(number + 64 + round, 0)
            });
            if arrived {
                break;
            }
            assert!(
                Instant::now() < deadline,
                "the writes of a dropped ticket never arrived"
            );
        }
    }
}

fn batches_in_flight_together_are_waited_for_in_any_order(place: &Place) {
    let file = filled(place, "f", 128);
    let mut tickets: Vec<(u64, Ticket)> = (0..32)
        .map(|start| (start, file.submit(reads((0..4).map(|step| start + step * 32)))))
        .collect();
    tickets.reverse();
    tickets.swap(3, 20);
    for (start, ticket) in tickets {
        for (step, outcome) in finish(&file, ticket).into_iter().enumerate() {
            assert_block(start + step as u64 * 32, &outcome.into_buffer().unwrap());
        }
    }
}

fn a_batch_longer_than_any_queue_completes(place: &Place) {
    let file = filled(place, "f", 128);
    let ticket = file.submit(reads((0..5000).map(|number| number % 128)));
    let second = file.submit(reads(0..3));
    assert_eq!(finish(&file, second).len(), 3);
    for (number, outcome) in finish(&file, ticket).into_iter().enumerate() {
        assert_block(number as u64 % 128, &outcome.into_buffer().unwrap());
    }
    assert_eq!(
        file.run(reads((0..3000).map(|number| number % 128)))
            .unwrap()
            .len(),
        3000
    );
}

fn polling_alone_completes_a_batch(place: &Place) {
    let file = filled(place, "f", 700);
    let mut batch = reads(0..700);
    batch.sync(OTHER);
    let ticket = file.submit(batch);
    let deadline = Instant::now() + Duration::from_secs(20);
    while !file.poll(&ticket) {
        assert!(Instant::now() < deadline, "polling makes no progress");
        std::thread::yield_now();
    }
    let outcomes = ticket.take();
    assert_eq!(outcomes.len(), 701);
    assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
}

fn a_ticket_may_be_waited_for_by_another_thread(place: &Place) {
    let file = filled(place, "f", 64);
    std::thread::scope(|scope| {
        for round in 0..50 {
            let ticket = file.submit(reads([round, round + 1]));
            let other = Arc::clone(&file);
            let waiting = scope.spawn(move || {
                let outcomes = finish(&other, ticket);
                assert_block(
                    round,
                    &outcomes.into_iter().next().unwrap().into_buffer().unwrap(),
                );
            });
            // This thread uses the same queue concurrently.
            assert_block(5, &file.run(reads([5, 6])).unwrap()[0]);
            waiting.join().unwrap();
        }
    });
}

fn threads_do_not_see_each_others_requests(place: &Place) {
    let file = filled(place, "f", 256);
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let file = &file;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                let mine = thread * 32..thread * 32 + 32;
                for round in 0..30u64 {
                    let mut batch = IoBatch::new();
                    for number in mine.clone() {
                        batch.write(number * 512, block(number + round), OTHER);
                    }
                    if random.bool() {
                        batch.sync(OTHER);
                    }
                    file.run(batch).unwrap();
                    let numbers: Vec<u64> =
                        (0..random.u64(1..40)).map(|_| random.u64(mine.clone())).collect();
                    let ticket = file.submit(reads(numbers.iter().copied()));
                    for (outcome, number) in finish(file, ticket).into_iter().zip(numbers) {
                        assert_block(number + round, &outcome.into_buffer().unwrap());
                    }
                }
            });
        }
    });
}

fn every_request_is_counted_once_under_its_purpose(place: &Place) {
    let file = filled(place, "f", 64);
    let before = place.directory.counters().snapshot();
    let mut batch = IoBatch::new();
    batch.read(0, AlignedBuffer::zeroed(1024), Purpose::Lookup);
    batch.read(512, AlignedBuffer::zeroed(512), Purpose::Scan);
    batch.write(1024, AlignedBuffer::zeroed(2048), Purpose::Compact);
    batch.sync(Purpose::Log);
    file.run(batch).unwrap();
    file.read_at(0, 4096, Purpose::Lookup).unwrap();
    file.write_at(0, AlignedBuffer::zeroed(512), Purpose::Trunk)
        .unwrap();
    file.sync(Purpose::Log).unwrap();
    place.directory.sync().unwrap();
    let counted = place.directory.counters().snapshot().since(&before);
    let lookup = counted.of(Purpose::Lookup);
    assert_eq!((lookup.reads, lookup.read_bytes), (2, 5120));
    assert_eq!(counted.of(Purpose::Scan).read_bytes, 512);
    let compact = counted.of(Purpose::Compact);
    assert_eq!((compact.writes, compact.written_bytes), (1, 2048));
    assert_eq!(counted.of(Purpose::Trunk).writes, 1);
    assert_eq!(counted.of(Purpose::Log).syncs, 2);
    let total = counted.total();
    assert_eq!((total.reads, total.writes, total.syncs), (3, 2, 3));
}

fn refused_requests_give_their_buffers_back(place: &Place) {
    filled(place, "f", 1);
    let file = place.directory.open("f", place.options.read_only()).unwrap();
    let mut batch = IoBatch::new();
    batch.write(0, block(77), OTHER);
    let ticket = file.submit(batch);
    let outcome = finish(&file, ticket).remove(0);
    assert_block(77, &outcome.buffer.unwrap());
    assert!(outcome.result.is_err());
}

fn names_are_created_opened_renamed_and_removed(place: &Place) {
    let directory = &place.directory;
    assert!(directory.list().unwrap().is_empty());
    for name in ["b", "a", "c"] {
        directory.create(name, place.options).unwrap();
    }
    assert_eq!(directory.list().unwrap(), ["a", "b", "c"]);
    let create = directory.create("a", place.options);
    assert!(matches!(create, Err(Error::AlreadyExists { file }) if file == "a"));
    let open = directory.open("d", place.options);
    assert!(matches!(open, Err(Error::NotFound { file }) if file == "d"));
    assert!(matches!(directory.rename("d", "e"), Err(Error::NotFound { .. })));
    assert!(matches!(directory.remove("d"), Err(Error::NotFound { .. })));
    directory.open("b", place.options).unwrap().grow(512).unwrap();
    directory.rename("b", "c").unwrap();
    assert_eq!(
        directory.open("c", place.options).unwrap().len(),
        512,
        "it replaced what was there"
    );
    directory.remove("a").unwrap();
    assert_eq!(directory.list().unwrap(), ["c"]);
    directory.sync().unwrap();
}

fn open_handles_survive_a_rename_and_a_removal(place: &Place) {
    let file = filled(place, "old", 8);
    place.directory.rename("old", "new").unwrap();
    assert_block(3, &file.read_at(3 * 512, 512, OTHER).unwrap());
    file.write_at(0, block(50), OTHER).unwrap();
    assert_block(
        50,
        &place
            .directory
            .open("new", place.options)
            .unwrap()
            .read_at(0, 512, OTHER)
            .unwrap(),
    );
    place.directory.remove("new").unwrap();
    let second = filled(place, "new", 4);
    assert_block(50, &file.read_at(0, 512, OTHER).unwrap());
    file.write_at(0, block(60), OTHER).unwrap();
    file.sync(OTHER).unwrap();
    assert_block(0, &second.read_at(0, 512, OTHER).unwrap());
    assert_eq!((file.len(), second.len()), (4096, 2048));
}

fn two_handles_of_a_file_share_its_length_and_content(place: &Place) {
    let first = filled(place, "f", 4);
    let second = place.directory.open("f", place.options).unwrap();
    first.grow(64 * 512).unwrap();
    assert_eq!(second.len(), 64 * 512);
    second.write_at(63 * 512, block(63), OTHER).unwrap();
    assert_block(63, &first.read_at(63 * 512, 512, OTHER).unwrap());
    second.truncate(512).unwrap();
    assert!(matches!(
        first.read_at(512, 512, OTHER),
        Err(Error::PastEnd { end: 512, .. })
    ));
}

fn the_boot_and_the_space_are_told(place: &Place) {
    assert_eq!(place.directory.boot_id(), place.directory.boot_id());
    let space = place.directory.space().unwrap();
    assert!(space.free <= space.total && space.total > 0, "{space:?}");
    assert!(!place.directory.describe().is_empty());
}

/// Creates a buffered file no matter what files the place has, because only buffered files can be
/// mapped.
fn buffered(place: &Place, name: &str, len: u64) -> Arc<dyn Device> {
    let file = place.directory.create(name, FileOptions::BUFFERED).unwrap();
    file.grow(len).unwrap();
    file
}

fn a_mapping_shares_its_bytes_with_reads(place: &Place) {
    let file = buffered(place, "log", 256 << 10);
    file.write_at(64 << 10, block(4), OTHER).unwrap();
    let mapping = file.map(64 << 10..192 << 10).unwrap();
    assert_eq!(mapping.len(), 128 << 10);
    mapping.populate(0..128 << 10).unwrap();
    // SAFETY: nothing but this test touches the file.
    let stored = unsafe { std::slice::from_raw_parts(mapping.as_ptr(), 512) };
    assert_block(4, stored);
    // SAFETY: as above, and the borrow of `stored` is over.
    unsafe { mapping.write(1000, b"stored through the mapping") };
    let read = file.read_at((64 << 10) + 512, 1024, OTHER).unwrap();
    assert_eq!(&read[488..488 + 26], b"stored through the mapping");
    let before = place.directory.counters().snapshot();
    mapping.sync(1000..1026, Purpose::Log).unwrap();
    mapping.sync(0..128 << 10, Purpose::Log).unwrap();
    let counted = place.directory.counters().snapshot().since(&before);
    assert_eq!(counted.of(Purpose::Log).syncs, 2);
}

fn a_mapping_outlives_its_handle(place: &Place) {
    let file = buffered(place, "log", 64 << 10);
    let mapping = file.map(0..64 << 10).unwrap();
    drop(file);
    // SAFETY: nothing else touches the file.
    unsafe { mapping.write(0, &[7; 4096]) };
    mapping.sync(0..4096, OTHER).unwrap();
    drop(mapping);
    let file = place.directory.open("log", FileOptions::BUFFERED).unwrap();
    assert!(
        file.read_at(0, 4096, OTHER)
            .unwrap()
            .iter()
            .all(|&byte| byte == 7)
    );
}

fn a_mapping_that_cannot_be_is_refused(place: &Place) {
    let direct = place.directory.create("pages", FileOptions::DIRECT).unwrap();
    direct.grow(4096).unwrap();
    assert!(matches!(direct.map(0..4096), Err(Error::Unsupported { .. })));
    let file = buffered(place, "log", 4096);
    assert!(matches!(file.map(0..8192), Err(Error::PastEnd { .. })));
}
