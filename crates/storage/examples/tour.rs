//! A step-by-step tour of the lower layers: a store is created, written, killed, recovered, damaged
//! and checked.
//!
//! ```text
//! cargo run --release -p alluvium-storage --example tour [DIRECTORY]
//! ```
//!
//! Without a directory, the tour uses a temporary one and removes it. The directory must be empty
//! or new.

use alluvium_base::bytes::ByteReader;
use alluvium_base::{MIB, Purpose};
use alluvium_device::file::FileDirectory;
use alluvium_device::{AlignedBuffer, Directory, FileOptions};
use alluvium_storage::extents::{AllocationClass, Extent, ReclaimLimit};
use alluvium_storage::log::LogDurability;
use alluvium_storage::node::tier_file;
use alluvium_storage::store::{Store, StoreOptions};
use alluvium_storage::{CacheRetention, DiskLocation, NodePointer, OnDiskObject};
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Set in the environment of the child process to be killed.
const CHILD: &str = "ALLUVIUM_TOUR_CHILD";
/// Number of pages that the tour writes: 64 MiB, four times the cache.
const PAGES: u64 = 16_384;
/// Number of commits that the killed process makes after its checkpoint.
const COMMITS: u64 = 100_000;

fn main() -> Outcome<()> {
    if let Ok(path) = std::env::var(CHILD) {
        return doomed(Path::new(&path));
    }
    let temporary = tempfile::tempdir()?;
    let path = std::env::args()
        .nth(1)
        .map_or_else(|| temporary.path().join("store"), Into::into);
    println!("The tour works in {}.\n", path.display());

    println!("1. A process creates a store, checkpoints {PAGES} pages, commits {COMMITS} records and dies.");
    let status = Command::new(std::env::current_exe()?)
        .env(CHILD, &path)
        .status()?;
    println!("   It ended as it was told to: {status}.\n");

    println!("2. Another process opens what it left.");
    let directory: Arc<dyn Directory> = Arc::new(FileDirectory::open(&path)?);
    let begun = Instant::now();
    let mut replayed = 0;
    let opening = Store::open(Arc::clone(&directory), &options())?;
    let store = opening.replay(&mut |record| {
        assert_eq!(record.payload, commit(record.first));
        replayed += 1;
        Ok(())
    })?;
    println!(
        "   {replayed} records replayed, each as it was committed, in {:?}.",
        begun.elapsed()
    );
    assert_eq!(
        replayed, COMMITS,
        "everything that was acknowledged survives the death of a process"
    );
    let (pointers, extents) = read_root(&store)?;

    println!("\n3. It reads pages in batches, through a cache of a quarter of them.");
    read(&store, &pointers)?;

    println!("\n4. One bit of one page goes bad on the device.");
    let victim = pointers[usize::try_from(PAGES / 2)?];
    flip_a_bit(&*directory, &victim)?;
    store.cache().discard(&victim);
    let guard = store.epochs().pin();
    match store.cache().get(&victim, &guard, Purpose::Lookup) {
        Ok(_) => return Err("the damaged page was read as if it were sound".into()),
        Err(error) => println!("   Reading it says: {error}."),
    }
    drop(guard);

    println!("\n5. Space comes back, and every structure is checked.");
    let reclaimed = store.reclaim(ReclaimLimit::default())?;
    println!("   Reclaimed: {reclaimed:?}.");
    let violations = store.check(extents.into_iter().map(|extent| (extent, 1)))?;
    println!(
        "   Violations of the invariants of superblock, extents, log and cache: {}.",
        violations.len()
    );
    assert_eq!(violations, Vec::<String>::new());
    let (usage, log) = store.usage();
    let total = usage.total();
    println!(
        "   Extents hold {} MiB in a file of {} MiB; the log holds {} MiB.",
        total.live_extent_bytes / MIB,
        total.file_bytes / MIB,
        log.live_bytes / MIB
    );
    println!("\n   Device, by purpose:      reads      MiB   writes      MiB   syncs");
    let counts = directory.counters().snapshot();
    for purpose in Purpose::ALL {
        let of = counts.of(purpose);
        if of != alluvium_device::DeviceCounts::default() {
            let (read, written) = (of.read_bytes / MIB, of.written_bytes / MIB);
            println!(
                "   {:<20} {:>9} {read:>8} {:>8} {written:>8} {:>7}",
                purpose.name(),
                of.reads,
                of.writes,
                of.syncs
            );
        }
    }
    for note in directory.notes() {
        println!("   Note: {note}");
    }
    store.close()?;
    println!("\nThe store is closed. Nothing was lost but one bit, and that was named.");
    Ok(())
}

fn options() -> StoreOptions {
    StoreOptions {
        id: 7,
        cache_bytes: 16 * MIB,
        ..StoreOptions::default()
    }
}

