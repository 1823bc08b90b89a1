//! The format of a key's value in the pages of a structure, version 2. Version 1 has no shared
//! pages. The value consists of all messages for the key that a reader may still need. A *varint*
//! is LEB128 of at most 10 bytes.
//!
//! The value of a key, in a leaf or in an inner node's message:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  0: messages follow; 1: they are in pages of their own; 2: in a shared page
//!      1        messages, newest first, up to the end, each:
//!                 sequence (varint), kind (1), expiry in milliseconds (varint),
//!                 length of the operand (varint), operand
//!               or the first page (varint), bytes of the messages (varint)
//!               or the page (varint), the slot in it (1), bytes of the messages (varint)
//! ```
//!
//! Sequence numbers descend, with one exception from earlier versions of the software. If the
//! oldest message was a put that expires, or one that the merge operator rejects, they gave it the
//! same sequence number as the merge above it. Such a put is decoded with a sequence number that is
//! one less, which is safe because no reader reads between the two.
//!
//! A page with part of one key's messages, which do not fit into a node:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  4
//!      1     1  0
//!      2     2  n: bytes that are here
//!      4     8  the next page plus 1, 0 for none
//!     12     n  bytes of the messages
//! ```
//!
//! A shared page, which contains messages of several keys:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  4
//!      1     1  1
//!      2     2  s: how many slots it has, from 2 to 64
//!      4     8  a bit for each slot: whether it is used
//!     12        the slots, of as many bytes as fit
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_base::{Message, MessageKind, SequenceNumber};

/// The first byte of a page that contains messages.
const APART: u8 = 4;
/// Size of the header of a message page in bytes.
pub(super) const APART_HEADER: usize = 12;

/// A message for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PagedEntry {
    pub(super) sequence: SequenceNumber,
    pub(super) kind: MessageKind,
    pub(super) expires_ms: u64,
    pub(super) operand: Box<[u8]>,
}

impl PagedEntry {
    pub(super) fn message(&self) -> Message<'_> {
        Message {
            sequence: self.sequence,
            kind: self.kind,
            expires_ms: self.expires_ms,
            operand: &self.operand,
        }
    }
}

/// A key's value as it is stored in a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageValue<'v> {
    /// The encoded messages, newest first.
    Inline(&'v [u8]),
    /// A pointer to separate pages that contain the messages.
    Separate(MessagePointer),
    /// A pointer to the slot of a shared page that contains the messages.
    Shared(SharedSlot),
}

/// The location of messages in a slot of a shared page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharedSlot {
    pub(super) page: u64,
    /// The index of the slot within the page.
    pub(super) number: u8,
    /// Length of the messages in bytes.
    pub(super) len: u64,
}

/// The location of messages in separate pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessagePointer {
    /// Number of the first page.
    pub(super) page: u64,
    /// Length of the messages in bytes.
    pub(super) len: u64,
}

impl PageValue<'_> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = ByteWriter::new(&mut out);
        match self {
            PageValue::Inline(messages) => writer.u8(0).bytes(messages),
            PageValue::Separate(MessagePointer { page, len }) => writer.u8(1).varint(*page).varint(*len),
            PageValue::Shared(SharedSlot { page, number, len }) => {
                writer.u8(2).varint(*page).u8(*number).varint(*len)
            }
        };
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<PageValue<'_>, String> {
        let (Some(tag), Some(rest)) = (bytes.first(), bytes.get(1..)) else {
            return Err("a value without bytes".to_owned());
        };
        let mut reader = ByteReader::new(rest);
        let read = |reader: &mut ByteReader<'_>| -> Result<PageValue<'_>, TruncatedInput> {
            let page = reader.varint()?;
            Ok(match tag {
                1 => PageValue::Separate(MessagePointer {
                    page,
                    len: reader.varint()?,
                }),
                _ => PageValue::Shared(SharedSlot {
                    page,
                    number: reader.u8()?,
                    len: reader.varint()?,
                }),
            })
        };
        match tag {
            0 => return Ok(PageValue::Inline(rest)),
            1 | 2 => {}
            other => return Err(format!("a value of kind {other}")),
        }
        let value = read(&mut reader).map_err(|cut| cut.to_string())?;
        match reader.remaining() {
            0 => Ok(value),
            left => Err(format!("{left} bytes after a pointer")),
        }
    }
}

/// Encodes messages, which must be ordered from newest to oldest.
pub(super) fn encode(entries: &[PagedEntry]) -> Vec<u8> {
    assert!(
        entries.is_sorted_by(|newer, older| newer.sequence > older.sequence),
        "the messages of a key are newest first (PV2)"
    );
    let mut out = Vec::new();
    for entry in entries {
        ByteWriter::new(&mut out)
            .varint(entry.sequence)
            .u8(entry.kind as u8)
            .varint(entry.expires_ms)
            .varint(entry.operand.len() as u64)
            .bytes(&entry.operand);
    }
    out
}

