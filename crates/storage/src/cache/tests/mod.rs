//! Tests of the cache on in-memory devices. The content of a node is derived from its pointer, so
//! the tests notice when nodes are mixed up.

mod behaviour;
mod budget;
mod copies;
mod device;
mod reads;
mod scans;
mod stress;

use super::*;
use crate::NodeCodec;
use alluvium_base::checksum;
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::{AlignedBuffer, Device, Directory};
use device::Gated;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// The filler between the words that identify a node. None of its bytes is zero, so that memory
/// misused by the cache cannot look as if it had been cleared.
const FILLER: u64 = 0x0707_0707_0707_0707;

/// A store whose nodes are written directly to its devices.
struct Store {
    directory: MemoryDirectory,
    files: Vec<Arc<Gated>>,
    tiers: Arc<TierFiles>,
    ends: Vec<u64>,
}

impl Store {
    fn new(tiers: usize) -> Store {
        let directory = MemoryDirectory::new();
        let plain = TierFiles::create(&vec![&directory as &dyn Directory; tiers]).unwrap();
        let files: Vec<_> = (0..tiers)
            .map(|tier| Gated::new(Arc::clone(plain.get(tier as u8).unwrap())))
            .collect();
        let devices = files
            .iter()
            .map(|file| Arc::clone(file) as Arc<dyn Device>)
            .collect();
        Store {
            directory,
            files,
            tiers: Arc::new(TierFiles::of(devices)),
            ends: vec![0; tiers],
        }
    }

    /// Writes a node after the last node of its tier, and returns a pointer to it.
    fn write(&mut self, tier: u8, birth: u64, pages: u8, codec: NodeCodec) -> NodePointer {
        let end = &mut self.ends[usize::from(tier)];
        let offset = *end;
        let node = content(offset, birth, pages);
        let mut encoded = Vec::new();
        let codec = codec.encode(&node, &mut encoded);
        let encoded = if codec == NodeCodec::None { node } else { encoded };
        let pointer = NodePointer {
            offset,
            birth,
            checksum: checksum(&encoded),
            encoded_len: encoded.len() as u32,
            tier,
            pages,
            codec,
        };
        *end = (offset + pointer.read_len() as u64).next_multiple_of(PAGE);
        let file = self.tiers.get(tier).unwrap();
        file.grow(*end).unwrap();
        file.write_at(offset, AlignedBuffer::padded(&encoded), Purpose::Other)
            .unwrap();
        pointer
    }

    fn write_many(&mut self, count: usize, pages: u8) -> Vec<NodePointer> {
        (0..count)
            .map(|_| self.write(0, 1, pages, NodeCodec::None))
            .collect()
    }

    fn cache(&self, budget: u64) -> NodeCache {
        NodeCache::new(Arc::clone(&self.tiers), Epochs::new(), PageSize::MIN, budget).unwrap()
    }

    /// Returns the number of nodes that were read from the devices so far.
    fn reads(&self) -> u64 {
        self.directory.counters().snapshot().total().reads
    }
}

/// Returns the content of a node, which is compressible and differs for each offset and birth
/// generation. Every fourth word identifies the node.
fn content(offset: u64, birth: u64, pages: u8) -> Vec<u8> {
    let words = u64::from(pages) * PAGE / 8;
    let word = |i: u64| {
        if i.is_multiple_of(4) {
            offset ^ (birth << 48) ^ (i << 40)
        } else {
            FILLER
        }
    };
    (0..words).flat_map(|i| word(i).to_le_bytes()).collect()
}

/// Checks some words of a node against its pointer. Comparing all words would make the stress tests
/// too slow.
fn is_content_of(pointer: &NodePointer, node: &[u8]) -> bool {
    let words = node.len() as u64 / 8;
    let word = |i: u64| u64::from_le_bytes(node[i as usize * 8..][..8].try_into().unwrap());
    let expected = |i: u64| pointer.offset ^ (pointer.birth << 48) ^ (i << 40);
    node.len() as u64 == u64::from(pointer.pages) * PAGE
        && (0..words)
            .step_by(64)
            .chain([words - 4])
            .all(|i| word(i) == expected(i) && word(i + 1) == FILLER)
}

fn assert_content(pointer: &NodePointer, node: &[u8]) {
    assert_eq!(
        node,
        content(pointer.offset, pointer.birth, pointer.pages),
        "{pointer:?}"
    );
}

/// Asserts that the cache has no violations, now and again once all retired frames can be recycled.
fn assert_sound(cache: &NodeCache) {
    for _ in 0..2 {
        assert_eq!(cache.check(), []);
        for _ in 0..3 {
            cache.maintain();
        }
    }
}
