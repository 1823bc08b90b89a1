//! Ensures that the format does not change by accident. If this test must change, the format needs
//! a new version and an entry in the changelog.

use crate::quotient::format::*;
use crate::quotient::{FilterBuilder, FilterGeometry, FilterShape};
use crate::{Error, FilterEntry, Fingerprint};
use proptest::prelude::*;

/// Returns a hexadecimal dump of 16 bytes per line, each with its offset. Lines that equal the
/// previous one are omitted.
fn dump(bytes: &[u8]) -> String {
    let lines: Vec<&[u8]> = bytes.chunks(16).collect();
    let mut text = String::new();
    for (index, line) in lines
        .iter()
        .enumerate()
        .filter(|&(index, line)| index == 0 || lines[index - 1] != *line)
    {
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        text += &format!("{:05}  {}\n", index * 16, hex.join(" "));
    }
    text
}

fn build(geometry: FilterGeometry, entries: &[(FilterEntry, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut builder = FilterBuilder::new(geometry, |page: &[u8]| -> Result<(), Error> {
        bytes.extend_from_slice(page);
        Ok(())
    });
    for &(entry, count) in entries {
        builder.push(entry, count).unwrap();
    }
    builder.finish::<Error>().unwrap();
    bytes
}

#[test]
fn the_bytes_of_a_filter_are_these() {
    let geometry = FilterGeometry::with_pages(2, FilterShape::new(24, 4)).unwrap();
    let entry = |number, value| FilterEntry::new(Fingerprint::of_number(number, 24), value);
    let mut entries = vec![
        (entry(0, 9), 1),
        (entry(0, 3), 2),
        (entry(1, 0), 1_000_000),
        (entry(7000, 15), 1),
    ];
    // Add five fingerprints with 14 values each to the last block, which has enough slots for only
    // four of them.
    entries.extend((0..5).flat_map(|near| {
        (0..14)
            .rev()
            .map(move |value| (entry(0xff_0000 + near * 6000, value), 1))
    }));
    let bytes = build(geometry, &entries);
    assert_eq!(dump(&bytes), include_str!("filter.hex"));
}

#[test]
fn the_bytes_of_a_geometry_are_these() {
    let geometry = FilterGeometry::with_pages(
        0x0403,
        FilterShape {
            page_bytes: 8192,
            ..FilterShape::new(36, 5)
        },
    )
    .unwrap();
    let mut bytes = Vec::new();
    geometry.encode(&mut bytes);
    let expected = [
        [1, 36, 5, 15, 0, 0x20, 0, 0, 3, 4, 0, 0],
        [
            geometry.blocks as u8,
            0,
            0,
            0,
            geometry.capacity as u8,
            (geometry.capacity >> 8) as u8,
            0,
            0,
            0,
            0,
            0,
            0,
        ],
    ];
    assert_eq!(bytes, expected.as_flattened());
    assert_eq!((geometry.blocks, geometry.capacity), (59, 2883));
}

proptest! {
    #[test]
    fn bits_move_without_touching_their_neighbours(
        bytes in proptest::collection::vec(any::<u8>(), 64),
        from in 0u32..200, to in 0u32..200, count in 0u32..200,
    ) {
        let bit = |bytes: &[u8], at: u32| bytes[at as usize / 8] >> (at % 8) & 1;
        let mut moved = bytes.clone();
        move_bits(&mut moved, from, to, count);
        for at in 0..512 {
            let expected = if (to..to + count).contains(&at) { bit(&bytes, at - to + from) } else { bit(&bytes, at) };
            prop_assert_eq!(bit(&moved, at), expected, "bit {}", at);
        }
    }

    #[test]
    fn packed_slots_are_read_back(words in proptest::collection::vec(any::<u64>(), 1..200), value_bits in 0u32..=16, pages in 1u32..3000) {
        let geometry = FilterGeometry::with_pages(pages, FilterShape::new(34, value_bits)).unwrap();
        let mut page = vec![0; 4096];
        let words: Vec<u64> =
            words.into_iter().take(geometry.capacity as usize).map(|word| word & ((1 << geometry.slot_bits) - 1)).collect();
        let half = words.len() as u32 / 2;
        let mut writer = SlotWriter::at(&geometry, &page, 0);
        words.iter().take(half as usize).for_each(|&word| writer.push(&mut page, word, geometry.slot_bits));
        writer.flush(&mut page);
        let mut writer = SlotWriter::at(&geometry, &page, half);
        words.iter().skip(half as usize).for_each(|&word| writer.push(&mut page, word, geometry.slot_bits));
        writer.flush(&mut page);
        for (position, &word) in words.iter().enumerate() {
            prop_assert_eq!(slot(&geometry, &page, position as u32), word);
        }
    }
}
