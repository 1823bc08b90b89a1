//! The frames of a stream.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     4  length of the body, at most `MOST_BODY`
//!      4     n  the body: a `FilesRequest` or a `FilesReply` as postcard (version 1) encodes it
//!             behind a request `Serve`: one byte, which carries a descriptor
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read};

/// Most bytes of a body.
pub const MOST_BODY: usize = 4 << 20;

/// Encodes a message as a frame.
///
/// # Errors
/// `InvalidInput` if the message is too long.
pub fn frame(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = postcard::to_extend(message, vec![0; 4]).map_err(io::Error::other)?;
    let length = bytes.len().saturating_sub(4);
    if length > MOST_BODY {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("a message of {length} bytes is longer than {MOST_BODY} bytes: use shorter pieces"),
        ));
    }
    if let Some(head) = bytes.first_chunk_mut() {
        *head = u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    }
    Ok(bytes)
}

/// Reads the next message. Returns `None` at the end of the stream.
///
/// # Errors
/// Errors of the stream; `InvalidData` for bytes that are no message.
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
    let length = u32::from_le_bytes(length) as usize;
    if length > MOST_BODY {
        return Err(bad(format!(
            "a frame announces {length} bytes, more than {MOST_BODY}"
        )));
    }
    // The buffer grows as bytes arrive, so that a false length does not allocate memory.
    let mut body = Vec::new();
    stream.take(length as u64).read_to_end(&mut body)?;
    if body.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    match postcard::take_from_bytes(&body) {
        Ok((message, [])) => Ok(Some(message)),
        Ok((_, rest)) => Err(bad(format!("a frame has {} bytes after its message", rest.len()))),
        Err(error) => Err(bad(format!("a message cannot be decoded ({error})"))),
    }
}

fn bad(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::super::message::{FileOperation, FilesReply, FilesRequest, FilesView};
    use super::*;
    use alluvium_files::{ErrorKind, Inode};

    #[test]
    fn the_bytes_of_messages_do_not_change() {
        let open = FilesRequest::Open {
            name: "a".to_owned(),
            view: FilesView::Snapshot("b".to_owned()),
        };
        assert_eq!(frame(&open).unwrap(), b"\x06\0\0\0\0\x01a\x02\x01b");
        let lookup = FilesRequest::Operate(FileOperation::Lookup(Inode(300), b"n".to_vec()));
        assert_eq!(frame(&lookup).unwrap(), b"\x06\0\0\0\x01\0\xac\x02\x01n");
        let begin = FilesRequest::BeginBranch {
            name: "a".to_owned(),
            parent: Some("b".to_owned()),
        };
        assert_eq!(frame(&begin).unwrap(), b"\x06\0\0\0\x0d\x01a\x01\x01b");
        let history = FilesRequest::History(b"/".to_vec());
        assert_eq!(frame(&history).unwrap(), b"\x03\0\0\0\x11\x01/");
        let versions = FilesReply::Versions(Vec::new());
        assert_eq!(frame(&versions).unwrap(), b"\x02\0\0\0\x0c\0");
        let failed = FilesReply::Failed {
            kind: ErrorKind::NotFound,
            errno: 2,
            text: "t".to_owned(),
        };
        assert_eq!(frame(&failed).unwrap(), b"\x05\0\0\0\x09\0\x04\x01t");
    }

    #[test]
    fn damaged_frames_are_errors() {
        let whole = frame(&FilesRequest::Serve).unwrap();
        assert_eq!(read(&mut &whole[..]).unwrap(), Some(FilesRequest::Serve));
        assert_eq!(read::<FilesRequest>(&mut &[][..]).unwrap(), None);
        for cut in 1..whole.len() {
            assert!(read::<FilesRequest>(&mut &whole[..cut]).is_err(), "{cut}");
        }
        for bytes in [&[2, 0, 0, 0, 2, 2][..], &[1, 0, 0, 0, 99], &[255, 255, 255, 255]] {
            let error = read::<FilesRequest>(&mut &bytes[..]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
    }
}
