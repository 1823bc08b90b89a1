//! The format of a page file and its journal, version 1. All integers are little-endian.
//!
//! The file begins with two superblocks of 4096 bytes each, followed by pages. The superblock with
//! the higher epoch is valid.
//!
//! A superblock:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  checksum of what follows
//!      8     8  "ALVPAGES"
//!     16     4  version, 1
//!     20     4  bytes of a page
//!     24    16  identity of the store
//!     40     8  epoch: the number of the checkpoint
//!     48     8  pages that are in use or on a free list
//!     56     8  pages of the first segment
//!     64     4  segments
//!     68     4  m: bytes of what the owner of the pages keeps here
//!     72        of each segment: the first page of its free list plus 1 (8), 0 for none;
//!               the list's length (8)
//!               m bytes
//!               zeros
//! ```
//!
//! The host of hosted pages stores a checkpoint's superblock itself, without the zeros at its end.
//! The file's own superblocks have 9 bytes of owner data. The first 8 bytes are the oldest epoch to
//! which the file can be rolled back. The last byte is 1 if a page of this checkpoint may have been
//! overwritten, and 0 otherwise. Earlier versions of the software wrote only the first 8 bytes, in
//! which case any page may have been overwritten.
//!
//! A page has a header, followed by the owner's content:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  checksum of what follows, under the page's number
//!      8    16  identity of the store
//!     24     8  the page's number
//!     32     8  epoch in which it was written: one more than that of the last checkpoint; all ones
//!               where the page is lost: it was written over, and its old image is damaged
//!     40        of the owner; of a lost page: the journal's file in which the image is damaged plus
//!               1 (1), 0 where that is not known; the offset there (8);
//!               of a free page: 255, and the next free page plus 1 (8), 0 for none
//! ```
//!
//! A journal record. Its size is the page size plus 512 bytes, and its offset is a multiple of its
//! size:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     8  checksum of what follows up to the end of the image, under the place of the record
//!      8    16  identity of the store
//!     24     8  epoch of the checkpoint to which the image belongs
//!     32     8  the page's number
//!     40   472  zeros
//!    512        the page as that checkpoint has it
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use alluvium_base::bytes::{ByteReader, ByteWriter, TruncatedInput};
use alluvium_base::checksum::seeded;

pub(super) const VERSION: u32 = 1;
const MAGIC: u64 = u64::from_le_bytes(*b"ALVPAGES");
/// Size of a superblock in bytes.
pub(super) const SUPERBLOCK: usize = 4096;
/// Size of a page's header in bytes.
pub const PAGE_HEADER: usize = 40;
/// Size of a journal record's header in bytes.
pub(super) const RECORD_HEADER: usize = 512;
/// Maximum number of bytes that the owner of the pages may store in a superblock.
pub(super) const MOST_META: usize = 1024;
const FIXED: usize = 72;
/// The first byte of a free page's content.
const FREE: u8 = 255;
/// The epoch in a lost page's header.
const LOST: u64 = u64::MAX;
/// The checksum seed for superblocks. Pages and records use their numbers as seeds, and none of
/// them has this number.
const SUPERBLOCK_SEED: u64 = u64::MAX;
const _: () = assert!(
    FIXED + 16 * super::segments::MOST_SEGMENTS + MOST_META <= SUPERBLOCK,
    "every superblock fits"
);

/// The contents of a superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PageFileSuperblock {
    pub(super) page_bytes: u32,
    pub(super) identity: u128,
    pub(super) epoch: u64,
    pub(super) high_water: u64,
    pub(super) first_segment: u64,
    /// The first page and the length of each segment's free list.
    pub(super) free: Vec<(Option<u64>, u64)>,
    pub(super) meta: Vec<u8>,
}

/// The reason why bytes are not a valid superblock of this version.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SuperblockError {
    Wrong(String),
    Newer(u32),
}

impl From<TruncatedInput> for SuperblockError {
    fn from(cut: TruncatedInput) -> SuperblockError {
        SuperblockError::Wrong(cut.to_string())
    }
}

