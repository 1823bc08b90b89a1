//! A tree for a parallel device: no header and no entries cause a panic.
//!
//! The input is used as an encoded header, and as the entries of a small tree in blocks with valid
//! checksums.

#![no_main]

use alluvium_base::Purpose;
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::{Buffer, Device, Directory, FileOptions};
use alluvium_storage::{Place, Structure};
use libfuzzer_sys::fuzz_target;
use research_trees::pdam::format::{Header, seal};
use research_trees::pdam::{Shape, Tree};
use std::sync::Arc;

fuzz_target!(|input: &[u8]| {
    let place = Place::new(Structure::Superblock, "tree", 0);
    if let Ok(header) = Header::decode(input, &place) {
        let again = Header::decode(&header.encode(), &place);
        assert_eq!(again.expect("what was read is sound"), header);
    }
    let Some((&[nodes, key, value, keys], entries)) = input.split_first_chunk::<4>() else {
        return;
    };
    let (nodes, key) = (1 + u32::from(nodes % 4), 1 + u32::from(key % 100));
    let Ok(shape) = Shape::new(512, nodes, key, u32::from(value % 100)) else {
        return;
    };
    let header = Header {
        shape,
        id: 1,
        keys: u64::from(keys) * 3,
    };
    let file = written(&header, entries);
    // The file may be longer or shorter than its tree.
    let Ok(tree) = Tree::open(file) else { return };
    let examined = tree.check().expect("a file in memory is read");
    let wanted = vec![entries.first().copied().unwrap_or(0); key as usize];
    let found = tree.get(&wanted).expect("blocks have their checksums");
    let scanned = tree
        .scan(&wanted, 7)
        .expect("blocks have their checksums")
        .count();
    assert!(scanned as u64 <= tree.keys() && examined.keys == tree.keys());
    if examined.damage.is_empty() && found.is_some() {
        assert!(scanned > 0, "a key that is found is scanned");
    }
});

/// Writes a header, followed by blocks with the entries.
fn written(header: &Header, entries: &[u8]) -> Arc<dyn Device> {
    let file = MemoryDirectory::new()
        .create("tree", FileOptions::DIRECT)
        .expect("memory");
    // Twice the number of leaves is enough for the nodes of all levels.
    let leaves = header.keys.div_ceil(header.shape.node_entries(0));
    let blocks = 1 + 2 * leaves * u64::from(header.shape.node_blocks());
    let mut entries = entries.iter().cycle().copied();
    let mut bytes = header.encode();
    bytes.resize(512, 0);
    for number in 1..blocks {
        let start = bytes.len();
        bytes.extend([0; 8]);
        bytes.extend(entries.by_ref().take(504));
        bytes.resize(start + 512, 0);
        seal(&mut bytes[start..], header.id, number);
    }
    file.grow(bytes.len() as u64).expect("memory");
    file.write_at(0, Buffer::padded(&bytes), Purpose::Other)
        .expect("memory");
    // Truncate the file to the size of the tree.
    while file.len() > 512 && Tree::open(Arc::clone(&file)).is_err() {
        file.truncate(file.len() - 512).expect("memory");
    }
    file
}
