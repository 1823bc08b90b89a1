//! Tests of the encoding of branches, and of what a branch sees of records.

use super::format::*;
use crate::records::RecordSpace;
use crate::types::Timestamp;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const SPACES: [RecordSpace; 8] = RecordSpace::ALL;

#[test]
fn the_bytes_of_branches_of_version_1_do_not_change() {
    let header = BranchHeader {
        version: VERSION,
        number: BranchNumber(0x0102),
        parent: Some(BranchNumber(3)),
        created: Timestamp {
            seconds: -1,
            nanoseconds: 999_999_999,
        },
    };
    let bytes = "010002010000000000000300000000000000ffffffffffffffffffc99a3b";
    assert_eq!(hex(&header.encode()), bytes);
    assert_eq!(BranchHeader::decode(&header.encode()), Ok(header));
    assert_eq!(header_key("ab"), b"bab");
    let number = BranchNumber(0x0102);
    let keys = SPACES.map(|space| hex(&record_key(number, space, b"k")));
    let marks = ["01", "02", "03", "04", "05", "06", "07", "08"];
    assert_eq!(keys, marks.map(|mark| format!("720000000000000102{mark}6b")));
    let range = range_key(number, RecordSpace::Names, b"lo", Some(b"high"));
    assert_eq!(hex(&range), "6400000000000001020100026c6f68696768");
    let kinds = [
        BranchRecordKind::Deleted,
        BranchRecordKind::Written,
        BranchRecordKind::Merged,
        BranchRecordKind::Depended,
    ];
    let records = kinds.map(|kind| hex(&encode_record(kind, b"")));
    assert_eq!(records, ["00", "01", "02", "03"]);
}

#[test]
fn keys_of_branches_are_split_into_what_they_were_made_of() {
    let number = BranchNumber(u64::MAX - 1);
    for space in SPACES {
        for key in [&b""[..], b"k", &[255; 300]] {
            let of_record = record_key(number, space, key);
            assert_eq!(split_record_key(&of_record), Ok((space, key)));
            assert_eq!(number_in(&of_record), Ok(number));
            assert!(of_record < records_end(number, space));
            for high in [None, Some(&b"z"[..])] {
                let range = range_key(number, space, key, high);
                assert_eq!(split_range_key(&range), Ok((space, key, high)));
                let (low, end) = all_ranges(number);
                assert!(low <= range && range < end);
            }
            let (low, end) = all_records(number);
            assert!(low <= of_record && of_record < end);
        }
    }
}

#[test]
fn other_bytes_of_branches_are_damage_and_no_panic() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
        let _ = (
            BranchHeader::decode(&bytes),
            decode_kind(&bytes),
            number_in(&bytes),
        );
        let _ = (split_record_key(&bytes), split_range_key(&bytes));
        let _ = decode_any(&bytes, &bytes);
    }
    for bytes in [&[0, 1][..], &[3, 1], &[4], &[255]] {
        assert!(decode_kind(bytes).is_err(), "{bytes:?}");
    }
    let newer = (VERSION + 1).to_le_bytes();
    assert_eq!(BranchHeader::decode(&newer).unwrap().version, VERSION + 1);
}
