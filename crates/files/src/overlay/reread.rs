//! Decodes arbitrary bytes as each kind of record of an overlay, for fuzzing.

use super::OverlayPhase;
use super::format::{
    Dependency, InodeRecord, LowerIdentity, NameMarker, OverlayHeader, decode_dependency, decode_header,
    decode_marker, decode_number_name, decode_record, encode_dependency, encode_header, encode_marker,
    encode_record, number_name,
};
use crate::types::{FileKind, Inode, Timestamp};

/// Decodes bytes as each kind of record, and returns how many kinds accept them. What is decoded is
/// encoded and decoded again, and must be the same.
pub(crate) fn reread(bytes: &[u8]) -> usize {
    let mut found = 0;
    if let Ok(header) = decode_header(bytes) {
        assert!(bytes.starts_with(&encode_header(&header)));
        found += 1;
    }
    if let Ok(record) = decode_record(bytes) {
        assert_eq!(decode_record(&encode_record(&record)).ok(), Some(record));
        found += 1;
    }
    if let Ok((dependency, length)) = decode_dependency(bytes) {
        assert_eq!(Some(&encode_dependency(&dependency)[..]), bytes.get(..length));
        found += 1;
    }
    if let Ok(marker) = decode_marker(bytes) {
        assert_eq!(decode_marker(&encode_marker(marker)).ok(), Some(marker));
        found += 1;
    }
    if let Ok(inode) = decode_number_name(bytes) {
        assert_eq!(decode_number_name(&number_name(inode)).ok(), Some(inode));
        found += 1;
    }
    found
}

/// Returns a record of each kind.
pub(crate) fn record_examples() -> Vec<Vec<u8>> {
    let time = Timestamp {
        seconds: 1,
        nanoseconds: 2,
    };
    let header = OverlayHeader {
        phase: OverlayPhase::Committed,
        nesting: 1,
        next: 20,
        root_generation: 3,
        root_modified: time,
        root_accessed: time,
        name: b"deploy".to_vec(),
    };
    let record = InodeRecord {
        kind: FileKind::Directory,
        has_new_contents: true,
        is_removed: false,
        is_unnamed: true,
        links: -1,
        parent: Some(Inode(1)),
        lower_bytes: 100,
        created: time,
        generation: 4,
    };
    let found = LowerIdentity {
        inode: Inode(12),
        kind: FileKind::Regular,
        generation: 5,
        mode: 0o600,
        user: 1,
        group: 2,
        device: 0,
        size: 40,
        modified: time,
        changed: time,
    };
    let name = |found| Dependency::Name {
        directory: Inode(1),
        name: b"letter".to_vec(),
        found,
    };
    let listing = Dependency::Listing {
        directory: Inode(1),
        checksum: 77,
    };
    vec![
        encode_header(&header),
        encode_record(&record),
        encode_dependency(&name(Some(found))),
        encode_dependency(&name(None)),
        encode_dependency(&listing),
        encode_marker(NameMarker::Absent),
        encode_marker(NameMarker::Present(Inode(18), FileKind::Pipe)),
        number_name(Inode(18)),
    ]
}
