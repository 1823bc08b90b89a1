//! Records of a hash table: a fingerprint, a key, and a value or the note that it was deleted.
//!
//! *Knows*: how a record is compared and coded, with a long one outside its run.
//!
//! *Does not know*: runs, logs, levels.
//!
//! *Read in this order*: [`Entry`], [`Body`]; `format.rs`; `wanted.rs` (lookups).

mod format;
mod wanted;

pub(crate) use format::{Bytes, Slice, decode, entry_bytes};
pub(crate) use wanted::Wanted;

use crate::blocks::{Error, Extent, Result, Space};
use alluvium_filters::fingerprint::WideFingerprint;

/// A record as runs and logs hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) fingerprint: WideFingerprint,
    pub(crate) tombstone: bool,
    /// The run before that holds the prefix; the run's own index for none.
    pub(crate) previous: u8,
    pub(crate) body: Body,
}

/// The key and value of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// The key's length, the key, the value.
    Here(Vec<u8>),
    /// An extent that holds the same.
    Outside(Extent),
}

/// The longest key or value.
pub(crate) const MAX_BYTES: usize = 1 << 30;

impl Entry {
    /// Creates a record.
    ///
    /// # Errors
    /// When the key or the value is longer than a record holds.
    pub(crate) fn new(fingerprint: WideFingerprint, key: &[u8], value: Option<&[u8]>) -> Result<Entry> {
        let longest = key.len().max(value.map_or(0, <[u8]>::len));
        if longest > MAX_BYTES {
            return Err(Error::shape(
                format!("a key or value of {longest} bytes"),
                format!("at most {MAX_BYTES}"),
            ));
        }
        let body = Body::Here(format::join(key, value.unwrap_or_default()));
        Ok(Entry {
            fingerprint,
            tombstone: value.is_none(),
            previous: 0,
            body,
        })
    }

    /// Returns the bytes of key and value, from wherever they are.
    pub(crate) fn load<'e>(&'e self, space: &dyn Space, buffer: &'e mut Vec<u8>) -> Result<&'e [u8]> {
        match &self.body {
            Body::Here(bytes) => Ok(bytes),
            Body::Outside(extent) => {
                if extent.bytes > 2 * MAX_BYTES as u64 + 16 {
                    return Err(Error::damaged(
                        extent.at,
                        "length of a record",
                        "at most 2 GiB",
                        extent.bytes,
                    ));
                }
                buffer.resize(extent.bytes as usize, 0);
                space.read(extent.at, buffer)?;
                Ok(buffer)
            }
        }
    }

    /// Returns the value, or none for a delete, if the record is of `key`.
    pub(crate) fn value_of(&self, key: &[u8], space: &dyn Space) -> Result<Option<Option<Vec<u8>>>> {
        let mut buffer = Vec::new();
        let (found, value) = format::split(self.load(space, &mut buffer)?)?;
        Ok((found == key).then(|| (!self.tombstone).then(|| value.to_vec())))
    }

    /// Returns the key and the value; none for a delete.
    pub(crate) fn take_apart(&self, space: &dyn Space) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
        let mut buffer = Vec::new();
        let (key, value) = format::split(self.load(space, &mut buffer)?)?;
        Ok((key.to_vec(), (!self.tombstone).then(|| value.to_vec())))
    }

    /// Moves a body of over `most` bytes to an extent of its own.
    pub(crate) fn outsource(&mut self, most: usize, space: &dyn Space) -> Result<()> {
        if let Body::Here(bytes) = &self.body
            && bytes.len() > most
        {
            let extent = space.allocate(bytes.len() as u64)?;
            space.write(extent.at, bytes)?;
            self.body = Body::Outside(extent);
        }
        Ok(())
    }
}
