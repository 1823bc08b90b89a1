use super::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn entry(start: u32, units: u32, now: Option<(u32, u64)>) -> MapEntry {
    MapEntry {
        start,
        units,
        now,
        new: now.is_some_and(|(references, _)| references == 1),
        repeats: 0,
    }
}

const HEADER_OF_RECORD: MapRecordHeader = MapRecordHeader {
    file: 3,
    generation: 0x0102,
    tier: 1,
};

fn entries() -> Vec<MapEntry> {
    vec![
        entry(0, 8, Some((1, 8 * UNIT))),
        entry(8, 8, Some((1, 8 * UNIT))),
        entry(16, 8, Some((1, 8 * UNIT))),
        entry(24, 8, Some((5, 300))),
        entry(1000, 1, None),
        entry(1001, 1, Some((1, UNIT - 1))),
    ]
}

#[test]
fn the_bytes_of_version_1_do_not_change() {
    let mut builder = MapRecordBuilder::default();
    entries().iter().for_each(|entry| builder.push(entry));
    let (record, sum) = builder.seal(&HEADER_OF_RECORD, first_link(3));
    assert_eq!(record.len() as u64, BLOCK);
    let expected = "414c5645584d4150010000000e00000003000000000000000201000000000000\
                    0400000001000000";
    assert_eq!(hex(&record[..40]), expected);
    assert_eq!(hex(&record[40..48]), hex(&sum.to_le_bytes()));
    assert_eq!(hex(&record[48..62]), "7c08020605d4fd3f01c807014e01");
    assert!(record[62..].iter().all(|&byte| byte == 0));
    assert_eq!(format!("{sum:016x}"), "8d42e606d26f5ddf");

    let mut bytes = Vec::new();
    let pointer = MapPointer {
        file: 3,
        length: 0x2000,
        checksum: 0x0102_0304_0506_0708,
        generation: 9,
        snapshot: 0x400,
        records: 7,
    };
    pointer.encode(&mut bytes);
    Extent {
        tier: 2,
        start: 0x10,
        units: 8,
    }
    .encode(&mut bytes);
    let expected = "030000000000000000200000000000000807060504030201090000000000000000040000000000000700000000000000\
                    100000000800000002000000";
    assert_eq!(hex(&bytes), expected);
    assert_eq!(bytes.len(), MapPointer::BYTES + Extent::BYTES);
    let mut reader = ByteReader::new(&bytes);
    assert_eq!(MapPointer::decode(&mut reader, &place(3, 0)).unwrap(), pointer);
    assert_eq!(Extent::decode(&mut reader, &place(3, 0)).unwrap().start, 0x10);
}

#[test]
fn entries_are_read_back_alike_ones_together() {
    let mut builder = MapRecordBuilder::default();
    entries().iter().for_each(|entry| builder.push(entry));
    let (record, sum) = builder.seal(&HEADER_OF_RECORD, first_link(3));
    let mut read = Vec::new();
    let visit = |header, entry| {
        assert_eq!(header, HEADER_OF_RECORD);
        read.push(entry);
        Ok(())
    };
    let (_, found) = decode_record(&record, first_link(3), &place(3, 0), visit).unwrap();
    assert_eq!(found, sum);
    let mut expected = entries();
    expected.drain(1..3);
    expected[0].repeats = 2;
    assert_eq!(read, expected);
    assert!(
        decode_record(&record, first_link(4), &place(4, 0), |_, _| Ok(())).is_err(),
        "another file"
    );
}

#[test]
fn random_entries_are_read_back() {
    let mut random = fastrand::Rng::with_seed(9);
    for _ in 0..300 {
        let (mut written, mut at) = (Vec::new(), 0u32);
        for _ in 0..random.usize(..200) {
            at += if random.bool() { 0 } else { random.u32(..100_000) };
            let units = if random.bool() {
                8
            } else {
                random.u32(1..=MAX_EXTENT_UNITS)
            };
            let live = if random.bool() {
                u64::from(units) * UNIT
            } else {
                random.u64(..=u64::from(units) * UNIT)
            };
            let references = if random.bool() {
                1
            } else {
                random.u32(1..=MAX_REFERENCES)
            };
            let gone = random.u8(..4) == 0;
            written.push(MapEntry {
                start: at,
                units,
                now: (!gone).then_some((references, live)),
                new: !gone && random.bool(),
                repeats: 0,
            });
            at += units;
        }
        let mut builder = MapRecordBuilder::default();
        written.iter().for_each(|entry| builder.push(entry));
        let (record, _) = builder.seal(&HEADER_OF_RECORD, 1);
        let mut read = Vec::new();
        let visit = |_, entry: MapEntry| {
            let one = |repeat| MapEntry {
                start: entry.start + repeat * entry.units,
                repeats: 0,
                ..entry
            };
            read.extend((0..=entry.repeats).map(one));
            Ok(())
        };
        decode_record(&record, 1, &place(3, 0), visit).unwrap();
        assert_eq!(read, written);
    }
}

#[test]
fn only_the_names_of_map_files_have_numbers() {
    assert_eq!(map_number(&map_file(17)), Some(17));
    for name in [
        "extents-.map",
        "extents-01.map",
        "extents-+1.map",
        "extents-1.map2",
        "tier-1.data",
    ] {
        assert_eq!(map_number(name), None, "{name}");
    }
}