/// Decodes messages, which must be ordered from newest to oldest (PV2).
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<PagedEntry>, String> {
    let mut reader = ByteReader::new(bytes);
    let mut entries: Vec<PagedEntry> = Vec::new();
    while reader.remaining() > 0 {
        let entry = read(&mut reader).map_err(|cut| cut.to_string())?;
        let entry = entry.ok_or_else(|| "a message of an unknown kind".to_owned())?;
        let mut entry = entry;
        if let Some(newer) = entries.last()
            && newer.sequence <= entry.sequence
        {
            // An earlier version of the software may have written this. See the header of this
            // file.
            let is_base =
                newer.kind == MessageKind::Merge && entry.kind == MessageKind::Put && reader.remaining() == 0;
            if !is_base || newer.sequence != entry.sequence || entry.sequence < 2 {
                return Err("messages out of order".to_owned());
            }
            entry.sequence -= 1;
        }
        entries.push(entry);
    }
    if entries.is_empty() {
        return Err("a key without a message".to_owned());
    }
    Ok(entries)
}

fn read(reader: &mut ByteReader<'_>) -> Result<Option<PagedEntry>, TruncatedInput> {
    let sequence = reader.varint()?;
    let kind = MessageKind::try_from(reader.u8()?);
    let expires_ms = reader.varint()?;
    let len = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
    let operand = reader.take(len)?.into();
    Ok(kind.ok().map(|kind| PagedEntry {
        sequence,
        kind,
        expires_ms,
        operand,
    }))
}

/// Writes a piece of encoded messages to a page. `next` is the page with the next piece, if any.
pub(super) fn write_apart(content: &mut [u8], piece: &[u8], next: Option<u64>) {
    assert!(
        piece.len() + APART_HEADER <= content.len() && piece.len() <= usize::from(u16::MAX),
        "a piece fits into a page"
    );
    let mut header = Vec::with_capacity(APART_HEADER);
    ByteWriter::new(&mut header)
        .u8(APART)
        .u8(0)
        .u16(piece.len() as u16)
        .u64(next.map_or(0, |next| next + 1));
    let bytes = header.iter().chain(piece);
    content
        .iter_mut()
        .zip(bytes)
        .for_each(|(place, byte)| *place = *byte);
}

/// Returns the piece of encoded messages in a page, and the number of the page with the next piece,
/// if any. Returns `None` if the page is of another kind.
pub(super) fn read_apart(content: &[u8]) -> Option<(&[u8], Option<u64>)> {
    let mut reader = ByteReader::new(content);
    let (tag, zero) = (reader.u8().ok()?, reader.u8().ok()?);
    let len = usize::from(reader.u16().ok()?);
    let next = reader.u64().ok()?;
    let piece = reader.take(len).ok()?;
    (tag == APART && zero == 0).then_some((piece, next.checked_sub(1)))
}

/// Returns whether a page contains a piece of messages or is a shared page.
pub(in crate::paged) fn is_apart(content: &[u8]) -> bool {
    read_apart(content).is_some() || SharedPage::read(content).is_some()
}

/// How many slots a shared page may be divided into, besides [`FEWEST`].
const DIVISIONS: [u16; 10] = [64, 48, 32, 24, 16, 12, 8, 6, 4, 3];
/// The minimum number of slots in a shared page.
const FEWEST: u16 = 2;

/// The header of a page that several keys share for their messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharedPage {
    pub(super) slots: u16,
    /// A bit mask of the slots in use.
    pub(super) used: u64,
}

impl SharedPage {
    /// Returns the largest number of slots that a page can be divided into so that each slot still
    /// holds messages of `len` bytes. Returns `None` if the messages are too long for any slot.
    pub(super) fn division(content_bytes: usize, len: usize) -> Option<u16> {
        let fits = |slots: &u16| slot_bytes(content_bytes, *slots) >= len;
        DIVISIONS.into_iter().chain([FEWEST]).find(fits)
    }

    /// Decodes the header of a shared page. Returns `None` if the page is of another kind.
    pub(super) fn read(content: &[u8]) -> Option<SharedPage> {
        let mut reader = ByteReader::new(content);
        let (tag, one) = (reader.u8().ok()?, reader.u8().ok()?);
        let (slots, used) = (reader.u16().ok()?, reader.u64().ok()?);
        let fits = (FEWEST..=64).contains(&slots) && used <= u64::MAX >> (64 - u32::from(slots).min(64));
        (tag == APART && one == 1 && fits).then_some(SharedPage { slots, used })
    }

