//! Tests of the encoding.

use super::RecordSpace;
use super::format::*;
use super::locality::Locality;
use crate::types::{ContentOrder, FileKind, Inode, Timestamp};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn time(seconds: i64) -> Timestamp {
    Timestamp {
        seconds,
        nanoseconds: 999_999_999,
    }
}

fn locality() -> Locality {
    Locality::default().child(Inode(7), FileKind::Regular, b"xyz")
}

fn record() -> InodeRecord {
    InodeRecord {
        kind: FileKind::Regular,
        mode: 0o4755,
        user: 1000,
        group: 100,
        links: 2,
        generation: 3,
        size: 5,
        blocks: 0,
        tail: 0,
        device: 0x0801,
        is_extended: true,
        created: time(-1),
        accessed: time(1),
        modified: time(2),
        changed: time(3),
        known_as: (1, b"name".to_vec()),
        is_compressed: false,
        locality: Locality::default(),
        inline: Some(b"hello".to_vec()),
    }
}

#[test]
fn the_bytes_of_version_1_do_not_change() {
    let header = HeaderRecord {
        version: 1,
        block_bytes: 16 << 10,
        inline_bytes: 2048,
        order: ContentOrder::ByInode,
    };
    assert_eq!(hex(&header.encode()), "414c4c5546494c4501000040000000080000");
    let fixed = "0103ed09e803000064000000020000000300000000000000050000000000000000000000000000000000000001\
                 08000000000000ffffffffffffffffffc99a3b0100000000000000ffc99a3b0200000000000000ffc99a3b03\
                 00000000000000ffc99a3b010000000000000004";
    assert_eq!(hex(&record().encode()), format!("{fixed}6e616d6568656c6c6f"));
    let inode = Inode(0x0102);
    assert_eq!(hex(&name_key(inode, b"ab")), "00000000000001026162");
    assert_eq!(
        hex(&block_key(&Locality::default(), inode, 3)),
        "00000000000001020000000000000003"
    );
    assert_eq!(hex(&time_key(inode, CHANGED)), "000000000000010202");
    assert_eq!(hex(&orphan_key(inode)), "6f0000000000000102");
    assert_eq!(hex(&parent_key(inode)), "700000000000000102");
    assert_eq!(hex(&entry(inode, FileKind::Socket)), "020100000000000005");
    assert_eq!(hex(&parent(inode, b"x")), "020100000000000078");
    assert_eq!(hex(&ordered_time(time(1))), "80000000000000013b9ac9ff");
    assert_eq!(hex(&count(-2)), "feffffffffffffff");
    assert_eq!(hex(&number(7)), "0700000000000000");
    assert_eq!(
        (orphan(OrphanKind::Unlinked), orphan(OrphanKind::Unnamed)),
        ([1], [2])
    );
}

#[test]
fn the_bytes_of_version_2_do_not_change() {
    let header = HeaderRecord {
        version: 2,
        block_bytes: 4 << 10,
        inline_bytes: 0,
        order: ContentOrder::ByPath,
    };
    assert_eq!(hex(&header.encode()), "414c4c5546494c450200001000000000000001");
    assert_eq!(HeaderRecord::decode(&header.encode()), Ok(header));
    let by_path = InodeRecord {
        is_compressed: false,
        locality: locality(),
        ..record()
    };
    let (old, new) = (hex(&record().encode()), hex(&by_path.encode()));
    assert_eq!(
        new,
        format!("0107{}0478797a0068656c6c6f", &old[4..old.len() - 10])
    );
    let key = hex(&block_key(&locality(), Inode(0x0102), 3));
    assert_eq!(key, "78797a0000000000000001020000000000000003");
}

#[test]
fn what_is_encoded_is_decoded() {
    let inline = record();
    let blocks = InodeRecord {
        inline: None,
        blocks: 1,
        tail: 5,
        is_extended: false,
        known_as: (0, Vec::new()),
        ..record()
    };
    let by_path = InodeRecord {
        is_compressed: false,
        locality: locality(),
        ..record()
    };
    for record in [inline, blocks, by_path] {
        assert_eq!(InodeRecord::decode(&record.encode()), Ok(record));
    }
    for kind in [
        FileKind::Regular,
        FileKind::Directory,
        FileKind::Symlink,
        FileKind::Pipe,
        FileKind::Socket,
        FileKind::BlockDevice,
        FileKind::CharacterDevice,
    ] {
        assert_eq!(decode_entry(&entry(Inode(9), kind)), Ok((Inode(9), kind)));
    }
    for seconds in [i64::MIN, -1, 0, i64::MAX] {
        assert_eq!(
            decode_ordered_time(&ordered_time(time(seconds))),
            Ok(time(seconds))
        );
    }
    assert!(ordered_time(time(-1)) < ordered_time(time(0)) && ordered_time(time(0)) < ordered_time(time(1)));
    for locality in [Locality::default(), locality()] {
        let key = block_key(&locality, Inode(1), 5);
        assert_eq!(split_block_key(&key), Ok((locality.as_bytes(), Inode(1), 5)));
        assert!(key < blocks_end(&locality, Inode(1)).unwrap());
        assert_eq!(owner_of(RecordSpace::Blocks, &key), Ok(Inode(1)));
    }
    assert_eq!(decode_parent(&parent(Inode(4), b"x")), Ok((Inode(4), &b"x"[..])));
    assert_eq!(inode_end(Inode(1)), Some(inode_key(Inode(2))));
    assert_eq!(inode_end(Inode(u64::MAX)), None);
}

#[test]
fn other_bytes_are_damage_and_no_panic() {
    let bytes = InodeRecord {
        is_compressed: false,
        locality: locality(),
        ..record()
    };
    let bytes = bytes.encode();
    for length in 0..bytes.len() {
        assert!(InodeRecord::decode(&bytes[..length]).is_err(), "{length} bytes");
    }
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..20_000 {
        let mut changed = bytes.clone();
        let at = random.usize(..changed.len());
        changed[at] = random.u8(..);
        changed.truncate(random.usize(..=changed.len()));
        let _ = InodeRecord::decode(&changed);
        let _ = HeaderRecord::decode(&changed);
        let _ = (
            decode_entry(&changed),
            split_block_key(&changed),
            decode_parent(&changed),
        );
        let _ = (
            decode_count(&changed),
            decode_ordered_time(&changed),
            lettered_inode(&changed),
        );
        let _ = (decode_orphan(&changed), decode_number(&changed));
    }
    let mut newer = HeaderRecord {
        version: VERSION + 1,
        block_bytes: 0,
        inline_bytes: 0,
        order: ContentOrder::ByInode,
    };
    assert_eq!(HeaderRecord::decode(&newer.encode()), Ok(newer));
    newer.version = VERSION;
    assert!(HeaderRecord::decode(&newer.encode()).is_err(), "no block size");
}
