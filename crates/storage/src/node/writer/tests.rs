use super::*;
use crate::extents::ExtentOptions;
use crate::node::{read_node, read_nodes};
use alluvium_device::memory::MemoryDirectory;
use alluvium_device::simulated::{CompletionOrder, InjectedFault, SimDirectory, SimOptions};
use alluvium_device::{DeviceOperation, Directory};

struct Bed {
    tiers: Arc<TierFiles>,
    extents: Arc<Extents>,
}

fn bed(options: ExtentOptions) -> Bed {
    let tiers = Arc::new(TierFiles::create(&[&MemoryDirectory::new()]).unwrap());
    let extents = Arc::new(Extents::create(Arc::clone(&tiers), options).unwrap());
    Bed { tiers, extents }
}

fn options(codec: NodeCodec, page_size: PageSize) -> WriterOptions {
    WriterOptions {
        tier: 0,
        page_size,
        codec,
        birth: 3,
        purpose: Purpose::Compact,
        class: AllocationClass::Normal,
        extent_units: WriterOptions::EXTENT_UNITS,
    }
}

impl Bed {
    fn writer(&self, options: WriterOptions) -> NodeWriter {
        NodeWriter::new(Arc::clone(&self.extents), Arc::clone(&self.tiers), options)
    }
}

fn node(random: &mut fastrand::Rng, len: usize) -> Vec<u8> {
    // Regularly spaced noise makes some nodes compress well, some badly, and some not at all.
    let noise = random.usize(1..12);
    (0..len)
        .map(|at| {
            if at % noise == 0 {
                random.u8(..)
            } else {
                (at / 64) as u8
            }
        })
        .collect()
}

#[test]
fn every_node_is_read_back_and_live_bytes_are_exact() {
    let mut random = fastrand::Rng::with_seed(5);
    for (codec, page) in [
        (NodeCodec::None, 4096),
        (NodeCodec::None, 16384),
        (NodeCodec::Lz4, 4096),
        (NodeCodec::Zstd, 65536),
    ] {
        let page_size = PageSize::new(page).unwrap();
        let bed = bed(ExtentOptions::default());
        let mut writer = bed.writer(options(codec, page_size));
        let nodes: Vec<Vec<u8>> = (0..300)
            .map(|_| {
                let pages = if random.u8(..4) == 0 {
                    random.u8(1..=MAX_PAGES)
                } else {
                    1
                };
                node(&mut random, page_size.node_bytes(pages))
            })
            .collect();
        let pointers: Vec<NodePointer> = nodes.iter().map(|node| writer.add(node).unwrap()).collect();
        let written = writer.finish().unwrap();
        bed.extents.install(&written.extents);
        for (pointer, node) in pointers.iter().zip(&nodes) {
            let read = read_node(&bed.tiers, pointer, page_size, Purpose::Check).unwrap();
            assert!(read == *node, "{pointer:?}");
        }
        for &(extent, live) in &written.extents {
            let inside = |pointer: &&NodePointer| extent.range().contains(&pointer.offset);
            let bytes: u64 = pointers
                .iter()
                .filter(inside)
                .map(|pointer| pointer.read_len() as u64)
                .sum();
            assert_eq!((bed.extents.live(extent), live), (bytes, bytes));
        }
        let mut ends: Vec<(u64, u64)> = pointers
            .iter()
            .map(|p| (p.offset, p.offset + p.read_len() as u64))
            .collect();
        assert!(ends.is_sorted(), "nodes follow each other");
        ends.dedup_by(|next, before| next.0 >= before.1);
        assert_eq!(ends.len(), 1, "no two nodes overlap");
    }
}

