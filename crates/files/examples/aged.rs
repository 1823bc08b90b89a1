//! Compares a tree of small files that was written in random order with one in the order of paths:
//! the device reads of a cold walk, by purpose, and what was written.
//!
//! ```sh
//! cargo run --release -p alluvium-files --example aged -- 8000 128 8 gathered
//! ```
//!
//! The arguments are the number of files of 4 KiB, the memory of the store in MiB, the seconds
//! without writes before it is closed, and `gathered` or `written`. The directory is that for
//! temporary files.

use alluvium::{Options, ValueOrder};
use alluvium_base::Purpose;
use alluvium_files::{FileKind, FilePaths, FileSystem, Files, FilesOptions, Inode};
use std::collections::HashSet;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const FILE: usize = 4 << 10;
const READ: usize = 128 << 10;

/// How both trees are stored.
struct StoredLayout {
    options: Options,
    files: FilesOptions,
    rest: Duration,
}

/// Reads all files below a directory in the order of names.
fn walk(files: &Files, directory: Inode) -> Result<(), Box<dyn Error>> {
    let (mut entries, mut after) = (Vec::new(), None);
    loop {
        let some = files.read_directory(directory, after.as_deref(), 128)?;
        let Some(last) = some.last() else { break };
        after = Some(last.name.clone());
        entries.extend(some);
    }
    for entry in entries {
        let attributes = files.lookup(directory, &entry.name)?;
        if entry.kind == FileKind::Directory {
            walk(files, entry.inode)?;
            continue;
        }
        for at in (0..attributes.size).step_by(READ) {
            files.read(entry.inode, at, READ)?;
        }
    }
    Ok(())
}

/// Returns sorted paths, about twelve in each directory.
fn paths(count: u64) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(7);
    let directories = (count / 12).max(1);
    let path = |number| {
        let directory = random.u64(..directories);
        format!("/d{:02}/s{:03}/file-{number:06}", directory % 16, directory / 16)
    };
    let mut paths: Vec<String> = (0..count).map(path).collect();
    paths.sort();
    paths
}

fn build(place: &Path, layout: &StoredLayout, paths: &[String]) -> Result<(), Box<dyn Error>> {
    let db = layout.options.open(place)?;
    let files = Files::open_with(&db, "measured", &layout.files)?;
    let (mut made, mut random) = (HashSet::new(), fastrand::Rng::with_seed(3));
    let mut data = [0; FILE];
    for path in paths {
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        if made.insert(parent.to_owned()) {
            files.create_directories(parent.as_bytes(), 0o755)?;
        }
        random.fill(&mut data);
        files.write_file(path.as_bytes(), &data, 0o644)?;
    }
    db.sync()?;
    std::thread::sleep(layout.rest);
    let stats = db.stats();
    drop(files);
    db.close()?;
    let bytes = (paths.len() * FILE) as f64;
    let of = |purpose| stats.device.of(purpose).written_bytes as f64 / bytes;
    println!(
        "  written for each byte: log {:.2}, flushes {:.2}, compactions {:.2} (gathered {:.2})",
        of(Purpose::Log),
        of(Purpose::Incorporate),
        of(Purpose::Compact),
        stats.tree.gathered_bytes as f64 / bytes
    );
    Ok(())
}

/// Returns the number of device reads of a walk after opening the store.
fn read(place: &Path, layout: &StoredLayout) -> Result<u64, Box<dyn Error>> {
    let db = layout.options.open(place)?;
    let files = Files::open_existing(&db, "measured")?;
    let before = db.stats().device;
    walk(&files, Inode::ROOT)?;
    let read = db.stats().device.since(&before);
    for purpose in Purpose::ALL {
        let of = read.of(purpose);
        if of.reads > 0 {
            println!("  {purpose:?}: {} reads, {} KiB", of.reads, of.read_bytes >> 10);
        }
    }
    Ok(read.total().reads)
}

fn main() -> Result<(), Box<dyn Error>> {
    let argument = |at: usize, usual: &str| std::env::args().nth(at).unwrap_or(usual.to_owned());
    let number = |at, usual| argument(at, usual).parse::<u64>();
    let order = match argument(4, "gathered").as_str() {
        "written" => ValueOrder::Written,
        _ => ValueOrder::Gathered,
    };
    let layout = StoredLayout {
        options: Options::new().memory(number(2, "128")? * MIB),
        files: FilesOptions::new().value_order(order),
        rest: Duration::from_secs(number(3, "0")?),
    };
    let sorted = paths(number(1, "8000")?);
    let mut shuffled = sorted.clone();
    fastrand::Rng::with_seed(11).shuffle(&mut shuffled);
    let place = tempfile::tempdir()?;
    let mut reads = Vec::new();
    for (name, paths) in [("in random order", &shuffled), ("in the order of paths", &sorted)] {
        println!("{name}");
        let store = place.path().join(name);
        build(&store, &layout, paths)?;
        reads.push(read(&store, &layout)?);
    }
    println!(
        "{} reads and {}: {:.2} times",
        reads[0],
        reads[1],
        reads[0] as f64 / reads[1] as f64
    );
    Ok(())
}
