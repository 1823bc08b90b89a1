//! The encoding of the server's keys and values in the store, format versions 3 and 4.
//!
//! Keys of the keyspace `redis`: D is the stored number of the Redis database, 0 to 15, and C is
//! the number of a collection. Integers in keys are big-endian, so that byte order equals numeric
//! order.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  D, or 254 for what belongs to the server
//!      1     1  what the key is of:
//!               'k' the record of a user's key: the key follows
//!               'e' an element: C (8 bytes), then
//!                   of a list, its position (8 bytes, signed, the sign bit turned over)
//!                   of a hash, the XXH3 of the field (8 bytes), then the field
//!                   of a set, the XXH3 of the member (8 bytes), then the member
//!                   of a sorted set, 'm', the XXH3 of the member (8 bytes), then the member; or
//!                   's', the score (8 bytes, its bits turned over as IEEE 754's total order wants), then the member; or,
//!                   of a set that is counted, 'o', then bytes that stand between two elements' bytes behind 's', or none
//!               'c' a collection that has elements: C (8 bytes)
//!               'g' elements that no record has yet, and none will have if the server ends before: C (8 bytes)
//!               'x' a collection that expires: when (8 bytes), C (8 bytes)
//!               'n' the server's: up to where numbers of collections were handed out
//!               't' the server's: the latest time that it has seen
//!               'v' the server's: the version of these bytes; a store without it has version 1
//!               'd' the server's: under which D each database is stored, if any was swapped
//! ```
//!
//! Version 1 has neither 'c' nor 'g' keys, and its sorted sets are not counted. Version 2 has no
//! 'd' key. A server upgrades a store of either version when it opens the store
//! (`store/upgrade.rs`). It refuses a store with a version higher than those described here.
//!
//! Version 4 is version 3 with hashed records (`store/records.rs`). Its keyspace `redis` has no 'k'
//! keys. Instead, the unordered keyspace `redis.keys.D` contains the records of database D under
//! the users' keys, without a prefix.
//!
//! A user key's record has the following format, with little-endian integers.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  type: 0 string, 1 list, 2 set, 3 sorted set, 4 hash; 64 more for a sorted set that is counted; 128 more if
//!               it expires
//!      1   0,8  when it expires, in milliseconds since 1970
//!              of a string, its value
//!           8  of a collection, C
//!           8  how many elements
//!           8  of a list, its first position
//! ```
//!
//! The other keys have these values: An element of a list or hash has its content as the value. The
//! elements of a set and the 's' keys have empty values. The value of 'm' is the score (8 bytes).
//! The value of 'o' is the number of 's' keys from the start of its chunk to the start of the next
//! chunk (8 bytes). The value of 'c' is the XXH3 of the user's key (8 bytes), that of 'g' is empty,
//! and that of 'x' is the user's key. The values of 'n', 't' and 'v' are 8 bytes long. The value of
//! 'd' is 16 bytes long: the D of each of the databases 0 to 15, all distinct.
//!
//! In the keyspace `memcached`, the keys are the users' keys. The values have the following format:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  the user's flags
//!      4     8  what CAS compares
//!     12     8  when it expires, in milliseconds since 1970; 0 for never
//!     20     4  when it was last touched, in seconds since 1970
//!     24     1  1 if it is stale, 2 if a client was told to renew it
//!     25        the item
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::{CollectionHeader, CollectionKind};
use smallvec::SmallVec;
use std::fmt;
use twox_hash::XxHash3_64;

/// An encoded key, usually short enough to be stored inline without an allocation.
pub(crate) type InnerKey = SmallVec<[u8; 48]>;

const DATABASES: usize = 16;

const SERVER: u8 = 254;
const RECORD: u8 = b'k';
const ELEMENT: u8 = b'e';
const COLLECTION: u8 = b'c';
const STAGED: u8 = b'g';
const EXPIRY: u8 = b'x';
const MEMBER: u8 = b'm';
const CHUNK: u8 = b'o';
const SCORE: u8 = b's';
const COUNTED: u8 = 64;
const EXPIRES: u8 = 128;

/// Format version of stores with ordered records, which are all in the keyspace `redis`.
pub(crate) const VERSION: u64 = 3;

/// Format version of stores with hashed records, which are in one unordered keyspace per database.
pub(crate) const HASHED_VERSION: u64 = 4;

/// Name prefix of the keyspaces with hashed records, followed by the database's stored number.
const RECORDS_NAME: &str = "redis.keys.";

