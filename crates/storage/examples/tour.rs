//! A tour of the ground floors: a store is created on real files, filled, killed in the middle of its work, opened
//! again, compared, and damaged on purpose.
//!
//! ```sh
//! cargo run --release -p alluvium-storage --example tour            # in a temporary directory
//! cargo run --release -p alluvium-storage --example tour /mnt/ssd   # in a new directory below that one
//! ```
//!
//! The "floor above" of this example is a list: its nodes are numbered, one more node holds the pointers to all of
//! them, and the superblock's payload is the pointer to that one.

use alluvium_base::bytes::Reader;
use alluvium_base::{KIB, MIB, Purpose};
use alluvium_device::file::FileDirectory;
use alluvium_device::{Directory, FileOptions};
use alluvium_storage::extents::Class;
use alluvium_storage::log::Durability;
use alluvium_storage::node::tier_file;
use alluvium_storage::store::{Store, StoreOptions};
use alluvium_storage::{NodePointer, PageSize, Place, Structure};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many nodes the list has: as many as one node of sixteen pages has room for pointers.
const NODES: usize = PageSize::MIN.bytes() * 16 / NodePointer::BYTES;
/// The writer is killed once it has acknowledged this many records of its log.
const RECORDS: u64 = 50_000;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => tour(tempfile::tempdir()?.path()),
        [below] => tour(tempfile::tempdir_in(below)?.path()),
        [word, path] if word == "write-until-killed" => write_until_killed(Path::new(path)),
        _ => Err("usage: tour [DIRECTORY]".into()),
    }
}

fn tour(path: &Path) -> Result<()> {
    println!("1. A store is created in {}.", path.display());
    let directory: Arc<dyn Directory> = Arc::new(FileDirectory::open(path)?);
    Store::create(Arc::clone(&directory), &options(), b"")?.close()?;
    println!("   Its files: {}.", directory.list()?.join(", "));
    for note in directory.notes() {
        println!("   Note: {note}.");
    }

    println!(
        "2. Another process opens it, writes {NODES} nodes, makes a checkpoint, and logs records until it is killed."
    );
    let acknowledged = run_and_kill_writer(path)?;

    println!("3. The store is opened again.");
    let began = Instant::now();
    let mut replayed = 0;
    let store = Store::open(directory, &options())?.replay(&mut |record| {
        assert_eq!(record.first, replayed + 1, "no hole");
        assert_eq!(record.payload, record_text(record.first).as_bytes());
        replayed = record.first;
        Ok(())
    })?;
    println!(
        "   Generation {} was the newest; opening took {}.",
        store.superblock().generation,
        milliseconds(began)
    );
    assert!(replayed >= acknowledged, "what was acknowledged is there");
    println!(
        "   {acknowledged} records had been acknowledged; {replayed} were replayed, in order, without a hole."
    );

    let pointers = read_everything(&store)?;
    store.close()?;
    damage(path, &pointers[NODES / 2])
}

fn options() -> StoreOptions {
    StoreOptions {
        cache_bytes: 16 * MIB,
        ..StoreOptions::default()
    }
}

fn record_text(sequence: u64) -> String {
    format!(
        "record {sequence}, with as many bytes as a small change to a row would have, give or take a few of them"
    )
}

/// What node `number` holds: its number, over and over.
fn node_bytes(number: usize) -> Vec<u8> {
    let text = format!("node {number} ");
    text.bytes().cycle().take(PageSize::MIN.bytes()).collect()
}

fn milliseconds(since: Instant) -> String {
    format!("{:.1} ms", since.elapsed().as_secs_f64() * 1000.0)
}

