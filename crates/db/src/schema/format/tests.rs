//! Tests of the bytes that are stored, and of those that are refused.

use super::*;
use crate::options::{Compression, LevelsOptions, PagedOptions};

#[test]
fn keyspaces_are_ranges_in_the_order_of_their_numbers() {
    let numbers = [0, 1, 239, 240, 241, 255, 256, 65_535, 65_536, 1 << 24, u32::MAX];
    for pair in numbers.windows(2) {
        let low = tree_key(&prefix(pair[0]), &[0xff; 9]);
        assert!(low < prefix(pair[1]), "{pair:?}");
    }
    for number in numbers {
        let key = tree_key(&prefix(number), b"user");
        let (len, id) = split(&key).unwrap();
        assert_eq!((id, &key[len..]), (number, &b"user"[..]));
        assert!(len <= MAX_PREFIX);
    }
    assert_eq!(split(b""), None);
    assert_eq!(split(&[241, 1]), None, "it ends within the number");
    assert_eq!(split(&[250, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), None);
}

#[test]
fn the_bytes_of_a_record_are_these() {
    let mut record = Vec::new();
    encode_one(&mut record, &[7], b"ab", MessageKind::Put, 0, b"xyz");
    encode_one(&mut record, &[7], b"ab", MessageKind::Put, 258, b"");
    encode_one(&mut record, &[7], b"c", MessageKind::Delete, 0, b"");
    encode_one(&mut record, &[7], b"c", MessageKind::Merge, 0, b"1");
    encode_range(&mut record, &[7, 1], &[8]);
    encode_ingest(&mut record, &[7, 2], &[7, 9]);
    encode_volatile(&mut record);
    let expected = b"\x00\x03\x07ab\x03xyz\x04\x03\x07ab\x02\x01\0\0\0\0\0\0\0\x01\x02\x07c\x02\x02\x07c\x011\x03\x02\x07\x01\x01\x08\x05\x02\x07\x02\x02\x07\x09\x06\0";
    assert_eq!(record, expected);
    let one = |key, kind, expires_ms, operand| LogWrite::One {
        key,
        kind,
        expires_ms,
        operand,
    };
    let writes: Vec<_> = LogWriteIter::new(&record).map(Result::unwrap).collect();
    assert_eq!(
        writes,
        [
            one(b"\x07ab", MessageKind::Put, 0, b"xyz"),
            one(b"\x07ab", MessageKind::Put, 258, b""),
            one(b"\x07c", MessageKind::Delete, 0, b""),
            one(b"\x07c", MessageKind::Merge, 0, b"1"),
            LogWrite::Range {
                start: &[7, 1],
                end: &[8]
            },
            LogWrite::Ingest {
                first: &[7, 2],
                last: &[7, 9]
            },
            LogWrite::Volatile,
        ]
    );
    let (mut head, mut whole) = (record.clone(), record.clone());
    encode_head(&mut head, b"\x01", b"k", MessageKind::Put, 7, 4);
    encode_one(&mut whole, b"\x01", b"k", MessageKind::Put, 7, b"tail");
    assert!(
        LogWriteIter::new(&head)
            .before(b"tail")
            .eq(LogWriteIter::new(&whole))
    );
    assert_eq!(
        LogWriteIter::new(&whole)
            .last()
            .unwrap()
            .map(|write| match write {
                LogWrite::One { operand, .. } => operand,
                _ => b"",
            }),
        Ok(&b"tail"[..])
    );
    for len in 0..record.len() {
        assert!(LogWriteIter::new(&record[..len]).count() <= 7, "it ends");
    }
    assert!(LogWriteIter::new(b"\x09\x01a").next().unwrap().is_err());
}

#[test]
fn a_keyspace_whose_values_are_gathered_has_a_format_that_older_versions_refuse() {
    let gathered = KeyspaceOptions::new().value_order(ValueOrder::Gathered);
    let value = encode_keyspace(300, 0, &gathered);
    assert_eq!(value, b"\x04\x2c\x01\0\0\0\0\xff\xff\xff\xff\0\0");
    let decoded = decode_catalog(&keyspace_key("blocks"), &value).unwrap();
    assert!(matches!(decoded, CatalogRecord::Keyspace { options, .. } if options == gathered));
    let newer = [&[6], &value[1..]].concat();
    let refused = decode_catalog(&keyspace_key("blocks"), &newer).unwrap_err();
    assert!(refused.contains("supports only 2 to 5"), "{refused}");
}

#[test]
fn a_keyspace_with_a_default_expiry_keeps_it_with_every_structure() {
    let key = keyspace_key("sessions");
    let expiring = KeyspaceOptions::new().default_expiry(Duration::from_millis(258));
    let value = encode_keyspace(300, 0, &expiring);
    let head = b"\x05\x2c\x01\0\0\0\0\xff\xff\xff\xff\0\0";
    assert_eq!(value, [&head[..], b"\0\0\x02\x01\0\0\0\0\0\0"].concat());
    let all = [
        (0, expiring.clone()),
        (0, expiring.clone().value_order(ValueOrder::Gathered)),
        (4, expiring.clone().structure("paged,bplus".parse().unwrap())),
        (3, expiring.structure("hashed,index=trie".parse().unwrap())),
    ];
    for (kind, asked) in all {
        let value = encode_keyspace(300, kind, &asked);
        let CatalogRecord::Keyspace { options, .. } = decode_catalog(&key, &value).unwrap() else {
            panic!("it is a keyspace")
        };
        assert_eq!(options, asked);
        for len in 0..value.len() {
            assert!(
                decode_catalog(&key, &value[..len]).is_err(),
                "{len} of {}",
                value.len()
            );
        }
    }
}

#[test]
fn options_of_pages_are_behind_those_that_there_were_before() {
    let key = keyspace_key("pages");
    let merging = KeyspaceOptions::new().structure(Structure::Paged(
        PagedOptions::bplus().node_bytes(512).value_bytes(24).merge(),
    ));
    let value_of_merging = encode_keyspace(300, 4, &merging);
    let text = b"\x24bplus,node=512,key=64,value=24,merge";
    assert_eq!(
        value_of_merging,
        [&b"\x03\x2c\x01\0\0\x04\0\xff\xff\xff\xff\0\0"[..], &text[..]].concat()
    );
    let decoded = decode_catalog(&key, &value_of_merging).unwrap();
    assert!(matches!(decoded, CatalogRecord::Keyspace { options, .. } if options == merging));
}

#[test]
fn the_bytes_of_the_catalog_are_these() {
    let options = KeyspaceOptions {
        compression: Compression::Lz4,
        value_threshold: Some(512),
        merge_operator: Some("add".to_owned()),
        compaction_filter: None,
        structure: Structure::Tiered,
        value_order: ValueOrder::Written,
        default_expiry: None,
    };
    let value = encode_keyspace(300, 7, &options);
    assert_eq!(value, b"\x02\x2c\x01\0\0\x07\x01\0\x02\0\0\x03add\0");
    let key = keyspace_key("rivers");
    assert_eq!(&key[..], b"\0krivers");
    assert_eq!(
        decode_catalog(&key, &value).unwrap(),
        CatalogRecord::Keyspace {
            name: "rivers".to_owned(),
            id: 300,
            kind: 7,
            options
        }
    );
    assert_eq!(
        decode_catalog(&snapshot_key("monday"), &encode_snapshot(9)).unwrap(),
        CatalogRecord::Snapshot {
            name: "monday".to_owned(),
            at: 9
        }
    );
    assert_eq!(
        decode_catalog(&next_key(), &encode_next(4)).unwrap(),
        CatalogRecord::Next(4)
    );
    let levels = KeyspaceOptions::new().structure(Structure::Levels(LevelsOptions::samt(8)));
    let value_of_levels = encode_keyspace(300, 2, &levels);
    let expected = b"\x03\x2c\x01\0\0\x02\0\xff\xff\xff\xff\0\0\x08samt,k=8";
    assert_eq!(value_of_levels, expected);
    let decoded = decode_catalog(&key, &value_of_levels).unwrap();
    assert!(matches!(decoded, CatalogRecord::Keyspace { options, .. } if options == levels));
    let volatile = KeyspaceOptions::new().structure(Structure::Volatile(1 << 20));
    let value_of_volatile = encode_keyspace(300, 8, &volatile);
    let expected_of_volatile = b"\x03\x2c\x01\0\0\x08\0\xff\xff\xff\xff\0\0\x071048576";
    assert_eq!(value_of_volatile, expected_of_volatile);
    let decoded = decode_catalog(&key, &value_of_volatile).unwrap();
    assert!(matches!(decoded, CatalogRecord::Keyspace { options, .. } if options == volatile));
    let paged = KeyspaceOptions::new().structure(Structure::Paged(
        PagedOptions::bplus().node_bytes(512).value_bytes(24),
    ));
    let value_of_pages = encode_keyspace(300, 4, &paged);
    let expected_of_pages = b"\x03\x2c\x01\0\0\x04\0\xff\xff\xff\xff\0\0\x1ebplus,node=512,key=64,value=24";
    assert_eq!(value_of_pages, expected_of_pages);
    let decoded = decode_catalog(&key, &value_of_pages).unwrap();
    assert!(matches!(decoded, CatalogRecord::Keyspace { options, .. } if options == paged));
    let newer = [&expected[..14], b"zamt,k=8".as_slice()].concat();
    let newer = decode_catalog(&key, &newer).unwrap_err();
    assert!(newer.contains("or with a newer one"), "{newer}");
    let others = encode_keyspace(300, 1, &levels);
    assert!(
        decode_catalog(&key, &others).is_err(),
        "the tiered tree has no options"
    );
    assert!(decode_catalog(b"\0", b"").is_err());
    for number in [CATALOG, KeyspaceId::MAX] {
        let value = encode_keyspace(number, 7, &KeyspaceOptions::default());
        assert!(decode_catalog(&key, &value).is_err(), "{number}");
    }
    assert!(decode_catalog(&keyspace_key("x"), &value[..9]).is_err());
}
