//! The range of keys that a verb works on.

use super::bytes::ByteEncoding;
use anyhow::Result;
use clap::Args;
use std::ffi::OsString;

/// Part of a keyspace.
#[derive(Args, Clone, Debug, Default)]
pub struct KeyRangeArgs {
    /// Only keys with this prefix.
    #[arg(long, value_name = "BYTES", conflicts_with_all = ["from", "to"])]
    pub prefix: Option<OsString>,
    /// Only keys from this one on, inclusive.
    #[arg(long, value_name = "KEY")]
    pub from: Option<OsString>,
    /// Only keys up to this one, exclusive.
    #[arg(long, value_name = "KEY")]
    pub to: Option<OsString>,
}

/// The range of keys as byte strings. It begins with the first bound (inclusive) and ends before
/// the second, or at the end of the keyspace if there is no second bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByteBounds {
    pub(crate) from: Vec<u8>,
    pub(crate) to: Option<Vec<u8>>,
}

impl KeyRangeArgs {
    pub(crate) fn is_everything(&self) -> bool {
        self.prefix.is_none() && self.from.is_none() && self.to.is_none()
    }

    pub(crate) fn bounds(&self, encoding: ByteEncoding) -> Result<ByteBounds> {
        let read = |text: &Option<OsString>| text.as_deref().map(|text| encoding.read(text)).transpose();
        if let Some(prefix) = read(&self.prefix)? {
            let to = successor(&prefix);
            return Ok(ByteBounds { from: prefix, to });
        }
        let from = read(&self.from)?.unwrap_or_default();
        Ok(ByteBounds {
            from,
            to: read(&self.to)?,
        })
    }
}

/// Returns the smallest key that is greater than all keys with this prefix, or `None` if there is
/// no such key.
pub(crate) fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=kept].to_vec();
    end[kept] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_bytes_of_its_length() {
        assert_eq!(successor(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(successor(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(successor(b"\xff"), None);
        assert_eq!(successor(b""), None);
    }
}