impl PageFileSuperblock {
    pub(super) fn encode(&self) -> Vec<u8> {
        assert!(self.meta.len() <= MOST_META, "what the owner keeps fits (PB6)");
        let mut body = Vec::with_capacity(SUPERBLOCK);
        let mut writer = ByteWriter::new(&mut body);
        writer
            .u64(MAGIC)
            .u32(VERSION)
            .u32(self.page_bytes)
            .u128(self.identity);
        writer
            .u64(self.epoch)
            .u64(self.high_water)
            .u64(self.first_segment);
        writer.u32(self.free.len() as u32).u32(self.meta.len() as u32);
        for (head, len) in &self.free {
            writer.u64(head.map_or(0, |head| head + 1)).u64(*len);
        }
        writer.bytes(&self.meta);
        body.resize(SUPERBLOCK - 8, 0);
        let mut out = Vec::with_capacity(SUPERBLOCK);
        ByteWriter::new(&mut out)
            .u64(seeded(SUPERBLOCK_SEED, &body))
            .bytes(&body);
        assert_eq!(out.len(), SUPERBLOCK, "a superblock has its size");
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<PageFileSuperblock, SuperblockError> {
        let mut reader = ByteReader::new(bytes);
        let sum = reader.u64()?;
        let body = bytes.get(8..SUPERBLOCK).unwrap_or_default();
        if body.is_empty() || seeded(SUPERBLOCK_SEED, body) != sum {
            return Err(SuperblockError::Wrong("a wrong checksum".to_owned()));
        }
        if reader.u64()? != MAGIC {
            return Err(SuperblockError::Wrong("another kind of file".to_owned()));
        }
        let version = reader.u32()?;
        if version != VERSION {
            return Err(SuperblockError::Newer(version));
        }
        let page_bytes = reader.u32()?;
        let identity = reader.u128()?;
        let (epoch, high_water, first_segment) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (segments, meta) = (reader.u32()? as usize, reader.u32()? as usize);
        if segments > super::segments::MOST_SEGMENTS || meta > MOST_META {
            return Err(SuperblockError::Wrong(format!(
                "{segments} segments and {meta} bytes"
            )));
        }
        let mut free = Vec::with_capacity(segments);
        for _ in 0..segments {
            free.push((reader.u64()?.checked_sub(1), reader.u64()?));
        }
        let meta = reader.take(meta)?.to_vec();
        Ok(PageFileSuperblock {
            page_bytes,
            identity,
            epoch,
            high_water,
            first_segment,
            free,
            meta,
        })
    }
}

impl PageFileSuperblock {
    /// Returns the encoded superblock without the zeros at its end. The host stores a root in this
    /// form.
    pub(super) fn encode_short(&self) -> Vec<u8> {
        let mut bytes = self.encode();
        bytes.truncate(FIXED + 16 * self.free.len() + self.meta.len());
        bytes
    }

    /// Decodes a superblock that was encoded by [`PageFileSuperblock::encode_short`].
    pub(super) fn decode_short(bytes: &[u8]) -> Result<PageFileSuperblock, SuperblockError> {
        let mut whole = bytes.to_vec();
        if whole.len() > SUPERBLOCK {
            return Err(SuperblockError::Wrong(format!("{} bytes", whole.len())));
        }
        whole.resize(SUPERBLOCK, 0);
        let superblock = PageFileSuperblock::decode(&whole)?;
        match FIXED + 16 * superblock.free.len() + superblock.meta.len() == bytes.len() {
            true => Ok(superblock),
            false => Err(SuperblockError::Wrong(format!("{} bytes", bytes.len()))),
        }
    }
}

/// Whether pages of the last checkpoint may have been overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OverwriteState {
    None,
    /// Pages may have been overwritten. The journal contains their old images.
    Possible,
}

/// The owner data in a hosted file's own superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HostedMeta {
    /// The epoch of the oldest checkpoint to which the file can be rolled back.
    pub(super) oldest: u64,
    pub(super) overwrites: OverwriteState,
}

impl HostedMeta {
    pub(super) fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(9);
        ByteWriter::new(&mut out)
            .u64(self.oldest)
            .u8(u8::from(self.overwrites == OverwriteState::Possible));
        out
    }

    /// Decodes the owner data. Returns `None` if it is malformed. If it has no flag for overwrites,
    /// they are assumed to be possible.
    pub(super) fn decode(meta: &[u8]) -> Option<HostedMeta> {
        let mut reader = ByteReader::new(meta);
        let oldest = reader.u64().ok()?;
        let overwrites = match (reader.remaining(), reader.u8()) {
            (0, _) | (1, Ok(1)) => OverwriteState::Possible,
            (1, Ok(0)) => OverwriteState::None,
            _ => return None,
        };
        Some(HostedMeta { oldest, overwrites })
    }
}

/// The reason why a page is invalid.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PageFault {
    Damaged { expected: String, found: String },
    Foreign(u128),
}