    /// Writes the header to the page.
    pub(super) fn write(self, content: &mut [u8]) {
        let mut header = Vec::with_capacity(APART_HEADER);
        ByteWriter::new(&mut header)
            .u8(APART)
            .u8(1)
            .u16(self.slots)
            .u64(self.used);
        content
            .iter_mut()
            .zip(&header)
            .for_each(|(place, byte)| *place = *byte);
        assert!(
            SharedPage::read(content) == Some(self),
            "a shared page reads as one"
        );
    }

    /// Returns the first free slot, or `None` if all slots are in use.
    pub(super) fn free_slot(self) -> Option<u8> {
        let slot = self.used.trailing_ones();
        (slot < u32::from(self.slots)).then_some(slot as u8)
    }

    pub(super) fn bit(number: u8) -> u64 {
        1u64.checked_shl(u32::from(number)).unwrap_or(0)
    }

    /// Returns the first `len` bytes of a slot. Returns `None` if the slot is free or shorter than
    /// that.
    pub(super) fn slot(self, content: &[u8], number: u8, len: u64) -> Option<&[u8]> {
        if self.used & SharedPage::bit(number) == 0 {
            return None;
        }
        let bytes = slot_bytes(content.len(), self.slots);
        let len = usize::try_from(len).ok().filter(|len| *len <= bytes)?;
        let start = APART_HEADER + usize::from(number) * bytes;
        content.get(start..start + len)
    }

    /// Writes messages into a slot, and marks it as used.
    pub(super) fn fill(mut self, content: &mut [u8], number: u8, messages: &[u8]) {
        self.used |= SharedPage::bit(number);
        let bytes = slot_bytes(content.len(), self.slots);
        assert!(messages.len() <= bytes, "messages fit into a slot");
        let start = APART_HEADER + usize::from(number) * bytes;
        if let Some(place) = content.get_mut(start..start + messages.len()) {
            place.copy_from_slice(messages);
        }
        self.write(content);
    }
}

fn slot_bytes(content_bytes: usize, slots: u16) -> usize {
    let bytes = content_bytes.saturating_sub(APART_HEADER);
    bytes.checked_div(usize::from(slots)).unwrap_or(0)
}

/// Decodes bytes as a value. Returns 1 if they are valid and 0 otherwise. A valid value is encoded
/// again and compared with the input.
pub(in crate::paged) fn reread_value(bytes: &[u8]) -> usize {
    let Ok(value) = PageValue::decode(bytes) else {
        return 0;
    };
    let again = value.encode();
    assert_eq!(
        PageValue::decode(&again),
        Ok(value),
        "a value is written as it was read"
    );
    if let PageValue::Inline(messages) = value
        && let Ok(entries) = decode(messages)
    {
        assert_eq!(decode(&encode(&entries)), Ok(entries), "and so are messages");
    }
    1
}