/// Length in bytes of the key prefix that all elements of a collection share.
pub(crate) const ELEMENT_PREFIX: usize = 10;

/// The error for a record that this format version cannot decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DamagedRecord {
    what: &'static str,
    bytes: usize,
}

impl fmt::Display for DamagedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} bytes is damaged; check the store with `alluvium check`",
            self.what, self.bytes
        )
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DecodedRecord {
    Text { expires_ms: u64, skip: usize },
    Collection(CollectionHeader),
}

/// Returns the key of the record for a user's key.
pub(crate) fn record_key(database: u8, key: &[u8]) -> InnerKey {
    let mut inner = InnerKey::with_capacity(2 + key.len());
    inner.extend_from_slice(&[database, RECORD]);
    inner.extend_from_slice(key);
    inner
}

/// Returns the name of the unordered keyspace with a database's hashed records.
pub(crate) fn records_name(database: u8) -> String {
    format!("{RECORDS_NAME}{database}")
}

/// Returns whether `name` is the name of a keyspace of hashed records.
pub(crate) fn is_records_name(name: &str) -> bool {
    let number = name.strip_prefix(RECORDS_NAME).map(str::parse::<u8>);
    // Reject non-canonical spellings of the number, such as `redis.keys.07` and `redis.keys.+7`.
    matches!(number, Some(Ok(number)) if usize::from(number) < DATABASES && records_name(number) == name)
}

/// Returns whether an encoded key belongs to a record.
pub(crate) fn is_record(inner: &[u8]) -> bool {
    inner.get(1) == Some(&RECORD)
}

/// Extracts the user's key from a record's key.
pub(crate) fn user_key(inner: &[u8]) -> &[u8] {
    inner.get(2..).unwrap_or_default()
}

/// Returns the key range (start and exclusive end) of all records of a database.
pub(crate) fn records(database: u8) -> (InnerKey, InnerKey) {
    ([database, RECORD][..].into(), [database, RECORD + 1][..].into())
}

/// Returns the key range (start and exclusive end) of all data of a database.
pub(crate) fn everything(database: u8) -> (InnerKey, InnerKey) {
    ([database][..].into(), [database + 1][..].into())
}

/// Returns the key range of the elements of all collections in a database.
pub(crate) fn all_elements(database: u8) -> (InnerKey, InnerKey) {
    ([database, ELEMENT][..].into(), [database, ELEMENT + 1][..].into())
}

/// Returns the common key prefix of the elements of a collection.
pub(crate) fn elements(database: u8, number: u64) -> InnerKey {
    let mut inner: InnerKey = [database, ELEMENT][..].into();
    inner.extend_from_slice(&number.to_be_bytes());
    inner
}

/// Returns whether all keys from `start` to `end` (exclusive) are elements of a single collection.
pub(crate) fn are_of_one_collection(start: &[u8], end: &[u8]) -> bool {
    match start.first_chunk::<ELEMENT_PREFIX>() {
        Some(prefix) => prefix[1] == ELEMENT && *end <= *behind(prefix),
        None => false,
    }
}

