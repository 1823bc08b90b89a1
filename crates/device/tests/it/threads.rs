//! Many threads on real files: shared rings, tickets passed between threads, and threads and
//! directories that end early.

use crate::places::open;
use alluvium_base::Purpose;
use alluvium_device::file::IoEngine;
use alluvium_device::{AlignedBuffer, Device, Directory, FileOptions, IoBatch, MemoryRegion, Ticket};
use std::ptr::NonNull;
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};

const OTHER: Purpose = Purpose::Other;
const PAGES: u64 = 512;

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary directory")
}

/// Creates a file whose pages begin with their number.
fn numbered(directory: &dyn Directory, name: &str, options: FileOptions) -> Arc<dyn Device> {
    let file = directory.create(name, options).unwrap();
    file.grow(PAGES * 4096).unwrap();
    let mut batch = IoBatch::new();
    for page in 0..PAGES {
        let mut buffer = AlignedBuffer::zeroed(4096);
        buffer[..8].copy_from_slice(&page.to_le_bytes());
        batch.write(page * 4096, buffer, OTHER);
    }
    file.run(batch).unwrap();
    file
}

fn number(buffer: &[u8]) -> u64 {
    u64::from_le_bytes(buffer[..8].try_into().unwrap())
}

fn reads(pages: &[u64]) -> IoBatch {
    let mut batch = IoBatch::new();
    for page in pages {
        batch.read(page * 4096, AlignedBuffer::zeroed(4096), OTHER);
    }
    batch
}

fn check(ticket: Ticket, pages: &[u64]) {
    for (buffer, page) in ticket.take_buffers().unwrap().iter().zip(pages) {
        assert_eq!(number(buffer), *page);
    }
}

#[test]
fn more_threads_than_rings_wait_for_their_own_and_for_each_others_tickets() {
    let place = temporary();
    let directory = open(place.path(), IoEngine::Auto);
    let file = numbered(&*directory, "f", FileOptions::DIRECT);
    let (hand_over, taken) = channel::<(Ticket, Vec<u64>)>();
    std::thread::scope(|scope| {
        for thread in 0..12u64 {
            let (file, hand_over) = (&file, hand_over.clone());
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                for round in 0..150 {
                    let pages: Vec<u64> = (0..random.usize(1..33)).map(|_| random.u64(..PAGES)).collect();
                    match round % 4 {
                        0 => {
                            let buffers = file.run(reads(&pages)).unwrap();
                            assert!(
                                buffers
                                    .iter()
                                    .zip(&pages)
                                    .all(|(buffer, page)| number(buffer) == *page)
                            );
                        }
                        1 => hand_over.send((file.submit(reads(&pages)), pages)).unwrap(),
                        2 => {
                            let ticket = file.submit(reads(&pages));
                            while !file.poll(&ticket) {
                                std::thread::yield_now();
                            }
                            check(ticket, &pages);
                        }
                        _ => {
                            let ticket = file.submit(reads(&pages));
                            file.wait(&ticket);
                            check(ticket, &pages);
                        }
                    }
                }
            });
        }
        drop(hand_over);
        scope.spawn(|| {
            for (ticket, pages) in taken {
                file.wait(&ticket);
                check(ticket, &pages);
            }
        });
    });
}

#[test]
fn a_thread_may_end_with_its_requests_in_flight() {
    for engine in [IoEngine::Auto, IoEngine::Threads] {
        for options in [FileOptions::DIRECT, FileOptions::BUFFERED] {
            let place = temporary();
            let directory = open(place.path(), engine);
            let file = numbered(&*directory, "f", options);
            for _ in 0..20 {
                let pages: Vec<u64> = (0..200).collect();
                let submitted = Arc::clone(&file);
                let mine = pages.clone();
                let ticket = std::thread::spawn(move || {
                    let mut batch = reads(&mine);
                    batch.sync(OTHER);
                    // Kernel threads carry out long buffered writes, and end with the thread that
                    // submitted the writes.
                    batch.write(PAGES / 2 * 4096, AlignedBuffer::zeroed(1 << 20), OTHER);
                    submitted.submit(batch)
                })
                .join()
                .unwrap();
                file.wait(&ticket);
                check(ticket, &pages);
            }
        }
    }
}

#[test]
fn dropping_everything_waits_for_what_is_in_flight() {
    for engine in [IoEngine::Auto, IoEngine::Threads] {
        let place = temporary();
        {
            let directory = open(place.path(), engine);
            let file = directory.create("f", FileOptions::DIRECT).unwrap();
            file.grow(2048 * 4096).unwrap();
            let mut batch = IoBatch::new();
            for page in 0..2048 {
                batch.write(page * 4096, AlignedBuffer::padded(&[page as u8 | 1; 4096]), OTHER);
            }
            drop(file.submit(batch));
            drop(file.submit(reads(&(0..512).collect::<Vec<_>>())));
        }
        let directory = open(place.path(), engine);
        let file = directory.open("f", FileOptions::DIRECT).unwrap();
        for page in 0..2048 {
            assert_eq!(
                file.read_at(page * 4096, 4096, OTHER).unwrap()[4095],
                page as u8 | 1
            );
        }
    }
}

