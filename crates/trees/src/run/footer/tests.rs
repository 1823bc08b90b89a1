use super::*;
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_storage::{DiskLocation, NodeCodec, NodePointer, OnDiskObject, PageSize};

fn details() -> RunMetadata {
    let extent = Extent {
        tier: 0,
        start: 8,
        units: 3,
    };
    RunMetadata {
        summary: RunSummary {
            records: 2,
            keys: 1,
            highest_sequence: 9,
            ..RunSummary::default()
        },
        low: b"a"[..].into(),
        high: b"z"[..].into(),
        last: b"y"[..].into(),
        root: vec![1, 2, 3],
        uses: vec![ExtentUse {
            extent,
            low: b"b"[..].into(),
            high: b"c"[..].into(),
            inherited: true,
            live: 77,
        }],
        range_deletes: RangeTombstoneIndex::new(&[(b"d".to_vec(), b"e".to_vec(), 5)]).into(),
    }
}

fn encoded(details: &RunMetadata) -> Vec<u8> {
    let mut bytes = Vec::new();
    let piece = |piece: &[u8]| -> Result<(), ()> {
        bytes.extend_from_slice(piece);
        Ok(())
    };
    details.encode(piece).unwrap();
    bytes
}

fn apart() -> RunFooter {
    let node = NodePointer {
        offset: 8192,
        birth: 3,
        checksum: 5,
        encoded_len: 4096,
        tier: 0,
        pages: 1,
        codec: NodeCodec::None,
    };
    let extent = details().uses[0].extent;
    RunFooter::Apart {
        in_last: true,
        pointer: ValuePointer {
            node,
            at: 0,
            len: 70_000,
        },
        extents: vec![(extent, 70_001)],
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_bytes_of_version_3_do_not_change() {
    let bytes = encoded(&details());
    let numbers = [2u64, 1, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0].map(|number| hex(&number.to_le_bytes()));
    let rest = "010000006101000000 7a0100000079 03000000010203 01000000 00 08000000 03000000 4d00000000000000 01 \
                0100000062 0100000063 02 06 000164 000165 01 000105";
    assert_eq!(hex(&bytes), [numbers.concat(), rest.replace(' ', "")].concat());
    let footer = RunFooter::Whole {
        in_last: false,
        details: vec![9, 8],
    };
    let mut bytes = Vec::new();
    footer.encode(&mut bytes);
    assert_eq!(hex(&bytes), "03030000020000000908");
    let mut bytes = Vec::new();
    apart().encode(&mut bytes);
    assert_eq!(
        hex(&bytes),
        "03030101701101000020000000000000030000000000000005000000000000000010000000010000000000007011010001000000\
         0008000000030000007111010000000000"
    );
}

#[test]
fn footers_come_back_and_wrong_ones_are_refused() {
    let place = DiskLocation::new(OnDiskObject::Node, "test", 0);
    let bytes = encoded(&details());
    assert_eq!(RunMetadata::decode(&bytes), Ok(details()));
    for end in 0..bytes.len() {
        assert!(RunMetadata::decode(&bytes[..end]).is_err());
    }
    for footer in [
        apart(),
        RunFooter::Whole {
            in_last: true,
            details: bytes,
        },
    ] {
        let mut bytes = Vec::new();
        footer.encode(&mut bytes);
        let decode = |bytes: &[u8]| RunFooter::decode(bytes, &place, PageSize::MIN);
        assert_eq!(decode(&bytes), Ok(footer));
        for end in 0..bytes.len() {
            assert!(decode(&bytes[..end]).is_err());
        }
        for at in 0..4 {
            let mut bad = bytes.clone();
            bad[at] = 7;
            assert!(decode(&bad).is_err(), "byte {at}");
        }
    }
}
