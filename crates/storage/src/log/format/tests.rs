//! Tests of the exact bytes of the log format.

use super::*;
use proptest::prelude::*;

const HEADER: SegmentHeader = SegmentHeader {
    slot: 3,
    number: 0x1122,
    incarnation: 7,
    base: 99,
    boot: BootId([0xb0; 16]),
    generation: 5,
    synced: 98,
    len: 1 << 20,
    identity: 0xfeed,
    lane: 2,
    mapped: true,
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_header_block_of_version_2_does_not_change() {
    let block = HEADER.encode();
    assert_eq!(block.len(), BLOCK_BYTES);
    assert_eq!(
        hex(&block[..96]),
        "616c6c75766c6f67020000000300000022110000000000000700000000000000\
         6300000000000000b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b00500000000000000\
         62000000000000000000100000000000edfe0000000000000200010000000000"
    );
    assert!(block[96..504].iter().all(|&byte| byte == 0));
    assert_eq!(hex(&block[504..]), "fe22a5a2604f1c75");
}

#[test]
fn a_record_of_version_2_does_not_change() {
    let header = RecordHeader {
        len: 5,
        count: 2,
        first: 100,
        synced: 98,
        complete: 97,
        kind: RecordKind::Data,
    };
    let bytes = header.encode(HEADER.seed(), 512, b"hello");
    assert_eq!(
        hex(&bytes),
        "13489716ab18b7cc0500000002000000640000000000000062000000000000000100000003000000"
    );
}

#[test]
fn records_without_payload_say_as_much_in_as_many_bytes() {
    let void = RecordHeader {
        len: 0,
        count: 1 << 40,
        first: 100,
        synced: 98,
        complete: 99,
        kind: RecordKind::Void,
    };
    let seal = RecordHeader {
        count: 0,
        complete: 1 << 50,
        kind: RecordKind::Seal,
        ..void
    };
    for header in [void, seal] {
        let bytes = header.encode(HEADER.seed(), 512, b"");
        assert_eq!(RecordHeader::decode(&bytes), Some(header));
    }
    // These headers are invalid: the watermark is not below the record, or a sequence number
    // exceeds the maximum.
    for bad in [
        RecordHeader {
            complete: 100,
            ..void
        },
        RecordHeader { count: 0, ..void },
        RecordHeader {
            count: u64::MAX,
            ..void
        },
    ] {
        assert_eq!(RecordHeader::decode(&bad.encode(1, 512, b"")), None, "{bad:?}");
    }
}

#[test]
fn the_mark_of_version_3_does_not_change_and_one_copy_is_enough() {
    let mark = LogMark {
        closed: true,
        incarnation: 3,
        generation: 5,
        synced: 99,
        identity: 0xfeed,
        complete: 101,
        released: 7,
        turn: 12,
        lanes: vec![Some(4), None, Some(9)],
        time_ms: 0x0102_0304,
    };
    let bytes = mark.encode();
    assert_eq!(bytes.len(), 2 * BLOCK_BYTES);
    assert_eq!(
        hex(&bytes[..96]),
        "616c6c75766d726b030000000100000003000000000000000500000000000000\
         6300000000000000edfe00000000000065000000000000000700000000000000\
         0c00000000000000090000000000000006000000000000000100000000000000"
    );
    assert_eq!(hex(&bytes[504..512]), "f11ffc0f26e67faf");
    assert_eq!(hex(&bytes[336..344]), "0403020100000000");
    assert_eq!(bytes[..512], bytes[512..]);
    let mut before = bytes[..512].to_vec();
    before[8] = 2;
    before[336..344].fill(0);
    let sum = checksum(&before[..504]);
    before[504..].copy_from_slice(&sum.to_le_bytes());
    let known = LogMark {
        time_ms: 0,
        ..mark.clone()
    };
    assert_eq!(LogMark::decode(&before.repeat(2)), Ok(known), "version 2 is read");
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(LogMark::decode(&bad), Ok(mark.clone()), "bit {bit}");
        bad[(bit / 8 + 512) % 1024] ^= 4;
        assert!(
            LogMark::decode(&bad).is_err(),
            "bit {bit} and one of the other copy"
        );
    }
    assert!(
        LogMark::decode(&[0; 2 * BLOCK_BYTES]).is_err(),
        "zeros are no mark"
    );
    let newer = LogMark {
        turn: 13,
        ..mark.clone()
    };
    let torn = [&bytes[..512], &newer.encode()[512..]].concat();
    assert_eq!(LogMark::decode(&torn), Ok(newer), "the newer copy of two");
}

