use super::*;
use alluvium_storage::Codec;

fn child(number: u64) -> Child {
    Child {
        pointer: NodePointer {
            offset: 4096 * (number + 3),
            birth: 9,
            checksum: number << 40 | 5,
            encoded_len: 4096,
            tier: 0,
            pages: 1,
            codec: Codec::None,
        },
        sums: Sums {
            bytes: 4096,
            records: 30 + number,
            tombstones: number % 2,
        },
        begun: false,
    }
}

#[test]
fn the_bytes_of_version_1_do_not_change() {
    let mut builder = IndexBuilder::new(1);
    builder.add(b"key1", &child(0), 4096);
    builder.add(b"key5", &child(1), 4096);
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
        let children: Vec<Child> = (0..separators.len() as u64)
            .map(|number| Child {
                sums: Sums {
                    bytes: random.u64(..) >> 30,
                    records: random.u64(..1000),
                    tombstones: 0,
                },
                ..child(random.u64(..1 << 30) + number)
            })
            .collect();
        let mut builder = IndexBuilder::new(3);
        for (separator, child) in separators.iter().zip(&children) {
            assert!(builder.add(separator, child, 1 << 20));
        }
        let full = builder.take();
        assert_eq!(full.separator, separators[0]);
        let layout = Layout::of(&full.bytes).unwrap();
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
    let begun = |number| Child {
        begun: true,
        ..child(number)
    };
    for (separator, child) in [
        (b"a", child(0)),
        (b"m", begun(1)),
        (b"m", begun(2)),
        (b"p", child(3)),
    ] {
        builder.add(separator, &child, 4096);
    }
    let bytes = builder.take().bytes;
    let layout = Layout::of(&bytes).unwrap();
    let at = |key: &[u8]| layout.child_for(&bytes, key).unwrap();
    assert_eq!(
        [at(b""), at(b"b"), at(b"m"), at(b"n"), at(b"p")],
        [None, Some(0), Some(0), Some(2), Some(3)]
    );
}
