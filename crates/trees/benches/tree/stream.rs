//! A scan of everything compared with a raw read of the same number of bytes.

use crate::scattered;
use crate::world::{RECORD, Sizes, World, value};
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_base::{KIB, Purpose};
use alluvium_device::file::FileDirectory;
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::{AlignedBuffer, Directory, FileOptions, IoBatch};
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_trees::tiered::VictimPolicy;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// Bytes per raw read, and the number of concurrent reads.
const PIECE: u64 = 256 * KIB;
const DEPTH: usize = 4;

/// Returns the directory of the store: the one that `ALLUVIUM_TREE_DIRECTORY` names, or one in
/// memory.
fn directory() -> Arc<dyn Directory> {
    match std::env::var("ALLUVIUM_TREE_DIRECTORY") {
        Ok(path) => Arc::new(FileDirectory::create(path).expect("a directory")),
        Err(_) => Arc::new(MemoryDirectory::new()),
    }
}

/// Returns megabytes per second.
fn speed(bytes: u64, start: Instant) -> f64 {
    bytes as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// Reads a file from its beginning to its end.
fn raw(directory: &dyn Directory, bytes: u64) -> f64 {
    let file = directory.create("raw", FileOptions::DIRECT).expect("a file");
    let pieces = bytes / PIECE;
    file.grow(pieces * PIECE).expect("there is room");
    for piece in 0..pieces {
        let mut buffer = AlignedBuffer::zeroed(PIECE as usize);
        buffer.fill(piece as u8);
        file.write_at(piece * PIECE, buffer, Purpose::Other)
            .expect("there is room");
    }
    let start = Instant::now();
    let mut under_way = VecDeque::new();
    let mut next = 0;
    let mut spare: Vec<AlignedBuffer> = (0..DEPTH)
        .map(|_| AlignedBuffer::zeroed(PIECE as usize))
        .collect();
    while next < pieces || !under_way.is_empty() {
        while next < pieces
            && let Some(buffer) = spare.pop()
        {
            let mut batch = IoBatch::new();
            batch.read(next * PIECE, buffer, Purpose::Other);
            under_way.push_back(file.submit(batch));
            next += 1;
        }
        let ticket = under_way.pop_front().expect("something is under way");
        file.wait(&ticket);
        spare.extend(ticket.take_buffers().expect("it was written"));
    }
    let speed = speed(pieces * PIECE, start);
    drop(file);
    directory.remove("raw").expect("it was created");
    speed
}

pub(crate) fn stream(sizes: Sizes) {
    let sizes = Sizes {
        records: sizes.records / 5,
        memtable: (sizes.memtable / 4).max(128 << 10),
        cache: (sizes.cache / 2).max(8 << 20),
        ..sizes
    };
    let directory = directory();
    let mut world = World::on(Arc::clone(&directory), sizes, VictimPolicy::Fullest);
    for index in 0..sizes.records {
        world.put(&scattered(index, 0), &value(index));
    }
    world.seal();
    let bytes = sizes.records * RECORD;
    for state in ["as it was loaded", "after maintenance"] {
        let raw = raw(&*directory, bytes);
        // Many short scans, so that maintenance becomes worthwhile.
        for turn in 0..sizes.lookups / 100 {
            let range = KeyRange::new(&scattered(turn, 0), None);
            let mut iter = world.tree.iter(range, MergeDirection::Forward, MAX_SEQUENCE, 0);
            iter.next().expect("the device does not fail");
        }
        let before = world.reads(Purpose::Scan);
        let start = Instant::now();
        let mut iter = world
            .tree
            .iter(KeyRange::everything(), MergeDirection::Forward, MAX_SEQUENCE, 0);
        let mut found = 0;
        while iter.next().expect("the device does not fail").is_some() {
            found += 1;
        }
        assert_eq!(found, sizes.records);
        let scanned = speed(bytes, start);
        println!(
            "stream, {state}, over at most {} runs: {scanned:.0} MB/s of {raw:.0} MB/s raw, {:.0} %; {:.1} KiB a read",
            world.tree.longest_path(),
            100.0 * scanned / raw,
            bytes as f64 / (world.reads(Purpose::Scan) - before).max(1) as f64 / 1024.0
        );
        world.maintain(u64::MAX);
    }
}