#[test]
fn every_flipped_bit_of_a_header_block_is_found() {
    let block = HEADER.encode();
    assert_eq!(SegmentHeader::decode(&block), DecodedHeader::Segment(HEADER));
    for bit in 0..block.len() * 8 {
        let mut bad = block.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(
            matches!(SegmentHeader::decode(&bad), DecodedHeader::Damaged(_)),
            "bit {bit}"
        );
    }
    assert_eq!(SegmentHeader::decode(&[0; BLOCK_BYTES]), DecodedHeader::Empty);
    assert!(matches!(
        SegmentHeader::decode(&block[..511]),
        DecodedHeader::Damaged(_)
    ));
}

#[test]
fn a_sound_block_of_another_version_is_named_as_such() {
    for version in [1, 3] {
        let mut block = HEADER.encode();
        block[8] = version;
        let sum = checksum(&block[..CHECKSUM_AT]);
        block[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(
            SegmentHeader::decode(&block),
            DecodedHeader::Other(u32::from(version))
        );
    }
}

#[test]
fn a_record_verifies_only_at_its_own_place() {
    let header = RecordHeader {
        len: 5,
        count: 1,
        first: 9,
        synced: 0,
        complete: 8,
        kind: RecordKind::Data,
    };
    let mut bytes = header.encode(HEADER.seed(), 1024, b"hello").to_vec();
    bytes.extend_from_slice(b"hello");
    assert_eq!(RecordHeader::decode(&bytes), Some(header));
    assert!(header.verify(HEADER.seed(), 1024, &bytes));
    assert!(!header.verify(HEADER.seed(), 1032, &bytes), "another position");
    for other in [
        SegmentHeader { number: 1, ..HEADER },
        SegmentHeader {
            incarnation: 8,
            ..HEADER
        },
        SegmentHeader { slot: 4, ..HEADER },
        SegmentHeader {
            identity: 1,
            ..HEADER
        },
    ] {
        assert!(!header.verify(other.seed(), 1024, &bytes), "{other:?}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let verified =
            RecordHeader::decode(&bad).is_some_and(|header| header.verify(HEADER.seed(), 1024, &bad));
        assert!(!verified, "bit {bit}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoders_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = SegmentHeader::decode(&bytes);
        let _ = LogMark::decode(&bytes);
        if let Some(header) = RecordHeader::decode(&bytes) {
            let _ = header.verify(1, 512, &bytes);
        }
    }

    #[test]
    fn what_is_encoded_is_decoded(
        len in 0u32..100,
        count in 1u32..,
        first in 1..IMPOSSIBLE - (1 << 32),
        synced in 0..IMPOSSIBLE,
        lag in 1u64..1 << 32,
    ) {
        let (count, complete) = (u64::from(count), first.saturating_sub(lag));
        let header = RecordHeader { len, count, first, synced, complete, kind: RecordKind::Data };
        let payload = vec![7; len as usize];
        let mut bytes = header.encode(3, 512, &payload).to_vec();
        bytes.extend_from_slice(&payload);
        prop_assert_eq!(RecordHeader::decode(&bytes), Some(header));
        prop_assert!(header.verify(3, 512, &bytes));
    }

    #[test]
    fn an_impossibly_high_number_is_not_read(number in IMPOSSIBLE..) {
        let complete = number - 1;
        let record = RecordHeader { len: 0, count: 1, first: number, synced: 0, complete, kind: RecordKind::Void };
        prop_assert_eq!(RecordHeader::decode(&record.encode(3, 512, b"")), None);
        let segment = SegmentHeader { incarnation: number, ..HEADER };
        prop_assert!(matches!(SegmentHeader::decode(&segment.encode()), DecodedHeader::Damaged(_)));
    }
}