#[test]
fn many_files_come_and_go_while_others_are_read() {
    let place = temporary();
    let directory = open(place.path(), IoEngine::Auto);
    let file = numbered(&*directory, "f", FileOptions::DIRECT);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let directory = &directory;
            scope.spawn(move || {
                for round in 0..60 {
                    let name = format!("{thread}-{round}");
                    let file = directory.create(&name, FileOptions::DIRECT).unwrap();
                    file.grow(64 << 10).unwrap();
                    let mut batch = IoBatch::new();
                    for page in 0..16 {
                        batch.write(
                            page * 4096,
                            AlignedBuffer::padded(&[round as u8 + 1; 4096]),
                            OTHER,
                        );
                    }
                    file.run(batch).unwrap();
                    let ticket = file.submit(reads(&(0..16).collect::<Vec<_>>()));
                    // The handle is dropped while the reads are in flight, and the test waits for
                    // the ticket through another handle.
                    let other = directory.open(&name, FileOptions::DIRECT).unwrap();
                    drop(file);
                    other.wait(&ticket);
                    let buffers = ticket.take_buffers().unwrap();
                    assert!(buffers.iter().all(|buffer| buffer[4095] == round as u8 + 1));
                    directory.remove(&name).unwrap();
                }
            });
        }
        scope.spawn(|| {
            for round in 0..300 {
                let pages: Vec<u64> = (0..8).map(|step| (round * 7 + step * 31) % PAGES).collect();
                let buffers = file.run(reads(&pages)).unwrap();
                assert!(
                    buffers
                        .iter()
                        .zip(&pages)
                        .all(|(buffer, page)| number(buffer) == *page)
                );
            }
        });
    });
    assert_eq!(directory.list().unwrap(), ["f"]);
}

#[test]
fn registered_memory_is_read_into_and_written_from_by_every_ring() {
    let place = temporary();
    let directory = open(place.path(), IoEngine::Auto);
    let mut arena = AlignedBuffer::zeroed(4 << 20);
    let start = NonNull::new(arena.as_mut_ptr()).unwrap();
    let keeper = Arc::new(arena);
    let part = |page: usize| {
        // SAFETY: the page is inside the arena, and each page is used by one thread and one request
        // at a time.
        unsafe { AlignedBuffer::from_region(start.add(page * 4096), 4096, keeper.clone()) }
    };
    let region = MemoryRegion {
        start,
        len: 4 << 20,
        keeper: keeper.clone(),
    };
    // One ring exists now. Those of the other threads are created later, and register the region
    // then.
    let file = numbered(&*directory, "f", FileOptions::DIRECT);
    directory.register_memory(region.clone());
    directory.register_memory(region);
    let together = Barrier::new(4);
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let buffers: Vec<AlignedBuffer> = (0..128).map(|page| part(thread * 128 + page)).collect();
            let (file, together) = (&file, &together);
            scope.spawn(move || {
                together.wait();
                let mut buffers = buffers;
                for round in 0..20u64 {
                    let pages: Vec<u64> = (0..128)
                        .map(|page| thread as u64 * 128 + (page + round) % 128)
                        .collect();
                    let mut batch = IoBatch::new();
                    for (page, buffer) in pages.iter().zip(buffers.drain(..)) {
                        batch.read(page * 4096, buffer, OTHER);
                    }
                    buffers = file.run(batch).unwrap();
                    assert!(
                        buffers
                            .iter()
                            .zip(&pages)
                            .all(|(buffer, page)| number(buffer) == *page)
                    );
                    let mut batch = IoBatch::new();
                    for (page, mut buffer) in pages.iter().zip(buffers.drain(..)) {
                        buffer[4088] = round as u8;
                        batch.write(page * 4096, buffer, OTHER);
                    }
                    buffers = file.run(batch).unwrap();
                }
            });
        }
    });
    assert!(directory.notes().is_empty(), "{:?}", directory.notes());
    let all = file.read_at(0, PAGES as usize * 4096, OTHER).unwrap();
    assert!(all.chunks(4096).all(|page| page[4088] == 19));
}

#[test]
fn waiting_for_some_completes_all_that_was_handed_over_together() {
    for engine in [IoEngine::Auto, IoEngine::Threads] {
        let place = temporary();
        let directory = open(place.path(), engine);
        let file = numbered(&*directory, "f", FileOptions::DIRECT);
        let tickets = file.submit_many((0..64).map(|page| reads(&[page])).collect());
        let others: Vec<Ticket> = tickets.iter().map(Ticket::another).collect();
        for ticket in &others {
            assert_eq!(
                ticket.device_part(),
                others[0].device_part(),
                "they are carried together"
            );
            while !ticket.is_complete() {
                file.wait_some(ticket);
            }
            // Waiting for a complete ticket returns immediately.
            file.wait_some(ticket);
        }
        for (page, ticket) in (0..).zip(tickets) {
            check(ticket, &[page]);
        }
    }
}
