//! The wire format of datagrams. A datagram is either a request, or a reply that overwrites its
//! request in the same buffer.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     2  `aD`
//!      2     1  version of the format
//!      3     1  operation: 1 get, 2 set, 3 delete, 4 directory; with bit 7 the reply to it
//!      4     1  result of a reply: 0 done, 1 no such key, 2 too large, 3 another port's key,
//!               5 wrong or no tag; 0 in requests. 4 is kept: what is not understood has no reply
//!      5     1  zero
//!      6     2  length of the key; 0 in replies
//!      8     4  length of the value
//!     12     4  number of the request among those of its client, counted up, with overflow
//!     16     8  the client: a number that it has drawn
//!     24     8  XXH3 (64 bits) of the key under the directory's seed; its upper 16 bits choose the
//!               port. All clients must compute it alike: a key has one port
//!     32     8  milliseconds until the value expires; 0 for never
//!     40     8  the client's time, which the reply repeats
//!     48    16  HMAC-SHA-256 under the shared key of the 48 bytes before and of all behind, without
//!               these 16: its first bytes; zeros without a key
//!     64     k  key
//!   64+k     v  value
//!
//!             the value of the reply to a directory request:
//!      0     8  seed of the hashes of keys
//!      8   2·n  ports: that at `i` has the keys whose hashes' upper 16 bits · n / 2^16 are `i`
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use ring::hmac;

pub const VERSION: u8 = 1;
/// Length of a datagram's header in bytes.
pub const HEADER: usize = 64;
const MAGIC: [u8; 2] = *b"aD";
const TAG_AT: usize = 48;
/// Length of an authentication tag in bytes.
const TAG: usize = 16;
/// The bit of the operation byte that marks a reply.
const REPLY: u8 = 1 << 7;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramOperation {
    /// Reads a key's value.
    Get,
    Set,
    Delete,
    /// Reads the directory that assigns keys to ports.
    Directory,
}

/// The outcome of a request, sent in its reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DatagramOutcome {
    /// The request succeeded. The reply to a get contains the value.
    #[default]
    Done,
    /// The cache has no item with this key.
    Missing,
    /// The item exceeds the maximum size of the cache or of a datagram.
    TooLarge,
    /// The key belongs to another port.
    WrongPort,
    /// Reserved; servers do not answer invalid requests.
    Bad,
    /// The request's tag is not valid under the shared key.
    Denied,
}

impl DatagramOperation {
    fn code(self) -> u8 {
        match self {
            DatagramOperation::Get => 1,
            DatagramOperation::Set => 2,
            DatagramOperation::Delete => 3,
            DatagramOperation::Directory => 4,
        }
    }

    fn of(code: u8) -> Option<DatagramOperation> {
        let all = [
            DatagramOperation::Get,
            DatagramOperation::Set,
            DatagramOperation::Delete,
            DatagramOperation::Directory,
        ];
        all.into_iter().find(|operation| operation.code() == code)
    }
}

impl DatagramOutcome {
    fn code(self) -> u8 {
        match self {
            DatagramOutcome::Done => 0,
            DatagramOutcome::Missing => 1,
            DatagramOutcome::TooLarge => 2,
            DatagramOutcome::WrongPort => 3,
            DatagramOutcome::Bad => 4,
            DatagramOutcome::Denied => 5,
        }
    }

    fn of(code: u8) -> Option<DatagramOutcome> {
        let all = [
            DatagramOutcome::Done,
            DatagramOutcome::Missing,
            DatagramOutcome::TooLarge,
            DatagramOutcome::WrongPort,
            DatagramOutcome::Bad,
            DatagramOutcome::Denied,
        ];
        all.into_iter().find(|outcome| outcome.code() == code)
    }
}

/// Whether a datagram is a request or a reply, and a reply's outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramDirection {
    Request,
    Reply(DatagramOutcome),
}

/// The header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramHeader {
    pub operation: DatagramOperation,
    /// Whether the datagram is a request or a reply.
    pub way: DatagramDirection,
    /// The request number, which the client increments with each request.
    pub sequence: u32,
    /// A number that identifies the client.
    pub client: u64,
    /// The seeded hash of the key.
    pub hash: u64,
    /// Time until the value expires in milliseconds; 0 for never.
    pub expires_in_ms: u64,
    /// The client's timestamp, which the reply returns unchanged.
    pub echo: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    pub header: DatagramHeader,
    /// A request's key; empty in replies.
    pub key: &'a [u8],
    pub value: &'a [u8],
}

/// A secret that the server and its clients share to authenticate datagrams.
#[derive(Clone, Debug)]
pub struct SharedKey(hmac::Key);

