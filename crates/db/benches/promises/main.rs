//! The store's guarantees other than speed, measured on a real device: `cargo bench -p alluvium
//! --bench promises [PART…]`.
//!
//! *resident* measures the peak memory of a process over a load, reads, scans, a thousand
//! keyspaces, two hundred open iterators, values of 16 MiB and a recovery, for three budgets;
//! *reopen* measures the time to open a store after its process was killed, and after a clean
//! close; *shrink* measures the disk space of a store after nine tenths of its data were deleted;
//! *full* repeatedly fills a disk and frees some of it.
//!
//! `ALLUVIUM_DB_DIRECTORY` sets the directory (for *full*, a small separate file system; otherwise
//! a store is limited to 256 MiB), `ALLUVIUM_DB_BYTES` the data size of *reopen* and *shrink*,
//! `ALLUVIUM_DB_MEMORY` their memory, and `ALLUVIUM_DB_CYCLES` the number of times that *full*
//! fills the disk. Without `--bench`, everything is tiny.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod full;
mod process;
mod reopen;
mod resident;
mod shrink;

use alluvium_sim::environment::number;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// How much work each part does.
struct Sizes {
    /// Data size of *reopen* and *shrink*, in bytes.
    bytes: u64,
    /// Memory of *reopen* and *shrink*, in bytes.
    memory: u64,
    /// Memory budgets that *resident* measures.
    budgets: &'static [u64],
    /// Number of times that *full* fills the disk.
    cycles: u64,
    /// How long writes must be refused before *full* considers the disk full.
    full_after: Duration,
    /// How long *shrink* observes the store at most, in seconds.
    patience: u64,
    directory: Option<PathBuf>,
}

impl Sizes {
    /// Creates a store directory that is removed when the result is dropped.
    fn place(&self) -> tempfile::TempDir {
        match &self.directory {
            Some(path) => tempfile::tempdir_in(path),
            None => tempfile::tempdir(),
        }
        .expect("a directory for the store")
    }
}

type Part = fn(&Sizes);

fn main() {
    if process::is_child() {
        return;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let directory = std::env::var_os("ALLUVIUM_DB_DIRECTORY").map(PathBuf::from);
    let sizes = if arguments.iter().any(|argument| argument == "--bench") {
        Sizes {
            bytes: number("ALLUVIUM_DB_BYTES", 10_000 * MIB),
            memory: number("ALLUVIUM_DB_MEMORY", 512 * MIB),
            budgets: &[64 * MIB, 256 * MIB, 1024 * MIB],
            cycles: number("ALLUVIUM_DB_CYCLES", 20),
            full_after: Duration::from_secs(5),
            patience: 60,
            directory,
        }
    } else {
        Sizes {
            bytes: 4 * MIB,
            memory: 16 * MIB,
            budgets: &[16 * MIB],
            cycles: 1,
            full_after: Duration::from_millis(50),
            patience: 1,
            directory,
        }
    };
    let parts: [(&str, Part); 4] = [
        ("resident", resident::run),
        ("reopen", reopen::run),
        ("shrink", shrink::run),
        ("full", full::run),
    ];
    let wanted: Vec<&String> = arguments.iter().filter(|word| !word.starts_with('-')).collect();
    for (name, part) in parts {
        if wanted.is_empty() || wanted.iter().any(|word| *word == name) {
            part(&sizes);
        }
    }
}

/// Returns a key of 24 bytes. Keys of successive numbers are scattered, so a load arrives in random
/// order.
fn key(number: u64) -> [u8; 24] {
    let z = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let mut key = *b"user________________keys";
    key[4..12].copy_from_slice(&(z ^ (z >> 31)).to_be_bytes());
    key[12..20].copy_from_slice(&number.to_be_bytes());
    key
}

/// Returns an incompressible value.
fn value(number: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(number);
    std::iter::repeat_with(|| random.u8(..)).take(len).collect()
}

/// Returns the bytes that the files of a directory occupy on the disk.
fn disk_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let files = std::fs::read_dir(directory).expect("the store's directory");
    files
        .filter_map(|file| file.ok()?.metadata().ok())
        .map(|metadata| metadata.blocks() * 512)
        .sum()
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB as f64
}