/// What the other process does. It never returns by itself.
fn write_until_killed(path: &Path) -> Result<()> {
    let directory: Arc<dyn Directory> = Arc::new(FileDirectory::open(path)?);
    let store = Store::open(directory, &options())?.replay(&mut |_| Ok(()))?;
    let began = Instant::now();
    let mut writer = store.node_writer(store.writer_options(Purpose::Other, Class::Normal))?;
    let mut index = Vec::new();
    for number in 0..NODES {
        writer.add(&node_bytes(number))?.encode(&mut index);
    }
    let mut payload = Vec::new();
    writer.add(&index)?.encode(&mut payload);
    store.extents().install(&writer.finish()?.extents);
    let generation = store.begin_checkpoint()?.finish(&payload, 0)?;
    println!(
        "   Generation {generation}, {} of nodes, was durable after {}.",
        mebibytes(NODES),
        milliseconds(began)
    );
    let mut out = std::io::stdout();
    for sequence in 1.. {
        store
            .log()
            .append(sequence, 1, record_text(sequence).as_bytes(), Durability::Process)?;
        if sequence % 1000 == 0 {
            writeln!(out, "acknowledged {sequence}")?;
        }
    }
    Ok(())
}

fn mebibytes(nodes: usize) -> String {
    format!("{} MiB", (nodes * PageSize::MIN.bytes()) as u64 / MIB)
}

/// Runs the writer and kills it; answers up to which record it had acknowledged by then, as far as we were told.
fn run_and_kill_writer(path: &Path) -> Result<u64> {
    let itself = std::env::current_exe()?;
    let mut writer = Command::new(itself)
        .arg("write-until-killed")
        .arg(path)
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = BufReader::new(writer.stdout.take().expect("piped")).lines();
    let mut acknowledged = 0;
    for line in lines {
        let line = line?;
        match line.strip_prefix("acknowledged ") {
            Some(sequence) => acknowledged = sequence.parse()?,
            None => println!("{line}"),
        }
        if acknowledged >= RECORDS {
            break;
        }
    }
    writer.kill()?;
    let status = writer.wait()?;
    if acknowledged < RECORDS {
        return Err(format!("the writer ended by itself: {status}").into());
    }
    println!("   It was killed: {status}.");
    Ok(acknowledged)
}

/// Reads every node twice, from the device and from the cache, and compares.
fn read_everything(store: &Store) -> Result<Vec<NodePointer>> {
    println!("4. Every node is read, then read again.");
    let place = Place::new(Structure::Superblock, "payload", 0);
    let pointer = |bytes: &mut Reader<'_>| NodePointer::decode(bytes, &place, store.page_size());
    let root = pointer(&mut Reader::new(&store.superblock().payload))?;
    let guard = store.epochs().pin();
    let index = store.cache().get(&root, &guard, Purpose::Lookup)?;
    let mut index = Reader::new(&index);
    let pointers = (0..NODES)
        .map(|_| pointer(&mut index))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    drop(guard);

    for place in ["device", "cache"] {
        let mut took = Duration::ZERO;
        for (number, pointer) in pointers.iter().enumerate() {
            let guard = store.epochs().pin();
            let began = Instant::now();
            let node = store.cache().get(pointer, &guard, Purpose::Lookup)?;
            took += began.elapsed();
            assert_eq!(*node, node_bytes(number), "node {number}");
        }
        println!(
            "   From the {place}: {:.2} µs a node.",
            took.as_secs_f64() * 1e6 / NODES as f64
        );
    }
    let reads = store.directory().counters().snapshot();
    println!(
        "   The device counted {} reads for lookups, {} KiB.",
        reads.of(Purpose::Lookup).reads,
        reads.of(Purpose::Lookup).read_bytes / KIB
    );
    Ok(pointers)
}

/// Flips one bit of a node on the device and shows that nobody gets to see it.
fn damage(path: &Path, pointer: &NodePointer) -> Result<()> {
    println!("5. One bit of one node is flipped on the device.");
    let directory: Arc<dyn Directory> = Arc::new(FileDirectory::open(path)?);
    let file = directory.open(&tier_file(pointer.tier), FileOptions::DIRECT)?;
    let mut page = file.read_at(pointer.offset, pointer.read_len(), Purpose::Other)?;
    page[1234] ^= 1;
    file.write_at(pointer.offset, page, Purpose::Other)?;
    file.sync(Purpose::Other)?;
    drop(file);
    let store = Store::open(directory, &options())?.replay(&mut |_| Ok(()))?;
    let guard = store.epochs().pin();
    match store.cache().get(pointer, &guard, Purpose::Lookup) {
        Ok(_) => Err("a damaged node was read as if it were sound".into()),
        Err(error) => {
            println!("   Reading it: {error}.");
            Ok(())
        }
    }
}
