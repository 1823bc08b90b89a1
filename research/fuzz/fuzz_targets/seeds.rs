//! Writes the initial corpus: for each target, a few inputs that lead to valid encodings.
#![allow(clippy::disallowed_methods)]

use std::fs;
use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let corpus = PathBuf::from(std::env::args().nth(1).expect("usage: seeds FOLDER"));
    for (target, inputs) in [
        ("affine", research_trees::affine::examples()),
        ("cuckoo", cuckoos()),
        ("insertion", insertion_leaves()),
        ("pdam", pdam_trees()),
        ("perfect", perfect_hashes()),
        ("silt", records_and_slots()),
    ] {
        let folder = corpus.join(target);
        fs::create_dir_all(&folder)?;
        for (index, input) in inputs.iter().enumerate() {
            fs::write(folder.join(format!("seed-{index}")), input)?;
        }
    }
    Ok(())
}

/// An encoded filter, and tables of both variants.
fn cuckoos() -> Vec<Vec<u8>> {
    use research_filters::cuckoo::{Shape, Table, encode};
    let mut table = Table::new(Shape::xor(2, 9).expect("a usual shape"), 1);
    for key in 0..8u64 {
        table.insert(key << 40 | key, 0).expect("half full");
    }
    let keys: Vec<u8> = (0..200).collect();
    let with = |start: [u8; 3]| [&start[..], &keys].concat();
    vec![encode(&table), with([2, 6, 0]), with([9, 14, 0]), with([8, 3, 9])]
}

/// An encoded index, and keys with damage.
fn perfect_hashes() -> Vec<Vec<u8>> {
    use research_filters::perfect::Builder;
    let mut builder = Builder::new(9, 2, |_, _| {}).expect("a usual shape");
    for key in 0..200u8 {
        builder.push(&[key; 9]).expect("keys in order");
    }
    let keys: Vec<u8> = (0..240).map(|byte: u8| byte.wrapping_mul(91)).collect();
    let with = |start: [u8; 2]| [&start[..], &keys].concat();
    vec![
        builder.finish().expect("distinct keys"),
        with([3, 0]),
        with([0, 9]),
    ]
}

/// A log and a slot, preceded by the number of bytes of a slot.
fn records_and_slots() -> Vec<Vec<u8>> {
    use research_hashes::silt::log::{Kind, Record};
    use research_hashes::silt::slots::{Layout, Slot, State};
    let (mut log, mut slot) = (vec![0], vec![64]);
    for (kind, value) in [(Kind::Put, &b"value"[..]), (Kind::Delete, b"")] {
        let record = Record {
            kind,
            key: b"key",
            value,
        };
        record.encode(1, &mut log).expect("short");
    }
    let layout = Layout {
        store: 1,
        slot_bytes: 64,
    };
    let of_key = Slot {
        state: State::Value,
        key: b"key",
        value: b"value",
    };
    layout.encode(Some(&of_key), &mut slot).expect("short");
    vec![log, slot]
}

/// The header of a tree for a parallel device, and the entries of a small tree.
fn pdam_trees() -> Vec<Vec<u8>> {
    use research_trees::pdam::Shape;
    use research_trees::pdam::format::Header;
    let shape = Shape::new(512, 8, 8, 8).expect("it is right");
    let header = Header {
        shape,
        id: 7,
        keys: 1000,
    };
    let entries = (0..200_u32).flat_map(u32::to_be_bytes);
    vec![
        header.encode(),
        [1, 3, 4, 40].into_iter().chain(entries).collect(),
    ]
}

/// A leaf below an insertion buffer, without its checksum.
fn insertion_leaves() -> Vec<Vec<u8>> {
    let record = |key: &[u8], value: &[u8]| (key.into(), value.into());
    let mut page = [0; 128];
    let records = [
        record(b"", b""),
        record(b"Elbe", b"1094"),
        record(b"Oder", &[7; 70]),
    ];
    research_trees::insertion::format::encode(&records, 0, 0, &mut page);
    vec![page[8..].to_vec()]
}