/// Adjacent nodes are read with one request. A damaged node among them must not affect the others.
#[test]
fn neighbours_are_read_together_whatever_is_wrong_with_one() {
    let directory = MemoryDirectory::new();
    let tiers = Arc::new(TierFiles::create(&[&directory]).unwrap());
    let extents = Arc::new(Extents::create(Arc::clone(&tiers), ExtentOptions::default()).unwrap());
    let mut random = fastrand::Rng::with_seed(17);
    let page_size = PageSize::MIN;
    let options = options(NodeCodec::None, page_size);
    let mut writer = NodeWriter::new(Arc::clone(&extents), Arc::clone(&tiers), options);
    let nodes: Vec<Vec<u8>> = (0..100)
        .map(|_| node(&mut random, page_size.node_bytes(1)))
        .collect();
    let pointers: Vec<NodePointer> = nodes.iter().map(|node| writer.add(node).unwrap()).collect();
    extents.install(&writer.finish().unwrap().extents);
    let read = |pointers: &[NodePointer]| {
        let before = directory.counters().snapshot();
        let mut found = Vec::new();
        read_nodes(&tiers, pointers, page_size, Purpose::Check, &mut |index, node| {
            assert_eq!(index, found.len(), "in their order");
            found.push(node);
        });
        let reads = directory.counters().snapshot().since(&before).total().reads;
        (found, reads)
    };
    let (found, reads) = read(&pointers);
    assert!(found.iter().flatten().eq(&nodes), "all of them are found");
    assert_eq!(reads, 2, "64 nodes are read at once");
    let every_other: Vec<NodePointer> = pointers.iter().step_by(2).copied().collect();
    let backwards: Vec<NodePointer> = pointers.iter().rev().copied().collect();
    assert_eq!(read(&every_other).1, 50, "what lies between is not read");
    assert!(read(&backwards).0.iter().flatten().eq(nodes.iter().rev()));
    let mut damaged = pointers;
    damaged[40].checksum ^= 1;
    let (found, _) = read(&damaged);
    let bad: Vec<usize> = (0..found.len()).filter(|&at| found[at].is_err()).collect();
    assert_eq!(bad, [40]);
}

#[test]
fn a_node_alone_in_its_extent_is_written_whatever_it_compresses_to() {
    let mut random = fastrand::Rng::with_seed(11);
    for page in [4096, 8192, 16384, 32768, 65536] {
        let page_size = PageSize::new(page).unwrap();
        for codec in [NodeCodec::None, NodeCodec::Lz4, NodeCodec::Zstd] {
            let bed = bed(ExtentOptions::default());
            for pages in 1..=MAX_PAGES {
                // The share of noise determines the node's compressed size, from almost nothing to
                // its full size.
                let noise = random.usize(1..=8);
                let fill = |at: usize| match at / 64 % 8 < noise {
                    true => random.u8(..),
                    false => 0,
                };
                let node: Vec<u8> = (0..page_size.node_bytes(pages)).map(fill).collect();
                let mut writer = bed.writer(options(codec, page_size));
                let pointer = writer.add(&node).unwrap();
                bed.extents.install(&writer.finish().unwrap().extents);
                let read = read_node(&bed.tiers, &pointer, page_size, Purpose::Check).unwrap();
                assert!(read == node, "{pages} pages of {page}, {codec:?}");
            }
        }
    }
}

#[test]
fn what_lies_between_nodes_is_zero_although_buffers_are_used_again() {
    let bed = bed(ExtentOptions::default());
    let mut random = fastrand::Rng::with_seed(6);
    let mut writer = bed.writer(options(NodeCodec::Lz4, PageSize::MIN));
    let mut pointers = Vec::new();
    for _ in 0..2000 {
        let node = node(&mut random, 8192);
        pointers.push(writer.add(&node).unwrap());
    }
    let written = writer.finish().unwrap();
    let end = written
        .extents
        .iter()
        .map(|(extent, _)| extent.range().end)
        .max()
        .unwrap();
    let file = bed.tiers.get(0).unwrap();
    let mut bytes = file.read_at(0, end as usize, Purpose::Check).unwrap();
    for pointer in &pointers {
        bytes[pointer.offset as usize..][..pointer.encoded_len as usize].fill(0);
    }
    assert!(bytes.iter().all(|&byte| byte == 0));
}