impl SharedKey {
    /// Creates a shared key from secret bytes.
    #[must_use]
    pub fn new(secret: &[u8]) -> SharedKey {
        SharedKey(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    fn tag(&self, datagram: &[u8]) -> [u8; TAG] {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(datagram.get(..TAG_AT).unwrap_or_default());
        context.update(datagram.get(HEADER..).unwrap_or_default());
        let whole = context.sign();
        let first = whole.as_ref().first_chunk::<TAG>();
        first.copied().unwrap_or_default()
    }

    /// Computes a datagram's tag and stores it in the header.
    pub fn seal(&self, datagram: &mut [u8]) {
        let tag = self.tag(datagram);
        if let Some(place) = datagram.get_mut(TAG_AT..HEADER) {
            place.copy_from_slice(&tag);
        }
    }

    /// Returns whether a datagram's tag is valid. The time taken does not depend on the answer.
    #[must_use]
    pub fn admits(&self, datagram: &[u8]) -> bool {
        let tag = self.tag(datagram);
        let found = datagram.get(TAG_AT..HEADER).unwrap_or_default();
        bool::from(subtle::ConstantTimeEq::ct_eq(&tag[..], found))
    }
}

/// Encodes a datagram into `into`. Returns its length, or `None` if it does not fit.
#[must_use]
pub fn write(datagram: &Datagram<'_>, into: &mut [u8]) -> Option<usize> {
    let Datagram { header, key, value } = datagram;
    let key_len = u16::try_from(key.len()).ok()?;
    let value_len = u32::try_from(value.len()).ok()?;
    let length = HEADER + key.len() + value.len();
    let into = into.get_mut(..length)?;
    write_header(header, key_len, value_len, into)?;
    into.get_mut(HEADER..HEADER + key.len())?.copy_from_slice(key);
    into.get_mut(HEADER + key.len()..)?.copy_from_slice(value);
    Some(length)
}

fn write_header(header: &DatagramHeader, key_len: u16, value_len: u32, into: &mut [u8]) -> Option<()> {
    let (operation, outcome) = match header.way {
        DatagramDirection::Request => (header.operation.code(), 0),
        DatagramDirection::Reply(outcome) => (header.operation.code() | REPLY, outcome.code()),
    };
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        into.get_mut(at..at + bytes.len())?.copy_from_slice(bytes);
        at += bytes.len();
        Some(())
    };
    put(&MAGIC)?;
    put(&[VERSION, operation, outcome, 0])?;
    put(&key_len.to_le_bytes())?;
    put(&value_len.to_le_bytes())?;
    put(&header.sequence.to_le_bytes())?;
    put(&header.client.to_le_bytes())?;
    put(&header.hash.to_le_bytes())?;
    put(&header.expires_in_ms.to_le_bytes())?;
    put(&header.echo.to_le_bytes())?;
    put(&[0; TAG])
}

/// Overwrites a request with its reply in the same buffer, and returns the reply's length. If the
/// value does not fit into the buffer, the outcome becomes [`DatagramOutcome::TooLarge`].
#[must_use]
pub fn reply(
    request: &DatagramHeader,
    outcome: DatagramOutcome,
    expires_in_ms: u64,
    value: &[u8],
    into: &mut [u8],
) -> usize {
    let mut header = DatagramHeader {
        way: DatagramDirection::Reply(outcome),
        expires_in_ms,
        ..*request
    };
    let key = &[][..];
    let whole = Datagram { header, key, value };
    write(&whole, into).unwrap_or_else(|| {
        header.way = DatagramDirection::Reply(DatagramOutcome::TooLarge);
        let short = Datagram {
            header,
            key,
            value: &[],
        };
        write(&short, into).unwrap_or(0)
    })
}

/// Decodes a datagram. Returns `None` if the bytes are incomplete, have trailing bytes, or are not
/// in this format.
#[must_use]
pub fn read(bytes: &[u8]) -> Option<Datagram<'_>> {
    let (head, rest) = bytes.split_first_chunk::<HEADER>()?;
    let (magic, head) = head.split_first_chunk::<2>()?;
    let (&[version, operation, outcome, zero], head) = head.split_first_chunk::<4>()?;
    let (key_len, head) = head.split_first_chunk()?;
    let (value_len, head) = head.split_first_chunk()?;
    let (sequence, head) = head.split_first_chunk()?;
    let (client, head) = head.split_first_chunk()?;
    let (hash, head) = head.split_first_chunk()?;
    let (expires_in_ms, head) = head.split_first_chunk()?;
    let (echo, _) = head.split_first_chunk()?;
    if *magic != MAGIC || version != VERSION || zero != 0 {
        return None;
    }
    let way = match operation & REPLY {
        0 if outcome == 0 => DatagramDirection::Request,
        0 => return None,
        _ => DatagramDirection::Reply(DatagramOutcome::of(outcome)?),
    };
    let header = DatagramHeader {
        operation: DatagramOperation::of(operation & !REPLY)?,
        way,
        sequence: u32::from_le_bytes(*sequence),
        client: u64::from_le_bytes(*client),
        hash: u64::from_le_bytes(*hash),
        expires_in_ms: u64::from_le_bytes(*expires_in_ms),
        echo: u64::from_le_bytes(*echo),
    };
    let key_len = usize::from(u16::from_le_bytes(*key_len));
    let value_len = u32::from_le_bytes(*value_len) as usize;
    let (key, value) = rest.split_at_checked(key_len)?;
    (value.len() == value_len).then_some(Datagram { header, key, value })
}

