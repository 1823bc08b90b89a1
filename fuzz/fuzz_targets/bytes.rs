//! `base::bytes::ByteReader` with arbitrary bytes and arbitrary calls.
//!
//! Strategy: the first half of the input selects the calls, the second half is the data that they
//! read. Invariants: no call panics; the position never passes the end; a failed call consumes
//! nothing except the bytes of a varint; a decoded integer equals the value computed by hand from
//! the same bytes.
#![no_main]

use alluvium_base::bytes::{ByteReader, ByteWriter};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let (calls, bytes) = input.split_at(input.len() / 2);
    let mut reader = ByteReader::new(bytes);
    for call in calls {
        let before = reader.position();
        match call % 8 {
            0 => check(&mut reader, bytes, 1, |reader| reader.u8().ok().map(u128::from)),
            1 => check(&mut reader, bytes, 2, |reader| reader.u16().ok().map(u128::from)),
            2 => check(&mut reader, bytes, 4, |reader| reader.u32().ok().map(u128::from)),
            3 => check(&mut reader, bytes, 8, |reader| reader.u64().ok().map(u128::from)),
            4 => check(&mut reader, bytes, 16, |reader| reader.u128().ok()),
            5 => {
                if let Ok(value) = reader.varint() {
                    let mut out = Vec::new();
                    ByteWriter::new(&mut out).varint(value);
                    assert!(
                        out.len() <= reader.position() - before,
                        "no encoding is shorter than the canonical one"
                    );
                }
            }
            _ => {
                let wanted = usize::from(call / 8);
                let taken = reader.take(wanted).ok();
                assert_eq!(taken, bytes.get(before..before + wanted));
            }
        }
        assert!(reader.position() >= before && reader.position() + reader.remaining() == bytes.len());
    }
});

/// Reads an integer of `len` bytes and compares it with the value computed by hand.
fn check(
    reader: &mut ByteReader<'_>,
    bytes: &[u8],
    len: usize,
    read: impl Fn(&mut ByteReader<'_>) -> Option<u128>,
) {
    let at = reader.position();
    let by_hand = bytes.get(at..at + len).map(|bytes| {
        bytes
            .iter()
            .rev()
            .fold(0u128, |value, byte| value << 8 | u128::from(*byte))
    });
    assert_eq!(read(reader), by_hand);
}
