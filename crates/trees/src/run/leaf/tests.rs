use super::build::LeafCell;
use super::*;

fn entry(sequence: SequenceNumber, value: &[u8]) -> LeafCell<'_> {
    LeafCell {
        sequence,
        kind: MessageKind::Put,
        expires_ms: 0,
        value,
        separate: false,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_bytes_of_version_1_do_not_change() {
    let mut builder = LeafBuilder::default();
    builder.restart(false);
    builder.add(b"key1", true, &entry(300, b"ab"), 4096);
    builder.add(b"key2", true, &entry(7, b"cd"), 4096);
    let mut bytes = Vec::new();
    builder.encode(false, &mut bytes);
    assert_eq!(
        hex(&bytes),
        "0103020002000202070000000000000003000000010000000200000\
         06b65792501000031326162 6364"
            .replace(' ', "")
    );
    builder.restart(true);
    let merge = LeafCell {
        kind: MessageKind::Merge,
        expires_ms: 1000,
        ..entry(300, b"ab")
    };
    builder.add(b"key", true, &merge, 4096);
    builder.add(b"key", false, &entry(299, b""), 4096);
    builder.add(b"keys", true, &entry(298, b"c"), 4096);
    let mut bytes = Vec::new();
    builder.encode(true, &mut bytes);
    assert_eq!(
        hex(&bytes),
        "017c0300020001022a0100000000000003000000000000000000000\
         0e803000000000000016b6579020100020000010000000001000200020003000000020073616263"
    );
}

#[test]
fn what_a_leaf_takes_is_as_long_as_it_says() {
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..300 {
        let mut builder = LeafBuilder::default();
        builder.restart(false);
        let mut key = vec![b'k'; random.usize(..5)];
        let mut taken = Vec::new();
        let mut sequence = 1 << 40;
        for _ in 0..random.usize(1..200) {
            let new = taken.is_empty() || random.bool();
            if new && !taken.is_empty() {
                key.push(random.u8(..));
            }
            let bits = random.u8(1..20);
            sequence -= random.u64(1..1 << bits);
            let value = vec![7; random.usize(..30)];
            let entry = LeafCell {
                kind: [MessageKind::Put, MessageKind::Delete, MessageKind::Merge][random.usize(..3)],
                expires_ms: random.u64(..3) * random.u64(..1 << 40),
                ..entry(sequence, &value)
            };
            if !builder.add(&key, new, &entry, 4096) {
                break;
            }
            taken.push((
                key.clone(),
                entry.sequence,
                entry.kind,
                entry.expires_ms,
                value.clone(),
            ));
        }
        let mut bytes = Vec::new();
        builder.encode(false, &mut bytes);
        assert_eq!(bytes.len(), builder.bytes());
        assert!(bytes.len() <= 4096);
        let layout = LeafLayout::of(&bytes).unwrap();
        let mut found = Vec::new();
        for number in 0..layout.keys {
            let key = layout.key(&bytes, number).unwrap();
            assert_eq!(layout.lower_bound(&bytes, &key).unwrap(), (number, true));
            for record in layout.records_of(&bytes, number).unwrap() {
                let parts = layout.parts(&bytes, record).unwrap();
                let value = bytes[parts.value].to_vec();
                found.push((key.clone(), parts.sequence, parts.kind, parts.expires_ms, value));
            }
        }
        assert_eq!(found, taken);
    }
}

#[test]
fn a_bound_lies_where_a_linear_search_finds_it() {
    let mut builder = LeafBuilder::default();
    builder.restart(false);
    let keys: [&[u8]; 5] = [b"pa", b"pab", b"pb", b"pcc", b"pd"];
    for key in keys {
        builder.add(key, true, &entry(1, b""), 4096);
    }
    let mut bytes = Vec::new();
    builder.encode(false, &mut bytes);
    let layout = LeafLayout::of(&bytes).unwrap();
    for probe in [
        &b""[..],
        b"a",
        b"p",
        b"pa",
        b"pa\0",
        b"pab",
        b"pc",
        b"pd",
        b"pda",
        b"q",
    ] {
        let wanted = keys.iter().position(|key| *key >= probe).unwrap_or(keys.len());
        let equal = keys.contains(&probe);
        assert_eq!(
            layout.lower_bound(&bytes, probe).unwrap(),
            (wanted, equal),
            "{probe:?}"
        );
    }
}
