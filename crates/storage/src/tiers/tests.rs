use super::format::MARK_BYTES;
use super::*;
use crate::extents::{AllocationClass, Extent, ExtentOptions, TierLimits, UNIT};
use crate::log::LogOptions;
use crate::node::{NodePointer, WriterOptions};
use crate::store::{LOCK_FILE, Store, StoreCopy, StoreOptions};
use crate::superblock::{self, Superblock};
use alluvium_base::bytes::ByteReader;
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::simulated::{Corruption, CrashSurvival, InjectedFault, SimDirectory};
use alluvium_device::{AlignedBuffer, DeviceOperation};

mod adding;
mod failing;
mod lives;
mod placement;
mod refusals;

fn options(id: u128) -> StoreOptions {
    StoreOptions {
        id,
        cache_bytes: 4 << 20,
        log: LogOptions::with_limit(1 << 20),
        ..StoreOptions::default()
    }
}

/// Returns the simulated machines of a store, one for each tier.
fn machines(count: u64) -> Vec<SimDirectory> {
    (0..count).map(SimDirectory::new).collect()
}

fn directories(machines: &[SimDirectory]) -> TierDirectories {
    let mut all = machines.iter().map(|machine| Arc::new(machine.clone()));
    let first = TierDirectories::from(all.next().expect("a store has a tier"));
    all.fold(first, |some, next| some.and(next))
}

/// Returns the simulated machines after they have all crashed.
fn crashed(machines: &[SimDirectory], survival: CrashSurvival) -> Vec<SimDirectory> {
    let images = machines.iter().enumerate();
    images
        .map(|(at, machine)| machine.image(survival, at as u64))
        .collect()
}

fn open(directories: TierDirectories) -> Result<Store> {
    Store::open(directories, &options(0))?.replay(&mut |_| Ok(()))
}

/// Writes a node with `text` to a tier, and returns a pointer to it.
fn write(store: &Store, tier: u8, text: &str) -> Result<NodePointer> {
    let mut writer = store.node_writer(WriterOptions {
        tier,
        extent_units: 1,
        ..store.writer_options(Purpose::Trunk, AllocationClass::Normal)
    })?;
    let mut node = vec![0; store.page_size().bytes()];
    node[..text.len()].copy_from_slice(text.as_bytes());
    let pointer = writer.add(&node)?;
    store.extents().install(&writer.finish()?.extents);
    Ok(pointer)
}

/// Writes a node to each tier, makes the nodes durable with a checkpoint, and releases those of the
/// previous checkpoint.
fn checkpoint(store: &Store, text: &str) -> Result<u64> {
    let mut payload = Vec::new();
    for tier in 0..store.tiers().count() as u8 {
        write(store, tier, &format!("{text} on tier {tier}"))?.encode(&mut payload);
    }
    for old in nodes(&store.superblock()) {
        store.extents().release(extent_of(&old), store.epochs().current());
    }
    store.begin_checkpoint()?.finish(&payload, 0)
}

fn nodes(superblock: &Superblock) -> Vec<NodePointer> {
    let place = DiskLocation::new(OnDiskObject::Superblock, superblock::FILE, 0);
    let mut reader = ByteReader::new(&superblock.payload);
    let mut nodes = Vec::new();
    while reader.remaining() > 0 {
        nodes.push(NodePointer::decode(&mut reader, &place, superblock.page_size).unwrap());
    }
    nodes
}

fn extent_of(pointer: &NodePointer) -> Extent {
    Extent {
        tier: pointer.tier,
        start: (pointer.offset / UNIT) as u32,
        units: 1,
    }
}

fn text(store: &Store, pointer: &NodePointer) -> Result<String> {
    let guard = store.epochs().pin();
    let node = store.cache().get(pointer, &guard, Purpose::Lookup)?;
    let end = node.iter().position(|&byte| byte == 0).unwrap();
    Ok(String::from_utf8(node[..end].to_vec()).unwrap())
}

fn texts(store: &Store) -> Vec<String> {
    let nodes = nodes(&store.superblock());
    nodes.iter().map(|node| text(store, node).unwrap()).collect()
}

fn check(store: &Store) -> Vec<String> {
    let reachable = nodes(&store.superblock());
    store
        .check(reachable.iter().map(|node| (extent_of(node), 1)))
        .unwrap()
}
