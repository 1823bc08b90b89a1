//! Throughput of sorting more 100-byte lines than fit into memory, with one thread and with two.
//!
//! `cargo bench -p alluvium-storage --bench sort -- [FILE [MEBIBYTES [OUTPUT]]]` sorts the lines of
//! a file in that much memory; without a file, it generates lines. Under `cargo test`, it sorts a
//! few.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use alluvium_device::file::FileDirectory;
use alluvium_storage::sort::{PushOutcome, SortChunk, SortOptions, SortRecordLayout, SortSpool, SortedInput};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write, sink};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

/// Size of a generated line in bytes, including its newline.
const LINE: usize = 100;
const PIECE: usize = 1 << 20;

/// Generates lines of random letters.
fn lines(count: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut bytes = Vec::with_capacity(count * LINE);
    for _ in 0..count {
        bytes.extend((0..LINE - 1).map(|_| random.u8(b'a'..=b'z')));
        bytes.push(b'\n');
    }
    bytes
}

/// Fills chunks, passes full ones to `full`, and returns the last one.
fn fill(spool: &SortSpool, input: &mut dyn Read, mut full: impl FnMut(SortChunk)) -> SortChunk {
    let mut reader = BufReader::with_capacity(PIECE, input);
    let mut chunk = spool.chunk();
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).expect("the input is read") == 0 {
            return chunk;
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        if chunk.push(&line, b"").expect("lines are short") == PushOutcome::Full {
            full(std::mem::replace(&mut chunk, spool.chunk()));
            assert_eq!(
                chunk.push(&line, b"").expect("lines are short"),
                PushOutcome::Taken
            );
        }
    }
}

fn write(spool: &SortSpool, chunk: SortChunk) -> SortedInput {
    SortedInput::Run(spool.write(chunk.sort()).expect("a run is written"))
}

/// Sorts an input and writes it as runs, in this thread or a second one.
fn runs(spool: &SortSpool, input: &mut dyn Read, threads: usize) -> Vec<SortedInput> {
    let mut runs = Vec::new();
    if threads == 1 {
        let last = fill(spool, input, |chunk| runs.push(write(spool, chunk)));
        runs.push(write(spool, last));
        return runs;
    }
    std::thread::scope(|scope| {
        let (sender, chunks) = sync_channel::<SortChunk>(0);
        let worker = scope.spawn(move || chunks.iter().map(|chunk| write(spool, chunk)).collect::<Vec<_>>());
        let last = fill(spool, input, |chunk| {
            sender.send(chunk).expect("the worker waits");
        });
        drop(sender);
        runs.push(write(spool, last));
        runs.extend(worker.join().expect("the worker ends"));
    });
    runs
}

/// Sorts an input, and returns the number of lines.
fn sort(memory: usize, threads: usize, input: &mut dyn Read, out: &mut (dyn Write + Send)) -> u64 {
    let place = tempfile::tempdir_in(".").expect("a directory");
    let directory = Arc::new(FileDirectory::open(place.path()).expect("it opens"));
    let options = SortOptions {
        memory_bytes: memory / threads,
        ..SortOptions::new(SortRecordLayout::Variable)
    };
    let spool = SortSpool::new(directory, "bench", options).expect("possible options");
    let started = Instant::now();
    let inputs = runs(&spool, input, threads);
    println!(
        "  {} runs after {:.2} s",
        inputs.len(),
        started.elapsed().as_secs_f64()
    );
    let mut passes = spool.passes(inputs);
    while let Some(group) = passes.group() {
        passes.put(group.merge(&spool).expect("runs are merged"));
    }
    let mut merge = passes.finish().expect("runs are merged");
    std::thread::scope(|scope| {
        let (sender, pieces) = sync_channel::<Vec<u8>>(4);
        let writing = scope.spawn(move || {
            for piece in pieces {
                out.write_all(&piece).expect("the output is written");
            }
            out.flush().expect("the output is written");
        });
        let (mut count, mut piece) = (0, Vec::with_capacity(PIECE + LINE));
        while let Some(record) = merge.next().expect("runs are sound") {
            piece.extend_from_slice(record.key());
            piece.push(b'\n');
            count += 1;
            if piece.len() >= PIECE {
                let full = std::mem::replace(&mut piece, Vec::with_capacity(PIECE + LINE));
                sender.send(full).expect("the writer waits");
            }
        }
        sender.send(piece).expect("the writer waits");
        drop(sender);
        writing.join().expect("the writer ends");
        count
    })
}

fn measured(name: &str, bytes: u64, work: impl FnOnce() -> u64) {
    let started = Instant::now();
    let lines = work();
    let took = started.elapsed().as_secs_f64();
    println!(
        "{name}: {lines} lines, {:.2} s, {:.1} MB/s, {:.2} M lines/s",
        took,
        bytes as f64 / took / 1e6,
        lines as f64 / took / 1e6
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|text| !text.starts_with("--"))
        .collect();
    let is_test = !std::env::args().any(|text| text == "--bench");
    let memory: usize = arguments
        .get(1)
        .map_or(64, |text| text.parse().expect("mebibytes"));
    let made = match arguments.first() {
        Some(_) => Vec::new(),
        None => lines(if is_test { 20_000 } else { 4_000_000 }),
    };
    let memory = if is_test { 1 << 20 } else { memory << 20 };
    for threads in [1, 2] {
        let name = format!("{threads} threads");
        match arguments.first() {
            None => measured(&name, made.len() as u64, || {
                sort(memory, threads, &mut &made[..], &mut sink())
            }),
            Some(path) => {
                let mut input = File::open(path).expect("the file is there");
                let bytes = input.metadata().expect("a file has a length").len();
                let mut out: Box<dyn Write + Send> = match arguments.get(2) {
                    Some(path) => Box::new(File::create(path).expect("the output can be made")),
                    None => Box::new(sink()),
                };
                measured(&name, bytes, || sort(memory, threads, &mut input, &mut out));
            }
        }
    }
}
