//! Throughput of writing nodes: `cargo bench -p alluvium-storage --bench nodes`.
//!
//! One thread packs nodes into extents on the memory device, which includes compression, checksum,
//! the copy into the extent's buffer and the device's own copy. The bench also measures each of
//! these alone. Each figure is a median of three. A round writes to the space that the previous
//! round released. Under `cargo test`, a round is 2 MiB.

use alluvium_base::{MIB, Purpose, checksum};
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::{AlignedBuffer, Directory, FileOptions};
use alluvium_storage::extents::{AllocationClass, ExtentOptions, Extents};
use alluvium_storage::node::{NodeWriter, WriterOptions};
use alluvium_storage::{NodeCodec, PageSize, TierFiles};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

fn main() {
    let real = std::env::args().any(|argument| argument == "--bench");
    let bytes = if real { 256 * MIB } else { 2 * MIB } as usize;
    let nodes = records(16 * MIB as usize);
    println!(
        "GB/s of nodes written by one core, {} MiB a round, medians of three",
        bytes >> 20
    );
    parts(&nodes, bytes);
    for (page, pages) in [(4096, 1), (4096, 4), (16384, 1), (65536, 1)] {
        for codec in [NodeCodec::None, NodeCodec::Lz4, NodeCodec::Zstd] {
            writer(
                &nodes,
                bytes,
                PageSize::new(page).expect("a page size"),
                pages,
                codec,
            );
        }
    }
}

/// Generates nodes that compress like small records, from vocabulary words and numbers.
fn records(len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(1);
    let words: Vec<String> = (0..2000)
        .map(|_| (0..random.usize(3..9)).map(|_| random.lowercase()).collect())
        .collect();
    let mut bytes = Vec::with_capacity(len + 100);
    while bytes.len() < len {
        let key = format!("user{:010}:{:06}", bytes.len() / 80, random.u32(..1_000_000));
        bytes.extend_from_slice(key.as_bytes());
        for _ in 0..8 {
            bytes.extend_from_slice(random.choice(&words).expect("there are words").as_bytes());
            bytes.push(b' ');
        }
        bytes.extend_from_slice(&random.u64(..).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Returns the median GB/s of three rounds.
fn speed(bytes: usize, mut round: impl FnMut()) -> f64 {
    round();
    let mut runs = [(); 3].map(|()| {
        let start = Instant::now();
        round();
        bytes as f64 / start.elapsed().as_nanos() as f64
    });
    runs.sort_by(f64::total_cmp);
    runs[1]
}

fn report(what: &str, speed: f64, more: &str) {
    println!("  {what:<48} {speed:>8.2}   {more}");
}

fn parts(nodes: &[u8], bytes: usize) {
    let sums = speed(bytes, || {
        for node in nodes.chunks_exact(4096).cycle().take(bytes / 4096) {
            black_box(checksum(black_box(node)));
        }
    });
    report("checksum of 4 KiB alone", sums, "");
    let mut buffer = AlignedBuffer::zeroed(MIB as usize);
    let copies = speed(bytes, || {
        for node in nodes
            .chunks_exact(MIB as usize)
            .cycle()
            .take(bytes / MIB as usize)
        {
            buffer.copy_from_slice(black_box(node));
        }
    });
    report("copy alone", copies, "");
    let directory = MemoryDirectory::new();
    let file = directory.create("file", FileOptions::DIRECT).expect("memory");
    file.grow(bytes as u64).expect("memory");
    let mut buffer = Some(buffer);
    let writes = speed(bytes, || {
        for index in 0..bytes as u64 / MIB {
            let written = file.write_at(index * MIB, buffer.take().expect("given back"), Purpose::Other);
            buffer = Some(written.expect("memory"));
        }
    });
    report("write of 1 MiB to the memory device alone", writes, "");
}

fn writer(nodes: &[u8], bytes: usize, page_size: PageSize, pages: u8, codec: NodeCodec) {
    let tiers = Arc::new(TierFiles::create(&[&MemoryDirectory::new()]).expect("memory"));
    let extents = Arc::new(Extents::create(Arc::clone(&tiers), ExtentOptions::default()).expect("memory"));
    let options = WriterOptions {
        tier: 0,
        page_size,
        codec,
        birth: 1,
        purpose: Purpose::Compact,
        class: AllocationClass::Normal,
        extent_units: WriterOptions::EXTENT_UNITS,
    };
    let node = page_size.node_bytes(pages);
    let (mut encoded, mut stored) = (0, 0);
    let speed = speed(bytes, || {
        let mut writer = NodeWriter::new(Arc::clone(&extents), Arc::clone(&tiers), options);
        for node in nodes.chunks_exact(node).cycle().take(bytes / node) {
            black_box(writer.add(node).expect("there is room"));
        }
        let written = writer.finish().expect("memory");
        encoded = written.extents.iter().map(|(_, live)| *live).sum::<u64>();
        stored = written
            .extents
            .iter()
            .map(|(extent, _)| extent.bytes())
            .sum::<u64>();
        written
            .extents
            .iter()
            .for_each(|(extent, _)| extents.abandon(*extent));
    });
    let part = |of: u64| of as f64 / bytes as f64 * 100.0;
    let what = format!("{codec:?}, nodes of {pages} × {} KiB", page_size.bytes() >> 10);
    report(
        &what,
        speed,
        &format!("{:.1} % in nodes, {:.1} % on disk", part(encoded), part(stored)),
    );
}