fn put(page: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = page.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

fn u64_at(page: &[u8], at: usize) -> u64 {
    let bytes = page.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn u128_at(page: &[u8], at: usize) -> u128 {
    let bytes = page.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u128::from_le_bytes(*bytes))
}

/// Writes the header of a page, including the checksum of the whole page.
pub(super) fn seal_page(page: &mut [u8], number: u64, identity: u128, epoch: u64) {
    assert!(page.len() > PAGE_HEADER, "a page has content");
    put(page, 8, &identity.to_le_bytes());
    put(page, 24, &number.to_le_bytes());
    put(page, 32, &epoch.to_le_bytes());
    let sum = seeded(number, page.get(8..).unwrap_or_default());
    put(page, 0, &sum.to_le_bytes());
}

/// Checks a page that was read from the device (PB5): its checksum, store identity and page number
/// must match, and its epoch must not exceed `newest`.
pub(super) fn check_page(page: &[u8], number: u64, identity: u128, newest: u64) -> Result<(), PageFault> {
    let (stored, sum) = (u64_at(page, 0), seeded(number, page.get(8..).unwrap_or_default()));
    let damaged = |expected: String, found: String| Err(PageFault::Damaged { expected, found });
    if stored != sum {
        return damaged(format!("the checksum {stored:016x}"), format!("{sum:016x}"));
    }
    let found = u128_at(page, 8);
    if found != identity {
        return Err(PageFault::Foreign(found));
    }
    if u64_at(page, 24) != number {
        return damaged(format!("page {number}"), format!("page {}", u64_at(page, 24)));
    }
    let epoch = u64_at(page, 32);
    if epoch == LOST {
        return damaged(
            "the page as its checkpoint had it".to_owned(),
            match read_lost(page) {
                Some((file, offset)) => {
                    format!(
                        "one that was written over, whose old image in journal {file} is damaged at offset {offset}"
                    )
                }
                None => "one that was written over, whose old image the journal lacks".to_owned(),
            },
        );
    }
    if epoch > newest {
        return damaged(format!("an epoch up to {newest}"), format!("epoch {epoch}"));
    }
    Ok(())
}

/// Returns whether a page is valid and newer than the checkpoint with the epoch `checkpoint`.
pub(super) fn is_later(page: &[u8], number: u64, identity: u128, checkpoint: u64) -> bool {
    let epoch = u64_at(page, 32);
    epoch > checkpoint && epoch != LOST && check_page(page, number, identity, u64::MAX).is_ok()
}

/// Marks a page as lost. If the location of the page's damaged old image is known, `place` is the
/// index of the journal file and the offset.
pub(super) fn seal_lost(page: &mut [u8], number: u64, identity: u128, place: Option<(u8, u64)>) {
    let (file, offset) = place.map_or((0, 0), |(file, offset)| (file.saturating_add(1), offset));
    put(page, PAGE_HEADER, &[file]);
    put(page, PAGE_HEADER + 1, &offset.to_le_bytes());
    seal_page(page, number, identity, LOST);
    assert!(read_lost(page) == place, "a lost page says why");
}

/// Returns the location of a lost page's damaged old image, if it is known.
fn read_lost(page: &[u8]) -> Option<(u8, u64)> {
    let file = page.get(PAGE_HEADER)?.checked_sub(1)?;
    Some((file, u64_at(page, PAGE_HEADER + 1)))
}

/// Writes the content of a free page. `next` is the next page on the free list, if any.
pub(super) fn write_free(content: &mut [u8], next: Option<u64>) {
    put(content, 0, &[FREE]);
    put(content, 1, &next.map_or(0, |next| next + 1).to_le_bytes());
    assert!(read_free(content) == Some(next), "a free page reads as one");
}

/// Returns the next page on the free list, or `None` if the content is not that of a free page.
pub(super) fn read_free(content: &[u8]) -> Option<Option<u64>> {
    (content.first() == Some(&FREE)).then(|| u64_at(content, 1).checked_sub(1))
}

/// Writes a journal record's header, which precedes the image. `index` is the index of the record
/// in the file.
pub(super) fn seal_record(record: &mut [u8], index: u64, identity: u128, epoch: u64, page: u64) {
    assert!(record.len() > RECORD_HEADER, "a record has an image");
    put(record, 8, &identity.to_le_bytes());
    put(record, 24, &epoch.to_le_bytes());
    put(record, 32, &page.to_le_bytes());
    let sum = seeded(index, record.get(8..).unwrap_or_default());
    put(record, 0, &sum.to_le_bytes());
}

/// Returns the epoch and the page number in a damaged record of this store. Either may be wrong.
/// Returns `None` if the record has another store identity.
pub(super) fn names_of(record: &[u8], identity: u128) -> Option<(u64, u64)> {
    (u128_at(record, 8) == identity).then(|| (u64_at(record, 24), u64_at(record, 32)))
}

/// Returns the epoch, the page number and the image in a journal record. Returns `None` if the
/// record is invalid or belongs to another store.
pub(super) fn open_record(record: &[u8], index: u64, identity: u128) -> Option<(u64, u64, &[u8])> {
    let sum = seeded(index, record.get(8..)?);
    let genuine = u64_at(record, 0) == sum && u128_at(record, 8) == identity;
    genuine.then_some((
        u64_at(record, 24),
        u64_at(record, 32),
        record.get(RECORD_HEADER..)?,
    ))
}

/// Decodes bytes as a superblock, a root, a page and a record, and returns how many of these
/// formats accept them. Whatever is decoded is encoded again and compared with the input. `node`
/// checks a page's content.
pub(in crate::paged) fn reread(bytes: &[u8], node: &dyn Fn(&[u8]) -> bool) -> usize {
    let mut found = 0;
    let mut block = bytes.to_vec();
    block.resize(SUPERBLOCK, 0);
    let sum = seeded(SUPERBLOCK_SEED, block.get(8..).unwrap_or_default());
    put(&mut block, 0, &sum.to_le_bytes());
    if let Ok(superblock) = PageFileSuperblock::decode(&block) {
        let again = PageFileSuperblock::decode(&superblock.encode());
        assert_eq!(
            again.as_ref(),
            Ok(&superblock),
            "a superblock is written as it was read"
        );
        let short = PageFileSuperblock::decode_short(&superblock.encode_short());
        assert_eq!(short.as_ref(), Ok(&superblock), "and so is a root");
        let hosted = HostedMeta::decode(&superblock.meta);
        let is_same = |hosted: HostedMeta| HostedMeta::decode(&hosted.encode()) == Some(hosted);
        assert!(hosted.is_none_or(is_same), "and so are the owner's bytes");
        let segments = super::segments::FileSegments::of(&superblock, u64::MAX);
        assert!(segments.is_none_or(|segments| segments.high_water() <= segments.pages()));
        found += 1;
    }
    let mut page = bytes.to_vec();
    if page.len() > PAGE_HEADER {
        let (number, identity) = (u64_at(&page, 24), u128_at(&page, 8));
        let sum = seeded(number, page.get(8..).unwrap_or_default());
        put(&mut page, 0, &sum.to_le_bytes());
        let content = page.get(PAGE_HEADER..).unwrap_or_default();
        let is_sound = check_page(&page, number, identity, u64::MAX).is_ok();
        found += usize::from(is_sound && (node(content) || read_free(content).is_some()));
    }
    let sum = seeded(0, bytes.get(8..).unwrap_or_default());
    let mut record = bytes.to_vec();
    put(&mut record, 0, &sum.to_le_bytes());
    if let Some((epoch, page, image)) = open_record(&record, 0, u128_at(&record, 8)) {
        assert_eq!(
            image.len() + RECORD_HEADER,
            record.len(),
            "an image ends a record"
        );
        found += usize::from(epoch != page && !image.is_empty());
    }
    found
}

/// Returns examples of a superblock, a root, a page and a record.
pub(in crate::paged) fn examples() -> Vec<Vec<u8>> {
    let superblock = PageFileSuperblock {
        page_bytes: 512,
        identity: 0x0102,
        epoch: 7,
        high_water: 90,
        first_segment: 64,
        free: vec![(Some(3), 2), (None, 0)],
        meta: HostedMeta {
            oldest: 6,
            overwrites: OverwriteState::None,
        }
        .encode(),
    };
    let mut page = vec![0; 512];
    if let Some(content) = page.get_mut(PAGE_HEADER..) {
        write_free(content, Some(4));
    }
    seal_page(&mut page, 9, 0x0102, 8);
    let mut record = vec![0; RECORD_HEADER];
    record.extend_from_slice(&page);
    seal_record(&mut record, 0, 0x0102, 7, 9);
    vec![superblock.encode(), superblock.encode_short(), page, record]
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_base::checksum;

    fn superblock() -> PageFileSuperblock {
        PageFileSuperblock {
            page_bytes: 16384,
            identity: 0x0102,
            epoch: 7,
            high_water: 90,
            first_segment: 64,
            free: vec![(Some(3), 2), (None, 0)],
            meta: b"root".to_vec(),
        }
    }

    #[test]
    fn the_bytes_of_version_1_do_not_change() {
        let bytes = superblock().encode();
        let mut sums = vec![checksum(&bytes)];
        let mut page = vec![0; 512];
        write_free(&mut page[PAGE_HEADER..], Some(4));
        seal_page(&mut page, 9, 0x0102, 8);
        sums.push(checksum(&page));
        let mut record = vec![0; 1024];
        record[RECORD_HEADER..].copy_from_slice(&page);
        seal_record(&mut record, 2, 0x0102, 7, 9);
        sums.push(checksum(&record));
        let expected = [
            0x7b80_d6cc_0364_33fd,
            0x092d_4b8d_415d_a067,
            0x12f3_e578_a265_e768,
        ];
        assert_eq!(sums, expected, "superblock, page, record");
    }

    #[test]
    fn what_was_written_is_read() {
        assert_eq!(
            PageFileSuperblock::decode(&superblock().encode()),
            Ok(superblock())
        );
        let short = superblock().encode_short();
        assert_eq!(short.len(), FIXED + 32 + 4);
        assert_eq!(PageFileSuperblock::decode_short(&short), Ok(superblock()));
        for len in 0..short.len() {
            assert!(PageFileSuperblock::decode_short(&short[..len]).is_err(), "{len}");
        }
        assert!(PageFileSuperblock::decode_short(&[&short[..], &[0]].concat()).is_err());
        for overwrites in [OverwriteState::None, OverwriteState::Possible] {
            let hosted = HostedMeta {
                oldest: 0x0102,
                overwrites,
            };
            assert_eq!(HostedMeta::decode(&hosted.encode()), Some(hosted));
        }
        let earlier = HostedMeta::decode(b"\x02\x01\0\0\0\0\0\0");
        let earlier = earlier.map(|earlier| (earlier.oldest, earlier.overwrites));
        assert_eq!(earlier, Some((0x0102, OverwriteState::Possible)));
        assert_eq!(HostedMeta::decode(b"root"), None);
        assert_eq!(HostedMeta::decode(b"\x02\x01\0\0\0\0\0\0\x02"), None);
        let mut page = vec![0; 512];
        write_free(&mut page[PAGE_HEADER..], None);
        seal_page(&mut page, 9, 5, 8);
        assert_eq!(check_page(&page, 9, 5, 8), Ok(()));
        assert_eq!(read_free(&page[PAGE_HEADER..]), Some(None));
        assert_eq!(read_free(&[1, 0]), None);
    }

    #[test]
    fn no_flipped_bit_passes() {
        let bytes = superblock().encode();
        for at in 0..FIXED + 40 {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            assert!(PageFileSuperblock::decode(&wrong).is_err(), "{at}");
        }
        let mut page = vec![0; 512];
        seal_page(&mut page, 9, 5, 8);
        for at in 0..512 {
            let mut wrong = page.clone();
            wrong[at] ^= 16;
            assert!(check_page(&wrong, 9, 5, 8).is_err(), "{at}");
        }
    }

    #[test]
    fn pages_of_another_place_store_or_future_are_refused() {
        let mut page = vec![0; 512];
        seal_page(&mut page, 9, 5, 8);
        assert!(matches!(
            check_page(&page, 10, 5, 8),
            Err(PageFault::Damaged { .. })
        ));
        assert_eq!(check_page(&page, 9, 6, 8), Err(PageFault::Foreign(5)));
        assert!(matches!(
            check_page(&page, 9, 5, 7),
            Err(PageFault::Damaged { .. })
        ));
    }

    #[test]
    fn records_of_another_place_store_or_checkpoint_are_refused() {
        let mut record = vec![0; 1024];
        seal_record(&mut record, 2, 5, 7, 9);
        let opened = open_record(&record, 2, 5).map(|(epoch, page, _)| (epoch, page));
        assert_eq!(opened, Some((7, 9)));
        assert!(open_record(&record, 3, 5).is_none());
        assert!(open_record(&record, 2, 6).is_none());
        record[600] = 1;
        assert!(open_record(&record, 2, 5).is_none());
    }

    #[test]
    fn a_newer_version_and_short_bytes_are_told() {
        let mut bytes = superblock().encode();
        bytes[16] = 2;
        let sum = seeded(SUPERBLOCK_SEED, &bytes[8..]);
        bytes[..8].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(PageFileSuperblock::decode(&bytes), Err(SuperblockError::Newer(2)));
        assert!(matches!(
            PageFileSuperblock::decode(&bytes[..70]),
            Err(SuperblockError::Wrong(_))
        ));
    }
}
