use super::*;
use alluvium_storage::NodeCodec;

fn child(number: u64) -> IndexChild {
    IndexChild {
        pointer: NodePointer {
            offset: 4096 * (number + 3),
            birth: 9,
            checksum: number << 40 | 5,
            encoded_len: 4096,
            tier: 0,
            pages: 1,
            codec: NodeCodec::None,
        },
        sums: SubtreeSums {
            bytes: 4096,
            records: 30 + number,
            tombstones: number % 2,
        },
        begun: false,
    }
}

fn none() -> ValueUnits {
    ValueUnits::default()
}

fn units(list: &[(u8, u32, u32)]) -> ValueUnits {
    let listed = list
        .iter()
        .map(|&(tier, unit, live)| ValueUnit { tier, unit, live });
    ValueUnits::of(list.len() as u16, listed.collect())
}

#[test]
fn the_bytes_of_version_1_do_not_change() {
    let mut builder = IndexBuilder::new(1);
    builder.add(b"key1", &child(0), (&none(), None), 4096);
    builder.add(b"key5", &child(1), (&none(), None), 4096);
    let bytes = builder.take().bytes;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let header = "0201020003000000010000000001010018000000000000000010000000000000";
    let bases = "0001000000000000090000000000000000100000000000001e000000000000000000000000000000\
                 0000000000000000";
    let rest = "02000000000000006b65790100020000080001000105000000000000000500000000010000 3135";
    assert_eq!(hex, [header, bases, rest].concat().replace(' ', ""));
}

#[test]
fn children_come_back_and_are_found() {
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..200 {
        let mut separators: Vec<Vec<u8>> = (0..random.usize(1..60))
            .map(|_| (0..random.usize(..6)).map(|_| random.u8(b'a'..=b'c')).collect())
            .collect();
        separators.sort();
        separators.dedup();
        let children: Vec<IndexChild> = (0..separators.len() as u64)
            .map(|number| IndexChild {
                sums: SubtreeSums {
                    bytes: random.u64(..) >> 30,
                    records: random.u64(..1000),
                    tombstones: 0,
                },
                ..child(random.u64(..1 << 30) + number)
            })
            .collect();
        let mut builder = IndexBuilder::new(3);
        for (separator, child) in separators.iter().zip(&children) {
            assert!(builder.add(separator, child, (&none(), None), 1 << 20));
        }
        let full = builder.take();
        assert_eq!(full.separator, separators[0]);
        let layout = IndexLayout::of(&full.bytes).unwrap();
        assert_eq!((layout.level, layout.children), (3, separators.len()));
        for (number, separator) in separators.iter().enumerate() {
            assert_eq!(layout.separator(&full.bytes, number).unwrap(), *separator);
            assert_eq!(
                layout.child(&full.bytes, number, PageSize::MIN).unwrap(),
                children[number]
            );
        }
        for _ in 0..50 {
            let key: Vec<u8> = (0..random.usize(..7)).map(|_| random.u8(b'a'..=b'd')).collect();
            let below = separators.iter().filter(|separator| **separator < key).count();
            let at_or_below = separators.iter().filter(|separator| **separator <= key).count();
            assert_eq!(layout.below(&full.bytes, &key).unwrap(), below);
            assert_eq!(layout.at_or_below(&full.bytes, &key).unwrap(), at_or_below);
            assert_eq!(
                layout.child_for(&full.bytes, &key).unwrap(),
                at_or_below.checked_sub(1)
            );
        }
    }
}

#[test]
fn a_key_whose_records_began_further_left_is_found_there() {
    let mut builder = IndexBuilder::new(1);
    let begun = |number| IndexChild {
        begun: true,
        ..child(number)
    };
    for (separator, child) in [
        (b"a", child(0)),
        (b"m", begun(1)),
        (b"m", begun(2)),
        (b"p", child(3)),
    ] {
        builder.add(separator, &child, (&none(), None), 4096);
    }
    let bytes = builder.take().bytes;
    let layout = IndexLayout::of(&bytes).unwrap();
    let at = |key: &[u8]| layout.child_for(&bytes, key).unwrap();
    assert_eq!(
        [at(b""), at(b"b"), at(b"m"), at(b"n"), at(b"p")],
        [None, Some(0), Some(0), Some(2), Some(3)]
    );
}