#[test]
fn a_short_run_takes_no_more_units_than_it_needs() {
    let bed = bed(ExtentOptions::default());
    let mut writer = bed.writer(options(NodeCodec::None, PageSize::MIN));
    for _ in 0..33 {
        writer.add(&[1; 4096]).unwrap();
    }
    assert_eq!(bed.extents.usage().total().provisional_bytes, 8 * UNIT);
    let written = writer.finish().unwrap();
    assert_eq!(
        written.extents,
        [(
            Extent {
                tier: 0,
                start: 0,
                units: 2
            },
            33 * 4096
        )]
    );
    assert_eq!(bed.extents.usage().total().provisional_bytes, 2 * UNIT);
}

#[test]
fn the_last_node_can_name_every_extent_its_own_included() {
    let bed = bed(ExtentOptions::default());
    let options = options(NodeCodec::None, PageSize::MIN);
    let per_extent = (u64::from(options.extent_units) * UNIT) as usize / 4096;
    for pages in [
        0,
        1,
        per_extent - 2,
        per_extent - 1,
        per_extent,
        2 * per_extent - 1,
    ] {
        for last in [1, 2, 16] {
            let mut writer = bed.writer(options);
            for _ in 0..pages {
                writer.add(&[7; 4096]).unwrap();
            }
            let foretold = writer.extents_ending_with(last).unwrap();
            assert_eq!(foretold, writer.extents_ending_with(last).unwrap());
            let pointer = writer.add(&vec![9; usize::from(last) * 4096]).unwrap();
            let written = writer.finish().unwrap();
            assert_eq!(written.extents, foretold, "{pages} pages and {last}");
            assert!(
                written
                    .extents
                    .last()
                    .unwrap()
                    .0
                    .range()
                    .contains(&pointer.offset)
            );
        }
    }
}

#[test]
fn a_writer_tells_which_extents_are_full_and_how_far_the_next_is() {
    let bed = bed(ExtentOptions::default());
    let options = options(NodeCodec::None, PageSize::MIN);
    let per_extent = (u64::from(options.extent_units) * UNIT) as usize / 4096;
    let mut writer = bed.writer(options);
    assert_eq!((writer.written(), writer.filling()), (&[][..], None));
    for number in 0..2 * per_extent + 5 {
        let pointer = writer.add(&[7; 4096]).unwrap();
        let (extent, used) = writer.filling().unwrap();
        assert_eq!(extent.offset() + used, pointer.offset + 4096);
        assert_eq!(writer.written().len(), number / per_extent);
    }
    let (full, (last, used)) = (writer.written().to_vec(), writer.filling().unwrap());
    let written = writer.finish().unwrap();
    assert_eq!(written.extents[..2], full);
    let units = used.div_ceil(UNIT) as u32;
    assert_eq!(written.extents[2].0, Extent { units, ..last });
}

#[test]
fn an_extent_that_was_begun_for_nothing_is_given_up() {
    let bed = bed(ExtentOptions::default());
    let mut writer = bed.writer(options(NodeCodec::None, PageSize::MIN));
    assert_eq!(writer.extents_ending_with(1).unwrap().len(), 1);
    assert_eq!(writer.finish().unwrap(), WriterOutput::default());
    assert_eq!(bed.extents.usage().total().provisional_bytes, 0);
}

#[test]
fn extents_of_one_writer_follow_each_other() {
    let bed = bed(ExtentOptions::default());
    let mut writer = bed.writer(options(NodeCodec::None, PageSize::MIN));
    let hole = bed.extents.allocate(0, 8, AllocationClass::Normal).unwrap();
    for _ in 0..1024 {
        writer.add(&[1; 4096]).unwrap();
        if writer.bytes() == 4096 {
            bed.extents.abandon(hole);
        }
    }
    let written = writer.finish().unwrap();
    assert_eq!(written.extents.len(), 4);
    assert!(
        written
            .extents
            .windows(2)
            .all(|pair| pair[0].0.end() == pair[1].0.start)
    );
}

#[test]
fn a_dropped_writer_gives_its_extents_up() {
    let bed = bed(ExtentOptions::default());
    let before = bed.extents.usage().total().free_bytes;
    let mut writer = bed.writer(options(NodeCodec::None, PageSize::MIN));
    for _ in 0..600 {
        writer.add(&[1; 4096]).unwrap();
    }
    drop(writer);
    let usage = bed.extents.usage().total();
    assert_eq!(usage.provisional_bytes, 0);
    assert!(usage.free_bytes >= before);
}

