//! Writes a first corpus: for each target a few inputs that lead to valid encodings.
//!
//! `fuzz/run` calls it before the targets. The inputs are made by the encoders themselves, so that a new format
//! version needs no new files.
#![allow(clippy::disallowed_methods)]

use alluvium_base::bytes::Writer;
use alluvium_base::checksum;
use alluvium_storage::superblock::MAP_POINTER_BYTES;
use alluvium_storage::{Codec, NodePointer, PageSize, superblock::Superblock};
use std::fs;
use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let corpus = PathBuf::from(std::env::args().nth(1).expect("usage: seeds FOLDER"));
    for (target, inputs) in [
        ("bytes", bytes()),
        ("node_pointer", node_pointers()),
        ("codec", codecs()),
        ("superblock", superblocks()),
    ] {
        let folder = corpus.join(target);
        fs::create_dir_all(&folder)?;
        for (index, input) in inputs.iter().enumerate() {
            fs::write(folder.join(format!("seed-{index}")), input)?;
        }
    }
    Ok(())
}

/// Every kind of call, over bytes that hold what is asked for.
fn bytes() -> Vec<Vec<u8>> {
    let calls = [0u8, 1, 2, 3, 4, 5, 5, 5, 30];
    let mut values = Vec::new();
    Writer::new(&mut values)
        .u8(1)
        .u16(2)
        .u32(3)
        .u64(4)
        .u128(5)
        .varint(6)
        .varint(300)
        .varint(u64::MAX)
        .bytes(b"abc");
    let filler = vec![7; values.len() - calls.len()];
    vec![[&calls[..], &filler, &values].concat()]
}

fn pointer(codec: Codec, pages: u8, encoded: &[u8]) -> NodePointer {
    NodePointer {
        offset: 1 << 20,
        birth: 3,
        checksum: checksum(encoded),
        encoded_len: encoded.len() as u32,
        tier: 0,
        pages,
        codec,
    }
}

fn node_pointers() -> Vec<Vec<u8>> {
    let mut plain = vec![0];
    pointer(Codec::None, 1, &[9; 4096]).encode(&mut plain);
    pointer(Codec::None, 16, &[9; 65536]).encode(&mut plain);
    let mut packed = vec![4];
    pointer(Codec::Lz4, 1, b"some bytes").encode(&mut packed);
    pointer(Codec::Zstd, 16, b"some other bytes").encode(&mut packed);
    vec![plain, packed]
}

/// For each codec a node that compresses: once its encoding, once its content.
fn codecs() -> Vec<Vec<u8>> {
    let node: Vec<u8> = (0..PageSize::MIN.bytes()).map(|at| (at / 97) as u8).collect();
    let mut inputs = Vec::new();
    for (number, codec) in [(1, Codec::Lz4), (2, Codec::Zstd)] {
        let mut encoded = Vec::new();
        codec.encode(&node, &mut encoded);
        inputs.push([&[number << 4][..], &encoded].concat());
        inputs.push([&[number << 4][..], &node].concat());
    }
    inputs
}

fn superblocks() -> Vec<Vec<u8>> {
    let superblock = Superblock {
        store: 0x1234,
        generation: 7,
        cut: 99,
        synced: 98,
        page_size: PageSize::MIN,
        tiers: 1,
        map: [0; MAP_POINTER_BYTES],
        payload: b"payload".to_vec(),
    };
    let sealed = superblock.encode(1);
    let open = &sealed[..256];
    vec![[&[2][..], &sealed].concat(), [&[3][..], open].concat()]
}