#[test]
fn the_bytes_of_version_2_say_where_values_are() {
    let mut builder = IndexBuilder::new(1);
    let lists = [
        units(&[(0, 7, 300), (1, 0x0102, 0x0304)]),
        none(),
        units(&[(0, 7, 9)]),
    ];
    for (number, (separator, list)) in [b"key1", b"key5", b"key7"].into_iter().zip(&lists).enumerate() {
        assert!(builder.add(separator, &child(number as u64), (list, None), 4096));
    }
    let bytes = builder.take().bytes;
    let layout = IndexLayout::of(&bytes).unwrap();
    for (number, list) in lists.iter().enumerate() {
        assert_eq!(layout.units(&bytes, number).unwrap(), *list);
        assert_eq!(
            layout.child(&bytes, number, PageSize::MIN).unwrap(),
            child(number as u64)
        );
    }
    assert_eq!((bytes[80], &bytes[81..88]), (2, &[1, 0, 0, 3, 0, 0, 0][..]));
    let lists = "020000000100 020000000100 00070000002c010000 010201000004030000 000700000009000000";
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(hex.ends_with(&lists.replace(' ', "")), "{hex}");
    for len in 0..bytes.len() {
        assert!(IndexLayout::of(&bytes[..len]).is_err(), "{len} bytes");
    }
    for (at, byte) in [(81, 2), (82, 1), (81, 0), (86, 1)] {
        let mut other = bytes.clone();
        other[at] = byte;
        assert!(IndexLayout::of(&other).is_err(), "byte {at} is {byte}");
    }
}

#[test]
fn a_node_is_no_longer_than_it_may_be_with_what_it_lists() {
    let list = units(&(0..40).map(|unit| (0, unit, 1)).collect::<Vec<_>>());
    let mut builder = IndexBuilder::new(1);
    let mut count = 0u64;
    while builder.add(
        format!("{count:04}").as_bytes(),
        &child(count),
        (&list, None),
        4096,
    ) {
        count += 1;
    }
    assert!((5..11).contains(&count), "{count} children list 40 units each");
    assert!(builder.take().bytes.len() <= 4096);
}

fn keys(first: &[u8], last: &[u8]) -> LeafKeys {
    LeafKeys {
        first: first.to_vec(),
        last: last.to_vec(),
    }
}

#[test]
fn the_bytes_of_version_3_say_the_first_and_the_last_key_of_each_leaf() {
    let mut builder = IndexBuilder::new(1);
    let said = [
        keys(b"key10", b"key12"),
        keys(b"key5", b"key5"),
        keys(b"key77", b"key9"),
    ];
    for (number, (separator, keys)) in [b"key1", b"key5", b"key7"].into_iter().zip(&said).enumerate() {
        let list = units(&[(0, 7, 9)]);
        assert!(builder.add(separator, &child(number as u64), (&list, Some(keys)), 4096));
    }
    let bytes = builder.take().bytes;
    let layout = IndexLayout::of(&bytes).unwrap();
    for (number, keys) in said.iter().enumerate() {
        assert_eq!(layout.keys(&bytes, number).unwrap().as_ref(), Some(keys));
        assert_eq!(layout.units(&bytes, number).unwrap(), units(&[(0, 7, 9)]));
    }
    assert_eq!(&bytes[80..84], [2, 1, 2, 0]);
    let end = "03000000 6b6579 0200 0400 0500 0500 0700 0800 3130 3132 35 3737 39";
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(hex.ends_with(&end.replace(' ', "")), "{hex}");
    for len in 0..bytes.len() {
        assert!(IndexLayout::of(&bytes[..len]).is_err(), "{len} bytes");
    }
    for (at, byte) in [(82, 1), (82, 3), (82, 4), (82, 8), (83, 1)] {
        let mut other = bytes.clone();
        other[at] = byte;
        assert!(IndexLayout::of(&other).is_err(), "byte {at} is {byte}");
    }
    let mut other = bytes.clone();
    // This makes the third leaf's last key less than its first key.
    *other.last_mut().unwrap() = b'1';
    assert!(IndexLayout::of(&other).unwrap().keys(&other, 2).is_err());
}

#[test]
fn keys_of_leaves_come_back_and_fit_into_the_room() {
    let mut random = fastrand::Rng::with_seed(2);
    for _ in 0..200 {
        let mut all: Vec<Vec<u8>> = (0..random.usize(2..120))
            .map(|_| (0..random.usize(..40)).map(|_| random.u8(b'a'..=b'b')).collect())
            .collect();
        all.sort();
        all.dedup();
        let mut said = Vec::new();
        let mut rest = &all[..];
        while let Some((first, behind)) = rest.split_first() {
            let more = random.usize(..2).min(behind.len());
            let last = if more == 0 { first } else { &behind[0] };
            said.push(keys(first, last));
            rest = &behind[more..];
        }
        let mut builder = IndexBuilder::new(1);
        let taken = said
            .iter()
            .take_while(|keys| builder.add(&keys.first, &child(1), (&none(), Some(keys)), 4096))
            .count();
        let bytes = builder.take().bytes;
        assert!(bytes.len() <= 4096, "{} bytes", bytes.len());
        let layout = IndexLayout::of(&bytes).unwrap();
        for (number, keys) in said[..taken].iter().enumerate() {
            assert_eq!(layout.keys(&bytes, number).unwrap().as_ref(), Some(keys));
        }
    }
}