/// Returns the smallest key greater than all keys with this prefix, which must not consist only of
/// 0xff bytes.
pub(crate) fn behind(prefix: &[u8]) -> InnerKey {
    let mut end: InnerKey = prefix.into();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

/// Returns the hash of an element. Hashes and sets store their elements in hash order.
pub(crate) fn place(element: &[u8]) -> u64 {
    XxHash3_64::oneshot(element)
}

/// Returns the key of an element of a hash or set; `member` is the field or the member.
pub(crate) fn member_key(database: u8, number: u64, member: &[u8]) -> InnerKey {
    let mut inner = place_key(database, number, place(member));
    inner.extend_from_slice(member);
    inner
}

/// Returns the smallest possible key of an element of a hash or set whose hash is at least `place`.
pub(crate) fn place_key(database: u8, number: u64, place: u64) -> InnerKey {
    let mut inner = elements(database, number);
    inner.extend_from_slice(&place.to_be_bytes());
    inner
}

/// Splits the key of an element of a hash or set into the element's hash and the element itself.
pub(crate) fn member_of(inner: &[u8]) -> (u64, &[u8]) {
    split_place(inner.get(ELEMENT_PREFIX..).unwrap_or_default())
}

/// Splits an 'm' key of a sorted set into the hash of the member and the member itself.
pub(crate) fn sorted_member_of(inner: &[u8]) -> (u64, &[u8]) {
    split_place(inner.get(ELEMENT_PREFIX + 1..).unwrap_or_default())
}

fn split_place(bytes: &[u8]) -> (u64, &[u8]) {
    match bytes.split_first_chunk() {
        Some((place, member)) => (u64::from_be_bytes(*place), member),
        None => (0, &[]),
    }
}

/// Returns the key of the list element at a position.
pub(crate) fn position_key(database: u8, number: u64, position: i64) -> InnerKey {
    let mut inner = elements(database, number);
    inner.extend_from_slice(&(position ^ i64::MIN).to_be_bytes());
    inner
}

/// Returns the smallest possible 'm' key of a sorted set's member whose hash is at least `place`.
pub(crate) fn sorted_place_key(database: u8, number: u64, place: u64) -> InnerKey {
    let mut inner = elements(database, number);
    inner.push(MEMBER);
    inner.extend_from_slice(&place.to_be_bytes());
    inner
}

/// Returns the 'm' key of a member of a sorted set. Its value is the member's score.
pub(crate) fn sorted_member_key(database: u8, number: u64, member: &[u8]) -> InnerKey {
    let mut inner = sorted_place_key(database, number, place(member));
    inner.extend_from_slice(member);
    inner
}

/// Returns the exclusive upper bound of the 'm' keys of a sorted set.
pub(crate) fn sorted_members_end(database: u8, number: u64) -> InnerKey {
    let mut inner = elements(database, number);
    inner.push(MEMBER + 1);
    inner
}

/// Returns the key under which a sorted set stores the element count of the chunk that begins at
/// `start`.
pub(crate) fn chunk_key(database: u8, number: u64, start: &[u8]) -> InnerKey {
    let mut inner = elements(database, number);
    inner.push(CHUNK);
    inner.extend_from_slice(start);
    inner
}

/// Extracts the start of a chunk from the key that stores its element count.
pub(crate) fn chunk_start(inner: &[u8]) -> &[u8] {
    score_place(inner)
}

/// Returns the key range of the chunk counts of a sorted set.
pub(crate) fn chunks(database: u8, number: u64) -> (InnerKey, InnerKey) {
    let start = chunk_key(database, number, b"");
    let end = behind(&start);
    (start, end)
}

/// Strips the sorted set's common prefix from a score key or chunk key. The rest determines the
/// order within the set.
pub(crate) fn score_place(inner: &[u8]) -> &[u8] {
    inner.get(ELEMENT_PREFIX + 1..).unwrap_or_default()
}

/// Returns the key range of the 's' keys of a sorted set, which are in score order.
pub(crate) fn scores(database: u8, number: u64) -> (InnerKey, InnerKey) {
    let mut start = elements(database, number);
    let mut end = start.clone();
    start.push(SCORE);
    end.push(SCORE + 1);
    (start, end)
}

/// Returns the 's' key of a member with a score. An empty member yields the smallest possible key
/// with that score.
pub(crate) fn score_key(database: u8, number: u64, score: f64, member: &[u8]) -> InnerKey {
    let mut inner = elements(database, number);
    inner.push(SCORE);
    // Redis treats minus zero as zero.
    let bits = (score + 0.0).to_bits();
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    inner.extend_from_slice(&ordered.to_be_bytes());
    inner.extend_from_slice(member);
    inner
}

/// Splits an 's' key of a sorted set into the score and the member.
pub(crate) fn scored_member_of(inner: &[u8]) -> (f64, &[u8]) {
    let (ordered, member) = split_place(inner.get(ELEMENT_PREFIX + 1..).unwrap_or_default());
    let bits = if ordered >> 63 == 1 {
        ordered & !(1 << 63)
    } else {
        !ordered
    };
    (f64::from_bits(bits), member)
}

/// Encodes a score as the value of an 'm' key.
pub(crate) fn encode_score(score: f64) -> [u8; 8] {
    score.to_bits().to_le_bytes()
}

/// Decodes a score from the value of an 'm' key.
pub(crate) fn decode_score(value: &[u8]) -> Result<f64, DamagedRecord> {
    Ok(f64::from_bits(decode_number(value)?))
}

/// Returns the key of the mark that every collection with elements has.
pub(crate) fn collection_key(database: u8, number: u64) -> InnerKey {
    let mut inner: InnerKey = [database, COLLECTION][..].into();
    inner.extend_from_slice(&number.to_be_bytes());
    inner
}

/// Returns the key range of the marks of all collections in a database.
pub(crate) fn collections(database: u8) -> (InnerKey, InnerKey) {
    (
        [database, COLLECTION][..].into(),
        [database, COLLECTION + 1][..].into(),
    )
}

/// Returns the key of the mark for staged elements, whose collection has no record yet.
pub(crate) fn staged_key(database: u8, number: u64) -> InnerKey {
    let mut inner: InnerKey = [database, STAGED][..].into();
    inner.extend_from_slice(&number.to_be_bytes());
    inner
}

/// Returns the key range of the marks of all staged collections in a database.
pub(crate) fn all_staged(database: u8) -> (InnerKey, InnerKey) {
    ([database, STAGED][..].into(), [database, STAGED + 1][..].into())
}

/// Extracts the collection number from the key of a staged collection's mark.
pub(crate) fn staged_number(inner: &[u8]) -> Option<u64> {
    expiring_number(inner)
}

/// Returns the key range of a database's expiry index, which lists the collections that expire.
pub(crate) fn all_expiries(database: u8) -> (InnerKey, InnerKey) {
    ([database, EXPIRY][..].into(), [database, EXPIRY + 1][..].into())
}

/// Returns the key of a collection's entry in the expiry index.
pub(crate) fn expiry_key(database: u8, expires_ms: u64, number: u64) -> InnerKey {
    let mut inner: InnerKey = [database, EXPIRY][..].into();
    inner.extend_from_slice(&expires_ms.to_be_bytes());
    inner.extend_from_slice(&number.to_be_bytes());
    inner
}

/// Returns the key range of the expiry index entries whose expiry time is `now_ms` or earlier.
pub(crate) fn expired(database: u8, now_ms: u64) -> (InnerKey, InnerKey) {
    (
        [database, EXPIRY][..].into(),
        expiry_key(database, now_ms.saturating_add(1), 0),
    )
}

/// Extracts the collection number from the key of an expiry index entry.
pub(crate) fn expiring_number(inner: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*inner.last_chunk()?))
}

