//! Seeds for the targets of structures over hashed keys.

/// Raw indexes, and keys followed by damages.
pub(crate) fn tries() -> Vec<Vec<u8>> {
    use alluvium_filters::trie::{TrieCodes, TrieIndexBuilder, TrieShape, key_of};
    let codes = TrieCodes::new(64);
    let keys: Vec<u8> = (0..240).map(|byte: u8| byte.wrapping_mul(91)).collect();
    let with = |start: [u8; 4]| [&start[..], &keys].concat();
    let index = |block_items| {
        let shape = TrieShape {
            block_items,
            ..TrieShape::new(9)
        };
        let mut builder = TrieIndexBuilder::new(&codes, shape, 2).expect("a usual shape");
        for hash in 0..100 {
            let key = [&key_of(hash << 57)[..], &[0]].concat();
            builder.push(&key).expect("keys in order");
        }
        builder.finish()
    };
    vec![index(1), index(8), with([0, 1, 64, 0]), with([9, 4, 3, 8])]
}

/// A raw index, and object sizes followed by damages.
pub(crate) fn block_indexes() -> Vec<Vec<u8>> {
    use alluvium_filters::pachash::{BlockIndexBuilder, BlockIndexShape};
    let mut builder = BlockIndexBuilder::new(BlockIndexShape::new(6400, 500).expect("a usual shape"));
    for hash in 0..64 {
        builder.push(hash << 58, 100).expect("sorted objects");
    }
    let sizes: Vec<u8> = (0..200).collect();
    let with = |start: [u8; 3]| [&start[..], &sizes].concat();
    let index = builder.finish().expect("all bytes");
    vec![index, with([40, 3, 0]), with([9, 0, 9])]
}

/// A raw filter, a part of one, and hashes followed by damages.
pub(crate) fn listed_filters() -> Vec<Vec<u8>> {
    use alluvium_filters::listed::{ListedFilter, ListedShape, encode};
    let filter = |hashes: u64| {
        let shape = ListedShape::new(hashes, 10).expect("a usual shape");
        let step = u64::MAX / hashes;
        encode(shape, (0..hashes).map(|at| at * step)).expect("sorted hashes")
    };
    let whole = ListedFilter::open(filter(3000)).expect("just written");
    let part = whole.part(1..2, |len| vec![0; len]).expect("its second page");
    let steps: Vec<u8> = (0..200).collect();
    let with = |start: [u8; 3]| [&start[..], &steps].concat();
    vec![
        filter(40),
        part.bytes().to_vec(),
        with([9, 40, 0]),
        with([3, 20, 9]),
    ]
}

/// Raw frames, and records followed by damages.
pub(crate) fn frames() -> Vec<Vec<u8>> {
    use alluvium_storage::sort::format::{HEADER_BYTES, RunFrameHeader};
    let records = b"\x03\x02keyab\x00\x01c\x02\x00de";
    let mut frame = vec![0; 512];
    frame[HEADER_BYTES..HEADER_BYTES + records.len()].copy_from_slice(records);
    RunFrameHeader {
        run: 0,
        number: 0,
        records: 3,
        bytes: records.len() as u32,
    }
    .seal(&mut frame);
    vec![frame, records.to_vec(), b"\x80\x01\xff\xff\xff\xff\x0f".to_vec()]
}

/// An index file, and a block.
pub(crate) fn indexes_at_rest() -> Vec<Vec<u8>> {
    use alluvium_hashes::index::StaticIndexKind;
    use alluvium_hashes::index::format::{IndexFileHeader, seal_block};
    use alluvium_hashes::index::{FixedRecordLayout, StaticIndexOptions};
    let header = |kind| IndexFileHeader {
        kind,
        seed: 0,
        shape: FixedRecordLayout {
            block_bytes: 512,
            ..StaticIndexOptions::new(8, 4).shape
        },
        keys_per_bucket: 256,
        hmax: 64,
        records: 100,
        data: 1,
    };
    let mut block: Vec<u8> = (0..512).map(|byte| byte as u8).collect();
    seal_block(3, &mut block, 500, 7);
    let [dense, blocks] = [StaticIndexKind::Dense, StaticIndexKind::Blocks].map(header);
    vec![
        dense.encode(&tries()[0]),
        blocks.encode(&block_indexes()[0]),
        block,
    ]
}
