//! The wire format of the management socket.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!             the greeting, first of the client, then of the server:
//!      0     8  `alluvium`
//!      8     4  version of the protocol
//!             then frames: the client sends requests, the server answers each with parts, the last of which is `Done` or `Failed`:
//!      0     4  length of the body, at most `MOST_BODY`
//!      4     n  the body: a `ManagementRequest` or a `ReplyFrame` as postcard (version 1) encodes it
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use super::request::{Error, FailureKind, ManagementReply};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read};

/// Protocol version. Peers with another version are rejected.
pub const VERSION: u32 = 1;
/// Magic bytes at the start of a greeting.
const MAGIC: [u8; 8] = *b"alluvium";
/// Length of a greeting in bytes.
pub const GREETING: usize = 12;
/// Maximum length of a message body in bytes: the longest key and the longest value, plus a margin.
pub const MOST_BODY: usize = alluvium::MAX_VALUE + alluvium::MAX_KEY + (1 << 20);

/// A message that contains part of the reply to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplyFrame {
    /// Part of the result; further messages follow.
    Reply(ManagementReply),
    /// The operation has succeeded; the reply ends here.
    Done,
    /// The operation has failed; the reply ends here.
    Failed {
        kind: FailureKind,
        /// The error message or, for [`FailureKind::NoKeyspace`], the name of the missing keyspace.
        text: String,
    },
}