/// Returns the key whose value is the first collection number that has not been reserved for
/// allocation yet.
pub(crate) fn numbers_key() -> InnerKey {
    [SERVER, b'n'][..].into()
}

/// Returns the key that stores the format version.
pub(crate) fn version_key() -> InnerKey {
    [SERVER, b'v'][..].into()
}

/// Returns the key that stores the latest time the server has recorded.
pub(crate) fn time_key() -> InnerKey {
    [SERVER, b't'][..].into()
}

/// Returns the key that stores the mapping from databases to their stored numbers D.
pub(crate) fn databases_key() -> InnerKey {
    [SERVER, b'd'][..].into()
}

/// Encodes a mapping of databases as the value of [`databases_key`].
pub(crate) fn encode_databases(numbers: &[u8; DATABASES]) -> [u8; DATABASES] {
    *numbers
}

/// Decodes the value of [`databases_key`]. Returns `None` unless the value has the right length and
/// contains each number from 0 to 15 exactly once.
pub(crate) fn decode_databases(bytes: &[u8]) -> Option<[u8; DATABASES]> {
    let numbers: [u8; DATABASES] = bytes.try_into().ok()?;
    let seen = numbers
        .iter()
        .filter(|&&number| usize::from(number) < DATABASES)
        .fold(0_u16, |seen, &number| seen | 1 << number);
    (seen == u16::MAX).then_some(numbers)
}