/// The directory of a cache's ports, which determines each key's owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortDirectory {
    /// The seed for hashing keys.
    pub seed: u64,
    /// The port numbers, in ascending order of the ports' hash ranges.
    pub ports: Vec<u16>,
}

impl PortDirectory {
    /// Encodes the directory as the value of the reply to a directory request.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.seed.to_le_bytes().to_vec();
        self.ports
            .iter()
            .for_each(|port| bytes.extend_from_slice(&port.to_le_bytes()));
        bytes
    }

    /// Decodes a directory from a reply's value. Returns `None` if it is invalid.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<PortDirectory> {
        let (seed, ports) = bytes.split_first_chunk()?;
        let (ports, rest) = ports.as_chunks::<2>();
        let is_whole = rest.is_empty() && !ports.is_empty();
        is_whole.then(|| PortDirectory {
            seed: u64::from_le_bytes(*seed),
            ports: ports.iter().map(|port| u16::from_le_bytes(*port)).collect(),
        })
    }

    /// Returns the index of the port that owns keys with this hash.
    #[must_use]
    pub fn place(&self, hash: u64) -> usize {
        place(hash, self.ports.len())
    }
}

/// Returns the index of the port, out of `ports`, that owns keys with this hash.
#[must_use]
pub fn place(hash: u64, ports: usize) -> usize {
    ((hash >> 48) as usize * ports) >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: DatagramHeader = DatagramHeader {
        operation: DatagramOperation::Set,
        way: DatagramDirection::Request,
        sequence: 0x0102_0304,
        client: 5,
        hash: 6,
        expires_in_ms: 7,
        echo: 8,
    };

    /// The expected bytes are those of format version 1. If this test fails, increase the version
    /// number.
    #[test]
    fn the_bytes_of_version_1() {
        let mut bytes = [9; 80];
        let request = Datagram {
            header: HEAD,
            key: b"key",
            value: b"value",
        };
        assert_eq!(write(&request, &mut bytes), Some(72));
        let head = b"aD\x01\x02\0\0\x03\0\x05\0\0\0\x04\x03\x02\x01\x05\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0";
        assert_eq!(&bytes[..48], head);
        assert_eq!(bytes[48..64], [0; 16]);
        assert_eq!(&bytes[64..72], b"keyvalue");
        assert_eq!(read(&bytes[..72]), Some(request));
        let key = SharedKey::new(b"secret");
        key.seal(&mut bytes[..72]);
        let tag: String = bytes[48..64].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(tag, "0c5185714c4945aadf1c095543e8db7d");
        let length = reply(&HEAD, DatagramOutcome::Missing, 0, b"", &mut bytes);
        assert_eq!((length, &bytes[3..8]), (64, &[0x82, 1, 0, 0, 0][..]));
        let directory = PortDirectory {
            seed: 1,
            ports: vec![2, 0x0304],
        };
        assert_eq!(directory.encode(), b"\x01\0\0\0\0\0\0\0\x02\0\x04\x03");
        assert_eq!(PortDirectory::decode(&directory.encode()), Some(directory));
    }

    #[test]
    fn what_is_cut_or_changed_is_no_datagram_or_has_no_right_tag() {
        let mut bytes = vec![0; 100];
        let datagram = Datagram {
            header: HEAD,
            key: b"key",
            value: b"value",
        };
        let length = write(&datagram, &mut bytes).unwrap();
        bytes.truncate(length);
        let key = SharedKey::new(b"secret");
        key.seal(&mut bytes);
        assert!(key.admits(&bytes) && !SharedKey::new(b"other").admits(&bytes));
        assert!((0..length).all(|end| read(&bytes[..end]).is_none()));
        assert!(read(&[&bytes[..], b"x"].concat()).is_none());
        for at in 0..length {
            bytes[at] ^= 1;
            assert!(!key.admits(&bytes), "byte {at}");
            bytes[at] ^= 1;
        }
        assert!(write(&datagram, &mut [0; 71]).is_none());
        assert!(PortDirectory::decode(&[0; 8]).is_none() && PortDirectory::decode(&[0; 11]).is_none());
    }

    #[test]
    fn every_hash_has_a_port_and_every_port_as_many() {
        for ports in [1, 2, 3, 16] {
            let mut counts = vec![0_usize; ports];
            (0..1 << 16).for_each(|top: u64| counts[place(top << 48, ports)] += 1);
            assert!(counts.iter().all(|count| count.abs_diff((1 << 16) / ports) <= 1));
        }
    }
}
