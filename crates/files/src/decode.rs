//! Decodes arbitrary bytes as each kind of record of files, branches and overlays, for fuzzing.

use crate::overlay;
use crate::records::RecordSpace;
use crate::records::branch::format as branches;
use crate::records::format as files;
use crate::records::locality::Locality;
use crate::store::{reread_stream, stream_examples};
use crate::types::{ContentOrder, FileKind, Inode, Timestamp};

/// Decodes bytes as each kind of key and value, and returns how many kinds accept them. Whatever is
/// decoded is encoded again and compared with the input.
///
/// ```
/// use alluvium_files::{decode_records, record_examples};
/// assert!(record_examples().iter().all(|example| decode_records(example) > 0));
/// assert_eq!(decode_records(b""), 1);
/// ```
///
/// # Panics
/// If the decoded content is not encoded to the same bytes again.
#[must_use]
pub fn decode_records(bytes: &[u8]) -> usize {
    values_of_files(bytes)
        + keys_of_files(bytes)
        + records_of_branches(bytes)
        + overlay::reread(bytes)
        + reread_stream(bytes)
}

/// Returns records that [`decode_records`] accepts, at least one of each kind.
#[must_use]
pub fn record_examples() -> Vec<Vec<u8>> {
    let mut examples = overlay::record_examples();
    examples.extend(stream_examples());
    let header = files::HeaderRecord {
        version: files::VERSION,
        block_bytes: 4096,
        inline_bytes: 100,
        order: ContentOrder::ByPath,
    };
    let time = Timestamp {
        seconds: -5,
        nanoseconds: 999_999_999,
    };
    let inode = files::InodeRecord {
        kind: FileKind::Regular,
        mode: 0o644,
        user: 1000,
        group: 100,
        links: 2,
        generation: 3,
        size: 5,
        blocks: 0,
        tail: 0,
        device: 0,
        is_extended: true,
        created: time,
        accessed: time,
        modified: time,
        changed: time,
        known_as: (1, b"name".to_vec()),
        inline: Some(b"hello".to_vec()),
        is_compressed: true,
        locality: Locality::default(),
    };
    let number = branches::BranchNumber(7);
    let branch = branches::BranchHeader {
        version: branches::VERSION,
        number,
        parent: Some(branches::BranchNumber(3)),
        created: time,
    };
    let record = branches::encode_record(branches::BranchRecordKind::Written, &inode.encode());
    examples.extend([
        header.encode(),
        inode.encode(),
        files::entry(Inode(9), FileKind::Symlink),
        files::count(-3).to_vec(),
        files::number(12).to_vec(),
        files::ordered_time(time).to_vec(),
        files::orphan(files::OrphanKind::Unnamed).to_vec(),
        files::parent(Inode(4), b"directory"),
        files::name_key(Inode(4), b"name"),
        files::block_key(&Locality::default(), Inode(4), 70),
        files::orphan_key(Inode(5)),
        branch.encode(),
        record,
        branches::encode_record(branches::BranchRecordKind::Depended, b""),
        branches::record_key(number, RecordSpace::Names, b"key"),
        branches::range_key(number, RecordSpace::Names, b"low", Some(b"high")),
        branches::range_key(number, RecordSpace::System, b"", None),
    ]);
    examples
}

/// Returns 1 if something could be decoded, after it was checked.
fn checked<T, E>(decoded: Result<T, E>, check: impl FnOnce(T)) -> usize {
    decoded.map_or(0, |value| {
        check(value);
        1
    })
}

/// Asserts that the input begins with these bytes.
#[track_caller]
fn begins(bytes: &[u8], encoded: &[u8]) {
    assert!(
        bytes.starts_with(encoded),
        "{} is decoded and encoded as {}",
        bytes.escape_ascii(),
        encoded.escape_ascii()
    );
}

fn values_of_files(bytes: &[u8]) -> usize {
    let found = [
        checked(files::HeaderRecord::decode(bytes), |header| {
            if header.version <= files::VERSION {
                begins(bytes, &header.encode());
            }
        }),
        checked(files::InodeRecord::decode(bytes), |inode| {
            assert_eq!(inode.encode(), bytes);
        }),
        checked(files::decode_entry(bytes), |(inode, kind)| {
            begins(bytes, &files::entry(inode, kind));
        }),
        checked(files::decode_count(bytes), |count| {
            begins(bytes, &files::count(count));
        }),
        checked(files::decode_number(bytes), |number| {
            begins(bytes, &files::number(number));
        }),
        checked(files::decode_ordered_time(bytes), |time| {
            assert_eq!(files::ordered_time(time), bytes);
        }),
        checked(files::decode_orphan(bytes), |kind| {
            assert_eq!(files::orphan(kind), bytes);
        }),
        checked(files::decode_parent(bytes), |(directory, name)| {
            assert_eq!(files::parent(directory, name), bytes);
        }),
    ];
    found.iter().sum()
}

fn keys_of_files(bytes: &[u8]) -> usize {
    let found = [
        checked(files::split_key(bytes), |(inode, rest)| {
            assert_eq!(files::name_key(inode, rest), bytes);
        }),
        checked(files::split_block_key(bytes), |(locality, inode, block)| {
            let key = files::block_key(&Locality::default(), inode, block);
            assert_eq!([locality, &key].concat(), bytes);
        }),
        checked(files::lettered_inode(bytes), |inode| {
            assert_eq!(files::orphan_key(inode)[1..], bytes[1..]);
        }),
    ];
    found.iter().sum()
}

fn records_of_branches(bytes: &[u8]) -> usize {
    let number = branches::number_in(bytes);
    let found = [
        checked(branches::BranchHeader::decode(bytes), |header| {
            if header.version <= branches::VERSION {
                begins(bytes, &header.encode());
            }
        }),
        checked(branches::decode_kind(bytes), |kind| {
            let value = bytes.get(branches::MARK_BYTES..).unwrap_or_default();
            assert!(bytes.is_empty() || branches::encode_record(kind, value) == bytes);
        }),
        checked(branches::split_record_key(bytes), |(space, key)| {
            let number = number.expect("a key with a keyspace has a number");
            assert_eq!(branches::record_key(number, space, key)[1..], bytes[1..]);
        }),
        checked(branches::split_range_key(bytes), |(space, low, high)| {
            let number = number.expect("a key with a keyspace has a number");
            assert_eq!(branches::range_key(number, space, low, high)[1..], bytes[1..]);
        }),
        checked(branches::decode_any(bytes, bytes), drop),
    ];
    found.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bytes_make_the_decoders_panic_or_lose_something() {
        let mut random = fastrand::Rng::with_seed(0xF11E);
        let examples = record_examples();
        let mut accepted = 0;
        for round in 0..120_000 {
            let mut bytes = match round % 2 {
                0 => (0..random.usize(..130)).map(|_| random.u8(..)).collect(),
                _ => examples[random.usize(..examples.len())].clone(),
            };
            for _ in 0..random.usize(..4) {
                match (random.u8(..4), bytes.len()) {
                    (_, 0) | (0, _) => bytes.push(random.u8(..)),
                    (1, length) => bytes.truncate(random.usize(..length)),
                    (_, length) => bytes[random.usize(..length)] = random.u8(..),
                }
            }
            accepted += usize::from(decode_records(&bytes) > 0);
        }
        assert!(accepted > 10_000, "{accepted}");
    }
}