/// Returns examples of encoded values and of pages that contain messages.
pub(in crate::paged) fn examples() -> Vec<Vec<u8>> {
    let entries = [PagedEntry {
        sequence: 7,
        kind: MessageKind::Put,
        expires_ms: 0,
        operand: b"1094"[..].into(),
    }];
    let messages = encode(&entries);
    let mut page = vec![0; APART_HEADER + messages.len()];
    write_apart(&mut page, &messages, Some(6));
    let pointer = PageValue::Separate(MessagePointer { page: 6, len: 9 });
    let slot = PageValue::Shared(SharedSlot {
        page: 6,
        number: 3,
        len: 9,
    });
    let mut shared = vec![0; 1024];
    let header = SharedPage { slots: 8, used: 1 };
    header.fill(&mut shared, 3, &messages);
    vec![
        PageValue::Inline(&messages).encode(),
        pointer.encode(),
        slot.encode(),
        page,
        shared,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(sequence: SequenceNumber, kind: MessageKind, expires_ms: u64, operand: &[u8]) -> PagedEntry {
        PagedEntry {
            sequence,
            kind,
            expires_ms,
            operand: operand.into(),
        }
    }

    const BYTES: &[u8] = b"\xac\x02\x02\x00\x01+\x07\x00\x05\x041094";

    #[test]
    fn the_bytes_of_version_1_do_not_change() {
        let entries = [
            entry(300, MessageKind::Merge, 0, b"+"),
            entry(7, MessageKind::Put, 5, b"1094"),
        ];
        assert_eq!(encode(&entries), BYTES);
        assert_eq!(decode(BYTES).unwrap(), entries);
        let here = PageValue::Inline(BYTES).encode();
        assert_eq!(here, [&[0], BYTES].concat());
        assert_eq!(PageValue::decode(&here), Ok(PageValue::Inline(BYTES)));
        let pointer = PageValue::Separate(MessagePointer { page: 300, len: 9 });
        assert_eq!(pointer.encode(), [1, 0xac, 2, 9]);
        assert_eq!(PageValue::decode(&pointer.encode()), Ok(pointer));
        let mut page = [9; 16];
        write_apart(&mut page, b"Elb", Some(6));
        assert_eq!(page, *b"\x04\0\x03\0\x07\0\0\0\0\0\0\0Elb\x09");
        assert_eq!(read_apart(&page), Some((&b"Elb"[..], Some(6))));
    }

    #[test]
    fn slots_of_a_shared_page_hold_what_was_written_and_nothing_of_each_other() {
        let slot = PageValue::Shared(SharedSlot {
            page: 300,
            number: 5,
            len: 9,
        });
        assert_eq!(slot.encode(), [2, 0xac, 2, 5, 9]);
        assert_eq!(PageValue::decode(&slot.encode()), Ok(slot));
        for content_bytes in [472, 984, 4056, 16344, 65496] {
            let most = (content_bytes - APART_HEADER) / 2;
            assert_eq!(SharedPage::division(content_bytes, most), Some(2));
            assert_eq!(SharedPage::division(content_bytes, most + 1), None);
            for len in [1, 60, most / 7, most / 2, most] {
                let slots = SharedPage::division(content_bytes, len).unwrap();
                let mut page = vec![0xff; content_bytes];
                let header = |page: &[u8]| SharedPage::read(page).unwrap();
                SharedPage { slots, used: 0 }.write(&mut page);
                let mut filled = 0u8;
                while let Some(number) = header(&page).free_slot() {
                    header(&page).fill(&mut page, number, &vec![number; len]);
                    filled += 1;
                }
                assert_eq!(u16::from(filled), slots);
                for number in 0..filled {
                    let found = header(&page).slot(&page, number, len as u64);
                    assert_eq!(found, Some(&vec![number; len][..]));
                }
                assert_eq!(header(&page).slot(&page, filled, 1), None);
                assert_eq!(header(&page).slot(&page, 0, 1 << 40), None);
            }
        }
        let mut page = vec![0; 984];
        SharedPage { slots: 8, used: 7 }.write(&mut page);
        assert_eq!(page[..12], *b"\x04\x01\x08\0\x07\0\0\0\0\0\0\0");
        for (at, byte) in [(1, 2), (2, 65), (2, 1), (5, 1)] {
            let mut wrong = page.clone();
            wrong[at] = byte;
            assert_eq!(SharedPage::read(&wrong), None, "{at}");
        }
        assert!(is_apart(&page) && read_apart(&page).is_none());
    }

    #[test]
    fn what_is_cut_or_out_of_order_is_refused() {
        assert!(decode(b"").is_err() && PageValue::decode(b"").is_err());
        for len in (1..BYTES.len()).filter(|len| *len != 6) {
            assert!(decode(&BYTES[..len]).is_err(), "{len} bytes");
        }
        let refused = |at: usize, byte: u8| {
            let mut bytes = BYTES.to_vec();
            bytes[at] = byte;
            decode(&bytes).is_err()
        };
        assert!(refused(2, 4), "a kind that there is not");
        assert!(
            decode(b"\x07\x00\x00\x00\x07\x00\x00\x00").is_err(),
            "messages out of order"
        );
        let twice = decode(b"\x07\x02\x00\x01x\x07\x00\x05\x01v").unwrap();
        assert_eq!(
            twice,
            [
                entry(7, MessageKind::Merge, 0, b"x"),
                entry(6, MessageKind::Put, 5, b"v")
            ],
            "a base that earlier versions numbered as the merge above it"
        );
        for bytes in [
            &b"\x07\x02\x00\x00\x07\x02\x00\x00"[..],
            b"\x07\x02\x00\x00\x07\x00\x05\x00\x06\x00\x00\x00",
            b"\x07\x02\x00\x00\x08\x00\x05\x00",
            b"\x01\x02\x00\x00\x01\x00\x05\x00",
        ] {
            assert!(decode(bytes).is_err(), "{bytes:?}");
        }
        assert!(PageValue::decode(&[3, 1]).is_err() && PageValue::decode(&[1, 1]).is_err());
        assert!(PageValue::decode(&[2, 1, 1]).is_err() && PageValue::decode(&[2, 1, 1, 1, 1]).is_err());
        assert!(PageValue::decode(&[1, 1, 1, 1]).is_err());
        let mut page = [0; 16];
        write_apart(&mut page, b"Elbe", None);
        assert_eq!(read_apart(&page), Some((&b"Elbe"[..], None)));
        assert_eq!(read_apart(&page[..15]), None);
        page[0] = 1;
        assert_eq!(read_apart(&page), None);
    }
}