/// Runs in the process to be killed.
fn doomed(path: &Path) -> Outcome<()> {
    let directory: Arc<dyn Directory> = Arc::new(FileDirectory::create(path)?);
    let store = Store::create(directory, &options(), b"")?;
    let begun = Instant::now();
    let mut writer =
        store.node_writer(store.writer_options(Purpose::Incorporate, AllocationClass::Normal))?;
    let mut pointers = Vec::new();
    for number in 0..PAGES {
        pointers.push(writer.add(&page(number, store.page_size().bytes()))?);
    }
    let written = writer.finish()?;
    store.extents().install(&written.extents);
    let root = write_root(&store, &pointers, &written.extents)?;
    let generation = store.begin_checkpoint()?.finish(&root, 0)?;
    println!(
        "   Generation {generation} is durable after {:?}.",
        begun.elapsed()
    );

    let begun = Instant::now();
    for sequence in 1..=COMMITS {
        store
            .log()
            .append(sequence, 1, &commit(sequence), LogDurability::Process)?;
    }
    let each = begun.elapsed() / u32::try_from(COMMITS)?;
    println!("   {COMMITS} commits are acknowledged, {each:?} each.");
    // As in a program crash, no destructor runs and nothing is flushed.
    std::process::abort();
}

/// Number of nodes that hold the page pointers.
const ROOTS: usize = (PAGES as usize * NodePointer::BYTES).div_ceil(16 * 4096);

/// Writes the page pointers to nodes of their own. The payload lists the pointers to those nodes
/// and every extent in use.
fn write_root(store: &Store, pointers: &[NodePointer], extents: &[(Extent, u64)]) -> Outcome<Vec<u8>> {
    let mut writer = store.node_writer(store.writer_options(Purpose::Trunk, AllocationClass::Freeing))?;
    let node_bytes = store.page_size().node_bytes(16);
    let mut payload = Vec::new();
    for chunk in pointers.chunks(node_bytes / NodePointer::BYTES) {
        let mut node = Vec::with_capacity(node_bytes);
        chunk.iter().for_each(|pointer| pointer.encode(&mut node));
        node.resize(node_bytes, 0);
        writer.add(&node)?.encode(&mut payload);
    }
    let written = writer.finish()?;
    store.extents().install(&written.extents);
    extents
        .iter()
        .chain(&written.extents)
        .for_each(|(extent, _)| extent.encode(&mut payload));
    Ok(payload)
}

/// Reads back what [`write_root`] wrote.
fn read_root(store: &Store) -> Outcome<(Vec<NodePointer>, Vec<Extent>)> {
    let superblock = store.superblock();
    let place = DiskLocation::new(OnDiskObject::Superblock, "superblock", 0);
    let pointer =
        |bytes: &[u8]| NodePointer::decode(&mut ByteReader::new(bytes), &place, superblock.page_size);
    let (roots, extents) = superblock.payload.split_at(ROOTS * NodePointer::BYTES);
    let guard = store.epochs().pin();
    let mut pointers = Vec::new();
    for root in roots.chunks(NodePointer::BYTES) {
        let node = store.cache().get(&pointer(root)?, &guard, Purpose::Trunk)?;
        for bytes in node.chunks(NodePointer::BYTES) {
            if bytes.iter().any(|&byte| byte != 0) {
                pointers.push(pointer(bytes)?);
            }
        }
    }
    let mut reader = ByteReader::new(extents);
    let mut found = Vec::new();
    while reader.remaining() > 0 {
        found.push(Extent::decode(&mut reader, &place)?);
    }
    Ok((pointers, found))
}

fn page(number: u64, bytes: usize) -> Vec<u8> {
    number.to_le_bytes().iter().copied().cycle().take(bytes).collect()
}

fn commit(sequence: u64) -> Vec<u8> {
    format!("commit {sequence}, as opaque to the log as any other").into_bytes()
}

fn read(store: &Store, pointers: &[NodePointer]) -> Outcome<()> {
    const BATCH: usize = 32;
    let mut random = fastrand::Rng::with_seed(11);
    let begun = Instant::now();
    let batches = 1000;
    for _ in 0..batches {
        let wanted: Vec<usize> = (0..BATCH).map(|_| random.usize(..pointers.len())).collect();
        let batch: Vec<NodePointer> = wanted.iter().map(|&number| pointers[number]).collect();
        let guard = store.epochs().pin();
        let nodes = store
            .cache()
            .get_many(&batch, &guard, Purpose::Lookup, CacheRetention::Keep)?;
        for (node, number) in nodes.iter().zip(wanted) {
            assert_eq!(node[..8], (number as u64).to_le_bytes());
        }
    }
    let each = begun.elapsed() / u32::try_from(batches * BATCH)?;
    let stats = store.cache().stats();
    println!(
        "   {} pages, {each:?} each: {} hits, {} misses.",
        batches * BATCH,
        stats.hits,
        stats.misses
    );
    Ok(())
}

fn flip_a_bit(directory: &dyn Directory, victim: &NodePointer) -> Outcome<()> {
    let file = directory.open(&tier_file(victim.tier), FileOptions::DIRECT)?;
    let mut block = AlignedBuffer::padded(&file.read_at(victim.offset, victim.read_len(), Purpose::Other)?);
    block[1234] ^= 1;
    file.write_at(victim.offset, block, Purpose::Other)?;
    Ok(())
}