#[test]
fn a_full_store_is_an_error_and_what_was_taken_can_still_be_finished() {
    let limit = ExtentOptions {
        max_bytes: Some(5 << 20),
        ..ExtentOptions::default()
    };
    let bed = bed(limit);
    let mut writer = bed.writer(options(NodeCodec::None, PageSize::MIN));
    let mut pointers = Vec::new();
    let error = loop {
        match writer.add(&[9; 65536]) {
            Ok(pointer) => pointers.push(pointer),
            Err(error) => break error,
        }
    };
    assert!(error.is_full(), "{error}");
    assert_eq!(pointers.len() * 65536, 3 << 20, "all but the reserve of 2 MiB");
    assert!(writer.add(&[9; 65536]).unwrap_err().is_full());
    bed.extents.install(&writer.finish().unwrap().extents);
    for pointer in &pointers {
        read_node(&bed.tiers, pointer, PageSize::MIN, Purpose::Check).unwrap();
    }
    let mut essential = bed.writer(WriterOptions {
        class: AllocationClass::Freeing,
        ..options(NodeCodec::None, PageSize::MIN)
    });
    essential.add(&[9; 65536]).unwrap();
    assert_eq!(essential.finish().unwrap().extents.len(), 1);
}

#[test]
fn a_compressed_node_avoids_boundaries_where_that_is_cheap() {
    let cases = [
        (0, 512, 0),
        (3584, 512, 3584),
        (3584, 4096, 4096),
        (3072, 4096, 3072),
        (3584, 3584, 3584),
        (3584, 6144, 4096),
        (2560, 4608, 2560),
        (3072, 8192, 4096),
        (7680, 8192, 8192),
        (4096, 12_288, 4096),
    ];
    for (at, len, expected) in cases {
        assert_eq!(start_of_compressed(at, len), expected, "{len} bytes at {at}");
    }
}

#[test]
fn no_pointer_makes_reading_panic() {
    let bed = bed(ExtentOptions::default());
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..3000 {
        let pointer = NodePointer {
            offset: if random.bool() {
                random.u64(..)
            } else {
                random.u64(..1 << 22)
            },
            birth: random.u64(..),
            checksum: random.u64(..),
            encoded_len: if random.bool() { 4096 } else { random.u32(..) },
            tier: random.u8(..3),
            pages: random.u8(..20),
            codec: [NodeCodec::None, NodeCodec::Lz4, NodeCodec::Zstd][random.usize(..3)],
        };
        assert!(read_node(&bed.tiers, &pointer, PageSize::MIN, Purpose::Check).is_err());
    }
}

/// Returns a store on a simulated machine whose device completes requests in random order.
fn shuffled(seed: u64) -> (SimDirectory, Bed) {
    let options = SimOptions {
        completion: CompletionOrder::Shuffled,
        ..SimOptions::new(seed)
    };
    let directory = SimDirectory::with(options);
    let tiers = Arc::new(TierFiles::create(&[&directory]).unwrap());
    let extents = Arc::new(Extents::create(Arc::clone(&tiers), ExtentOptions::default()).unwrap());
    (directory, Bed { tiers, extents })
}

#[test]
fn writes_are_in_flight_together_and_may_complete_in_any_order() {
    for seed in 0..5 {
        let (directory, bed) = shuffled(seed);
        let mut writer = bed.writer(WriterOptions {
            extent_units: 1,
            ..options(NodeCodec::None, PageSize::MIN)
        });
        let (mut pointers, mut most) = (Vec::new(), 0);
        for index in 0..640u32 {
            pointers.push(writer.add(&[index as u8; 4096]).unwrap());
            most = most.max(directory.in_flight());
        }
        assert_eq!(most, MAX_IN_FLIGHT);
        bed.extents.install(&writer.finish().unwrap().extents);
        assert_eq!(directory.in_flight(), 0);
        for (index, pointer) in pointers.iter().enumerate() {
            let node = read_node(&bed.tiers, pointer, PageSize::MIN, Purpose::Check).unwrap();
            assert_eq!(node, [index as u8; 4096]);
        }
    }
}

