//! `log::format` with arbitrary bytes: header blocks of segments and headers of records.
//!
//! Strategy: the first byte selects whether a header block first gets a valid checksum; the input
//! is decoded as a header block, and at every multiple of eight bytes as a record. Invariants: no
//! panic; an accepted header block survives encoding and decoding; a valid record verifies only at
//! its position and with its seed.
#![no_main]

use alluvium_base::checksum;
use alluvium_storage::log::format::{
    BLOCK_BYTES, DecodedHeader, LogMark, RECORD_BYTES, RecordHeader, SegmentHeader,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((mode, bytes)) = input.split_first() else {
        return;
    };
    let mut block = bytes.to_vec();
    if mode % 2 == 1 {
        block.resize(BLOCK_BYTES - 8, 0);
        let sum = checksum(&block);
        block.extend(sum.to_le_bytes());
    }
    if let DecodedHeader::Segment(header) = SegmentHeader::decode(&block) {
        assert_eq!(
            SegmentHeader::decode(&header.encode()),
            DecodedHeader::Segment(header)
        );
    }
    if let Ok(mark) = LogMark::decode(&block) {
        assert_eq!(LogMark::decode(&mark.encode()), Ok(mark));
    }
    let seed = u64::from(*mode);
    for position in (0..bytes.len()).step_by(8) {
        let Some(mut header) = RecordHeader::decode(&bytes[position..]) else {
            continue;
        };
        let payload = &bytes[position + RECORD_BYTES..];
        assert!(
            header.kind.is_numbered() == (header.count > 0),
            "only numbered records cover sequences"
        );
        assert!(!header.kind.is_numbered() || header.last() >= header.first);
        // A record whose length exceeds the remaining bytes does not verify. The same header with a
        // shorter length does.
        if header.len as usize > payload.len() {
            assert!(!header.verify(seed, position as u64, &bytes[position..]));
            header.len = payload.len() as u32;
        }
        let payload = &payload[..header.len as usize];
        let record = [&header.encode(seed, position as u64, payload)[..], payload].concat();
        assert!(header.verify(seed, position as u64, &record));
        assert!(!header.verify(seed, position as u64 + 8, &record));
        assert!(!header.verify(seed ^ 1, position as u64, &record));
    }
});
