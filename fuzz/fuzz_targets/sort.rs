//! Frames of sorted runs, and the records in them.
//!
//! Strategy: the input is either a raw frame, or the records of a frame, which then gets a header
//! and a checksum.
//! Invariants: no panic, no endless loop; no record extends beyond its frame.
#![no_main]

use alluvium_storage::sort::SortRecordLayout;
use alluvium_storage::sort::format::{HEADER_BYTES, RunFrameHeader};
use libfuzzer_sys::fuzz_target;

const LAYOUTS: [SortRecordLayout; 2] = [
    SortRecordLayout::Variable,
    SortRecordLayout::Fixed {
        record_bytes: 7,
        key_offset: 1,
        key_bytes: 3,
    },
];

fuzz_target!(|input: &[u8]| {
    read(input);
    let mut frame = vec![0; HEADER_BYTES];
    frame.extend_from_slice(input);
    let header = RunFrameHeader {
        run: 0,
        number: 0,
        records: 1,
        bytes: input.len() as u32,
    };
    header.seal(&mut frame);
    assert_eq!(RunFrameHeader::open(&frame, 0, 0), Ok(header));
    read(&frame);
});

fn read(frame: &[u8]) {
    let Ok(header) = RunFrameHeader::open(frame, 0, 0) else {
        return;
    };
    let records = &frame[HEADER_BYTES..HEADER_BYTES + header.bytes as usize];
    for layout in LAYOUTS {
        let mut rest = records;
        while let Some(parts) = layout.parts(rest) {
            assert!(parts.bytes > 0 && parts.key_at + parts.key_bytes <= parts.bytes);
            assert!(parts.value_at <= parts.bytes && parts.bytes <= rest.len());
            rest = &rest[parts.bytes..];
        }
    }
}
