//! The bytes of the records in the upper file system.

use crate::ErrorKind;
use crate::overlay::format::*;
use crate::types::{FileKind, Inode, Timestamp};

const TIME: Timestamp = Timestamp {
    seconds: -2,
    nanoseconds: 7,
};

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_bytes_of_version_1_do_not_change() {
    let header = OverlayHeader {
        phase: OverlayPhase::Committed,
        nesting: 2,
        next: 3,
        root_generation: 4,
        root_modified: TIME,
        root_accessed: TIME,
        name: b"tx".to_vec(),
    };
    let bytes = encode_header(&header);
    let time = "feffffffffffffff07000000";
    let numbers = "03000000000000000400000000000000";
    assert_eq!(
        hexadecimal(&bytes),
        format!("414c4c55564f56010102{numbers}{time}{time}027478")
    );
    assert_eq!(decode_header(&bytes).unwrap(), header);
    let record = InodeRecord {
        kind: FileKind::Symlink,
        has_new_contents: true,
        is_removed: true,
        is_unnamed: true,
        links: -1,
        parent: Some(Inode(5)),
        lower_bytes: 6,
        created: TIME,
        generation: 8,
    };
    let bytes = encode_record(&record);
    let numbers = "ffffffffffffffff05000000000000000600000000000000";
    assert_eq!(
        hexadecimal(&bytes),
        format!("010307{numbers}{time}0800000000000000")
    );
    assert_eq!(decode_record(&bytes).unwrap(), record);
    assert_eq!(
        encode_marker(NameMarker::Present(Inode(0x4f), FileKind::Directory)),
        b"2:4f"
    );
    assert_eq!(
        decode_marker(b"2:4f").unwrap(),
        NameMarker::Present(Inode(0x4f), FileKind::Directory)
    );
    assert_eq!(decode_marker(b"-").unwrap(), NameMarker::Absent);
}

#[test]
fn dependencies_are_read_as_they_were_written_and_their_bytes_do_not_change() {
    let found = LowerIdentity {
        inode: Inode(9),
        kind: FileKind::Regular,
        generation: 1,
        mode: 2,
        user: 3,
        group: 4,
        device: 5,
        size: 6,
        modified: TIME,
        changed: TIME,
    };
    let name = |found| Dependency::Name {
        directory: Inode(1),
        name: b"a".to_vec(),
        found,
    };
    let listing = Dependency::Listing {
        directory: Inode(1),
        checksum: 2,
    };
    let all = [name(Some(found)), name(None), listing];
    let bytes: Vec<u8> = all.iter().flat_map(encode_dependency).collect();
    let (mut at, mut read) = (0, Vec::new());
    while at < bytes.len() {
        let (dependency, length) = decode_dependency(&bytes[at..]).unwrap();
        read.push(dependency);
        at += length;
    }
    assert_eq!(read, all);
    assert_eq!(alluvium_base::checksum(&bytes), CHECKSUM_OF_DEPENDENCIES);
}

#[test]
fn damage_is_an_error_and_no_panic() {
    assert_eq!(
        decode_header(b"ALLUVOV\x02").unwrap_err().kind(),
        ErrorKind::NewerVersion
    );
    for bytes in [&b""[..], b"ALLUVOV\x01", b"something else", b"\x01\x09", b"\x02"] {
        assert!(decode_header(bytes).is_err() && decode_record(bytes).is_err());
        assert!(decode_dependency(bytes).is_err() && decode_marker(bytes).is_err());
    }
}

const CHECKSUM_OF_DEPENDENCIES: u64 = 13_618_941_434_688_622_722;