#[test]
fn a_failed_write_is_an_error_wherever_it_happens_and_gives_the_extents_up() {
    for call in 1..=20 {
        let (directory, bed) = shuffled(call);
        directory.inject(InjectedFault::failing(DeviceOperation::Write).at(call));
        let mut writer = bed.writer(WriterOptions {
            extent_units: 1,
            ..options(NodeCodec::None, PageSize::MIN)
        });
        let added = (0..640u32).find_map(|index| writer.add(&[index as u8; 4096]).err());
        if let Some(error) = &added {
            assert!(matches!(error, Error::Device(_)), "{error}");
            assert!(matches!(writer.add(&[0; 4096]), Err(Error::Poisoned { .. })));
        }
        assert!(writer.finish().is_err(), "write {call} failed");
        assert_eq!((directory.in_flight(), directory.faults_hit()), (0, 1));
        assert_eq!(bed.extents.usage().total().provisional_bytes, 0);
    }
}

#[test]
fn a_dropped_writer_waits_for_its_writes_before_it_gives_their_extents_up() {
    let (directory, bed) = shuffled(1);
    let mut writer = bed.writer(WriterOptions {
        extent_units: 1,
        ..options(NodeCodec::None, PageSize::MIN)
    });
    for _ in 0..100 {
        writer.add(&[3; 4096]).unwrap();
    }
    assert!(directory.in_flight() > 0);
    drop(writer);
    assert_eq!(
        (
            directory.in_flight(),
            bed.extents.usage().total().provisional_bytes
        ),
        (0, 0)
    );
}

#[test]
fn damage_to_a_node_is_always_found() {
    let mut random = fastrand::Rng::with_seed(15);
    let bed = bed(ExtentOptions::default());
    let mut cases = 0;
    for codec in [NodeCodec::None, NodeCodec::Lz4, NodeCodec::Zstd] {
        let mut writer = bed.writer(options(codec, PageSize::MIN));
        let nodes: Vec<Vec<u8>> = (0..40).map(|_| node(&mut random, 8192)).collect();
        let pointers: Vec<NodePointer> = nodes.iter().map(|node| writer.add(node).unwrap()).collect();
        bed.extents.install(&writer.finish().unwrap().extents);
        let file = bed.tiers.get(0).unwrap();
        for (index, pointer) in pointers.iter().enumerate() {
            let good = file
                .read_at(pointer.offset, pointer.read_len(), Purpose::Check)
                .unwrap()
                .to_vec();
            let other = &pointers[(index + 1) % pointers.len()];
            let stale = file
                .read_at(other.offset, other.read_len(), Purpose::Check)
                .unwrap();
            for fault in 0..60 {
                let mut bytes = good.clone();
                match fault {
                    0 => bytes.fill(0),
                    1 => bytes[..512].fill(0),
                    2 => bytes
                        .iter_mut()
                        .zip(stale.iter())
                        .for_each(|(byte, &stale)| *byte = stale),
                    _ => bytes[random.usize(..pointer.encoded_len as usize)] ^= 1 << random.u8(..8),
                }
                if bytes == good {
                    continue;
                }
                file.write_at(pointer.offset, AlignedBuffer::padded(&bytes), Purpose::Other)
                    .unwrap();
                let error = read_node(&bed.tiers, pointer, PageSize::MIN, Purpose::Check).unwrap_err();
                assert!(matches!(error, Error::Corrupt { .. }), "{error}");
                cases += 1;
            }
            file.write_at(pointer.offset, AlignedBuffer::padded(&good), Purpose::Other)
                .unwrap();
            assert_eq!(
                read_node(&bed.tiers, pointer, PageSize::MIN, Purpose::Check).unwrap(),
                nodes[index]
            );
        }
    }
    assert!(cases > 6000, "{cases} cases");
}