/// Returns the greeting that announces this protocol version.
#[must_use]
pub fn greeting() -> [u8; GREETING] {
    let mut bytes = [0; GREETING];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// Returns the protocol version in a greeting, or `None` if the bytes are not a greeting.
#[must_use]
pub fn greeted(bytes: &[u8; GREETING]) -> Option<u32> {
    let (magic, version) = bytes.split_first_chunk::<8>()?;
    (*magic == MAGIC).then(|| u32::from_le_bytes(version.try_into().unwrap_or_default()))
}

/// Encodes a message as a frame: a length and a body.
///
/// # Errors
/// Returns [`Error::Told`] if the message is too long for a frame.
pub fn frame(message: &impl Serialize) -> Result<Vec<u8>, Error> {
    let bytes = postcard::to_extend(message, vec![0; 4]);
    let mut bytes = bytes.map_err(|error| {
        Error::told(
            FailureKind::Failed,
            format!("cannot encode a management message: {error}"),
        )
    })?;
    let length = bytes.len() - 4;
    if length > MOST_BODY {
        let text = format!(
            "a message of {length} bytes is too long for the management socket, which accepts at most \
             {MOST_BODY} bytes"
        );
        return Err(Error::told(FailureKind::Failed, text));
    }
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    if let Some(head) = bytes.first_chunk_mut() {
        *head = length.to_le_bytes();
    }
    Ok(bytes)
}

/// Reads and decodes the next message. Returns `None` at the end of the stream.
///
/// # Errors
/// Returns stream errors, and [`io::ErrorKind::InvalidData`] if a frame does not decode in this
/// protocol version.
pub fn read<T: DeserializeOwned>(stream: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    let mut filled = 0;
    while filled < length.len() {
        match stream.read(length.get_mut(filled..).unwrap_or_default()) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let length = u32::from_le_bytes(length);
    let most = u32::try_from(MOST_BODY).unwrap_or(u32::MAX);
    if length > most {
        return Err(bad(format!(
            "a management frame announces {length} bytes, more than the maximum of {most}"
        )));
    }
    // The buffer grows only as bytes arrive, so a false frame length cannot make it large.
    let mut body = Vec::new();
    stream.take(u64::from(length)).read_to_end(&mut body)?;
    if body.len() < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    match postcard::take_from_bytes(&body) {
        Ok((message, [])) => Ok(Some(message)),
        Ok((_, rest)) => Err(bad(format!(
            "a management frame has {} extra bytes after its message",
            rest.len()
        ))),
        Err(error) => Err(bad(format!("a management message cannot be decoded ({error})"))),
    }
}

fn bad(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::super::request::{
        CommitDurability, IsolationLevel, KeyChange, ManagementRequest, NewTransaction, ScanContent,
        TierChange, TransactionConcurrency, TransactionStep, UnorderedScanRequest,
    };
    use super::*;

    #[test]
    fn the_bytes_of_version_1_do_not_change() {
        assert_eq!(greeting(), *b"alluvium\x01\0\0\0");
        let get = ManagementRequest::Get {
            keyspace: "a".to_owned(),
            keys: vec![b"k".to_vec()],
        };
        assert_eq!(frame(&get).unwrap(), b"\x06\0\0\0\x05\x01a\x01\x01k");
        let write = ManagementRequest::Write(vec![KeyChange {
            keyspace: "a".to_owned(),
            key: b"k".to_vec(),
            value: Some(b"vv".to_vec()),
            expires_in_ms: Some(300),
        }]);
        assert_eq!(
            frame(&write).unwrap(),
            b"\x0d\0\0\0\x07\x01\x01a\x01k\x01\x02vv\x01\xac\x02"
        );
        let begin = ManagementRequest::BeginTransaction(NewTransaction {
            isolation: IsolationLevel::Serializable,
            mechanism: TransactionConcurrency::Locking,
            durability: Some(CommitDurability::AfterDisk),
        });
        assert_eq!(frame(&begin).unwrap(), b"\x05\0\0\0\x18\0\x01\x01\x02");
        let put = ManagementRequest::InTransaction(TransactionStep::Put {
            keyspace: "a".to_owned(),
            key: b"k".to_vec(),
            value: b"v".to_vec(),
        });
        assert_eq!(frame(&put).unwrap(), b"\x08\0\0\0\x19\x01\x01a\x01k\x01v");
        let commit = ManagementRequest::InTransaction(TransactionStep::Commit);
        assert_eq!(frame(&commit).unwrap(), b"\x02\0\0\0\x19\x07");
        assert_eq!(
            frame(&ManagementRequest::Transactions).unwrap(),
            b"\x01\0\0\0\x1a"
        );
        let unordered = ManagementRequest::Unordered(UnorderedScanRequest {
            keyspace: "k".to_owned(),
            after: Some(b"a".to_vec()),
            limit: Some(3),
            what: ScanContent::Keys,
        });
        assert_eq!(
            frame(&unordered).unwrap(),
            b"\x09\0\0\0\x1b\x01k\x01\x01a\x01\x03\0"
        );
        assert_eq!(frame(&ManagementRequest::Tiers).unwrap(), b"\x01\0\0\0\x1c");
        let drain = ManagementRequest::ChangeTiers {
            path: b"/a".to_vec(),
            change: TierChange::Drain,
        };
        assert_eq!(frame(&drain).unwrap(), b"\x05\0\0\0\x1d\x02/a\x01");
        let advice = ManagementRequest::ApplyAdvice {
            record_permille: Some(500),
        };
        assert_eq!(frame(&advice).unwrap(), b"\x04\0\0\0\x1e\x01\xf4\x03");
        assert_eq!(frame(&ManagementRequest::Trials).unwrap(), b"\x01\0\0\0\x1f");
        let claim = ManagementRequest::Claim(b"n".to_vec());
        assert_eq!(frame(&claim).unwrap(), b"\x03\0\0\0\x20\x01n");
        let backup = ManagementRequest::BackupTiers {
            to: b"/a".to_vec(),
            further: vec![b"/b".to_vec()],
        };
        assert_eq!(frame(&backup).unwrap(), b"\x08\0\0\0\x21\x02/a\x01\x02/b");
        let failed = ReplyFrame::Failed {
            kind: FailureKind::NoKeyspace,
            text: "x".to_owned(),
        };
        assert_eq!(frame(&failed).unwrap(), b"\x04\0\0\0\x02\x02\x01x");
        assert_eq!(
            frame(&ReplyFrame::Reply(ManagementReply::Truth(true))).unwrap(),
            b"\x03\0\0\0\0\x04\x01"
        );
    }

    #[test]
    fn what_was_sent_is_read() {
        let parts = [
            ReplyFrame::Reply(ManagementReply::Pairs(vec![(b"k".to_vec(), vec![0xff; 300])])),
            ReplyFrame::Reply(ManagementReply::Values(vec![None, Some(Vec::new())])),
            ReplyFrame::Done,
        ];
        let bytes: Vec<u8> = parts.iter().flat_map(|part| frame(part).unwrap()).collect();
        let mut stream = &bytes[..];
        for part in &parts {
            assert_eq!(read::<ReplyFrame>(&mut stream).unwrap().as_ref(), Some(part));
        }
        assert_eq!(read::<ReplyFrame>(&mut stream).unwrap(), None);
        assert_eq!(greeted(&greeting()), Some(VERSION));
        assert_eq!(greeted(b"GET / HTTP/1"), None);
    }

    #[test]
    fn no_bytes_are_a_panic_or_a_large_allocation() {
        let mut random = fastrand::Rng::with_seed(25);
        let good = frame(&ManagementRequest::Write(vec![
            KeyChange {
                keyspace: "default".to_owned(),
                key: vec![1; 20],
                value: Some(vec![2; 40]),
                expires_in_ms: None,
            };
            4
        ]))
        .unwrap();
        for _ in 0..20_000 {
            let mut bytes = good.clone();
            for _ in 0..random.usize(1..8) {
                let at = random.usize(..bytes.len());
                match random.u8(..3) {
                    0 => bytes[at] = random.u8(..),
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, random.u8(..)),
                }
            }
            let mut stream = &bytes[..];
            while let Ok(Some(_)) = read::<ManagementRequest>(&mut stream) {}
        }
        // The frame announces a large body that never arrives.
        let mut huge = u32::try_from(MOST_BODY).unwrap().to_le_bytes().to_vec();
        huge.extend_from_slice(b"abc");
        let error = read::<ManagementRequest>(&mut &huge[..]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let error = read::<ManagementRequest>(&mut &[0xff; 64][..]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        // The list claims more elements than the frame has bytes.
        let list = [&[9, 0, 0, 0, 7][..], &[0xff; 4], &[0x0f, 0, 0, 0]].concat();
        assert!(read::<ManagementRequest>(&mut &list[..]).is_err());
    }
}
