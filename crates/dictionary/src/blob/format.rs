//! Root format, version 1, of a dictionary that writes each checkpoint as a single blob.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//!      0     1  version, 1
//!      1     1  0: the contents follow; 1: a pointer to them follows
//!      2        the contents, or the pointer (40), as the values of leaves have it
//! ```
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use crate::value_log::ValuePointer;
use alluvium_storage::{DiskLocation, Error, PageSize, Result};

const VERSION: u8 = 1;
const HERE: u8 = 0;
const APART: u8 = 1;
const _: () = assert!(HERE != APART, "a root says where the contents are");

/// The decoded root of a dictionary that writes each checkpoint as a single blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlobRoot<'b> {
    Here(&'b [u8]),
    /// A pointer to the nodes that store the contents.
    Apart(ValuePointer),
}

impl<'b> BlobRoot<'b> {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        match self {
            BlobRoot::Here(contents) => {
                out.push(HERE);
                out.extend_from_slice(contents);
            }
            BlobRoot::Apart(pointer) => {
                out.push(APART);
                pointer.encode(&mut out);
            }
        }
        out
    }

    /// Decodes a root. Errors report `place` as its location.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the bytes are not a valid root; [`Error::NewerFormat`] if a newer
    /// version of the format wrote them.
    pub fn decode(bytes: &'b [u8], place: &DiskLocation, page_size: PageSize) -> Result<BlobRoot<'b>> {
        match bytes.split_at_checked(2) {
            Some(([VERSION, HERE], contents)) => Ok(BlobRoot::Here(contents)),
            Some(([VERSION, APART], pointer)) => {
                Ok(BlobRoot::Apart(ValuePointer::decode(pointer, place, page_size)?))
            }
            Some(([found, _], _)) if *found > VERSION => Err(Error::NewerFormat {
                place: place.clone(),
                found: u32::from(*found),
                supported: u32::from(VERSION),
            }),
            _ => {
                let found = format!("{} other bytes", bytes.len());
                Err(Error::corrupt(place.clone(), "a root of version 1", found))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_storage::OnDiskObject;

    #[test]
    fn the_bytes_of_a_root_never_change_and_others_are_refused() {
        let place = DiskLocation::new(OnDiskObject::Node, "a root", 0);
        let root = BlobRoot::Here(b"abc").encode();
        assert_eq!(root, b"\x01\x00abc");
        let read = |bytes: &[u8]| BlobRoot::decode(bytes, &place, PageSize::MIN).map(|_| ());
        assert_eq!(
            BlobRoot::decode(&root, &place, PageSize::MIN).unwrap(),
            BlobRoot::Here(b"abc")
        );
        assert!(matches!(read(b"\x02\x00abc"), Err(Error::NewerFormat { .. })));
        for other in [&b""[..], b"\x01", b"\x01\x02", b"\x00\x00", b"\x01\x01short"] {
            assert!(matches!(read(other), Err(Error::Corrupt { .. })), "{other:?}");
        }
    }
}