pub(crate) fn encode_number(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

pub(crate) fn decode_number(value: &[u8]) -> Result<u64, DamagedRecord> {
    let bytes = value.try_into().map_err(|_| DamagedRecord {
        what: "a number",
        bytes: value.len(),
    })?;
    Ok(u64::from_le_bytes(bytes))
}

fn encode_head(out: &mut Vec<u8>, kind: u8, expires_ms: u64) {
    if expires_ms == 0 {
        out.push(kind);
    } else {
        out.push(kind | EXPIRES);
        out.extend_from_slice(&expires_ms.to_le_bytes());
    }
}

/// Encodes the record of a string, which is the concatenation of `parts`.
pub(crate) fn encode_text(parts: &[&[u8]], expires_ms: u64) -> Vec<u8> {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(9 + bytes);
    write_text(&mut out, parts, expires_ms);
    out
}

/// Appends the encoded record of a string to `out`. The string is the concatenation of `parts`.
pub(crate) fn write_text(out: &mut Vec<u8>, parts: &[&[u8]], expires_ms: u64) {
    encode_head(out, 0, expires_ms);
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// Encodes the record of a collection, which contains its header.
pub(crate) fn encode_collection(collection: &CollectionHeader) -> Vec<u8> {
    let kind = match collection.kind {
        CollectionKind::List => 1,
        CollectionKind::Set => 2,
        CollectionKind::SortedSet => 3,
        CollectionKind::Hash => 4,
    };
    let kind = if collection.is_counted {
        kind | COUNTED
    } else {
        kind
    };
    let mut out = Vec::with_capacity(33);
    encode_head(&mut out, kind, collection.expires_ms);
    out.extend_from_slice(&collection.number.to_le_bytes());
    out.extend_from_slice(&collection.count.to_le_bytes());
    if collection.kind == CollectionKind::List {
        out.extend_from_slice(&collection.head.to_le_bytes());
    }
    out
}

/// Decodes the record of a user's key.
pub(crate) fn decode_record(record: &[u8]) -> Result<DecodedRecord, DamagedRecord> {
    decode(record).ok_or(DamagedRecord {
        what: "the record of a key",
        bytes: record.len(),
    })
}

fn decode(record: &[u8]) -> Option<DecodedRecord> {
    let (&first, mut rest) = record.split_first()?;
    let mut next = || {
        let (bytes, behind) = rest.split_first_chunk::<8>()?;
        rest = behind;
        Some(u64::from_le_bytes(*bytes))
    };
    let expires_ms = if first & EXPIRES == 0 { 0 } else { next()? };
    let mut is_counted = false;
    let kind = match first & !EXPIRES {
        0 => {
            let skip = if expires_ms == 0 { 1 } else { 9 };
            return Some(DecodedRecord::Text { expires_ms, skip });
        }
        1 => CollectionKind::List,
        2 => CollectionKind::Set,
        3 => CollectionKind::SortedSet,
        4 => CollectionKind::Hash,
        67 => {
            is_counted = true;
            CollectionKind::SortedSet
        }
        _ => return None,
    };
    let collection = CollectionHeader {
        kind,
        expires_ms,
        number: next()?,
        count: next()?,
        head: if kind == CollectionKind::List {
            next()?.cast_signed()
        } else {
            0
        },
        is_counted,
        is_new: false,
    };
    rest.is_empty().then_some(DecodedRecord::Collection(collection))
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemcachedItem<'v> {
    pub(crate) flags: u32,
    pub(crate) cas: u64,
    pub(crate) expires_ms: u64,
    pub(crate) touched: u32,
    pub(crate) staleness: u8,
    pub(crate) value: &'v [u8],
}

pub(crate) fn encode_item(item: &MemcachedItem<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(25 + item.value.len());
    out.extend_from_slice(&item.flags.to_le_bytes());
    out.extend_from_slice(&item.cas.to_le_bytes());
    out.extend_from_slice(&item.expires_ms.to_le_bytes());
    out.extend_from_slice(&item.touched.to_le_bytes());
    out.push(item.staleness);
    out.extend_from_slice(item.value);
    out
}

pub(crate) fn decode_item(stored: &[u8]) -> Result<MemcachedItem<'_>, DamagedRecord> {
    let item = || {
        let (flags, rest) = stored.split_first_chunk()?;
        let (cas, rest) = rest.split_first_chunk()?;
        let (expires_ms, rest) = rest.split_first_chunk()?;
        let (touched, rest) = rest.split_first_chunk()?;
        let (&staleness, value) = rest.split_first()?;
        Some(MemcachedItem {
            flags: u32::from_le_bytes(*flags),
            cas: u64::from_le_bytes(*cas),
            expires_ms: u64::from_le_bytes(*expires_ms),
            touched: u32::from_le_bytes(*touched),
            staleness,
            value,
        })
    };
    item().ok_or(DamagedRecord {
        what: "an item",
        bytes: stored.len(),
    })
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    #[test]
    fn keyspaces_of_hashed_records_are_known_by_their_names() {
        assert_eq!((VERSION, HASHED_VERSION), (3, 4));
        assert_eq!(records_name(15), "redis.keys.15");
        assert!((0..16).all(|database| is_records_name(&records_name(database))));
        for other in [
            "redis",
            "redis.keys.",
            "redis.keys.16",
            "redis.keys.00",
            "redis.keys.07",
            "redis.keys.+7",
            "redis.keys.x",
            "redis.keys.256",
            "keys.1",
        ] {
            assert!(!is_records_name(other), "{other}");
        }
    }

    /// The expected bytes are those of format version 2. If this test fails, increase the format
    /// version.
    #[test]
    fn the_bytes_of_version_2() {
        assert_eq!(record_key(3, b"key")[..], *b"\x03kkey");
        assert_eq!(encode_text(&[b"va", b"lue"], 0), b"\0value");
        assert_eq!(encode_text(&[b"v"], 0x0102), b"\x80\x02\x01\0\0\0\0\0\0v");
        let list = CollectionHeader {
            kind: CollectionKind::List,
            expires_ms: 0,
            number: 7,
            count: 2,
            head: -1,
            is_counted: false,
            is_new: false,
        };
        let bytes = [
            &[1, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0][..],
            &[255; 8],
        ]
        .concat();
        assert_eq!(encode_collection(&list), bytes);
        assert_eq!(decode_record(&bytes), Ok(DecodedRecord::Collection(list)));
        assert_eq!(
            position_key(0, 1, -1)[..],
            [&b"\0e\0\0\0\0\0\0\0\x01\x7f"[..], &[255; 7]].concat()
        );
        assert_eq!(
            score_key(0, 1, 1.0, b"m")[..],
            *b"\0e\0\0\0\0\0\0\0\x01s\xbf\xf0\0\0\0\0\0\0m"
        );
        assert_eq!(member_key(0, 1, b"a")[..10], *b"\0e\0\0\0\0\0\0\0\x01");
        assert_eq!(place(b"a"), 0xe6c6_32b6_1e96_4e1f);
        assert_eq!(
            expiry_key(2, 258, 1)[..],
            *b"\x02x\0\0\0\0\0\0\x01\x02\0\0\0\0\0\0\0\x01"
        );
        let counted = CollectionHeader {
            kind: CollectionKind::SortedSet,
            is_counted: true,
            head: 0,
            ..list
        };
        let bytes = encode_collection(&counted);
        assert_eq!(bytes[..9], [67, 7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(decode_record(&bytes), Ok(DecodedRecord::Collection(counted)));
        assert_eq!(chunk_key(0, 1, b"ab")[..], *b"\0e\0\0\0\0\0\0\0\x01oab");
        assert_eq!(collection_key(2, 258)[..], *b"\x02c\0\0\0\0\0\0\x01\x02");
        assert_eq!(staged_key(2, 258)[..], *b"\x02g\0\0\0\0\0\0\x01\x02");
        assert_eq!(staged_number(&staged_key(2, 258)), Some(258));
        assert_eq!(version_key()[..], [254, b'v']);
        assert_eq!(databases_key()[..], [254, b'd']);
        let numbers = [1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
        assert_eq!(encode_databases(&numbers), numbers);
        assert_eq!(decode_databases(&numbers), Some(numbers));
        assert_eq!(decode_databases(&[3; 16]), None);
        let item = MemcachedItem {
            flags: 1,
            cas: 2,
            expires_ms: 3,
            touched: 4,
            staleness: 0,
            value: b"v",
        };
        let stored = encode_item(&item);
        assert_eq!(
            stored,
            b"\x01\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x04\0\0\0\0v"
        );
        assert_eq!(decode_item(&stored), Ok(item));
    }

    #[test]
    fn scores_are_in_order_and_come_back() {
        let scores = [
            f64::NEG_INFINITY,
            -2.5,
            -1e-300,
            0.0,
            1e-300,
            1.0,
            3e8,
            f64::INFINITY,
        ];
        let keys: Vec<_> = scores.iter().map(|&score| score_key(0, 1, score, b"m")).collect();
        assert!(keys.is_sorted());
        for (key, score) in keys.iter().zip(scores) {
            assert_eq!(scored_member_of(key), (score, &b"m"[..]));
        }
        assert_eq!(score_key(0, 1, -0.0, b""), score_key(0, 1, 0.0, b""));
    }

    #[test]
    fn records_that_are_cut_short_are_damaged() {
        let collection = CollectionHeader {
            kind: CollectionKind::Hash,
            expires_ms: 5,
            number: 7,
            count: 2,
            head: 0,
            is_counted: false,
            is_new: false,
        };
        let bytes = encode_collection(&collection);
        for end in 0..bytes.len() {
            assert!(decode_record(&bytes[..end]).is_err(), "{end}");
        }
        assert!(decode_record(&[9]).is_err());
        assert!(decode_item(&[0; 24]).is_err());
    }
}
