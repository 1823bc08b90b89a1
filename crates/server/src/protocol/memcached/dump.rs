//! Executes `lru_crawler metadump`, which lists all items, one per line. The list is written page
//! by page, each page once the client has read the previous one.

use super::request::{MemcachedRequest, number};
use crate::error::CommandError;
use crate::net::wait_hooks;
use crate::store::ServerStore;
use crate::store::model::format;
use alluvium::UnorderedScan;

/// Approximate page size in bytes.
const PAGE: usize = 64 << 10;

/// The highest slab class of memcached.
const LAST_CLASS: u32 = 63;

/// Returns whether the requested classes (`all`, `hash`, or a list of numbers) include class 1,
/// which contains all items.
fn wants_all(classes: &[u8]) -> Result<bool, CommandError> {
    if matches!(classes, b"all" | b"hash") {
        return Ok(true);
    }
    let class = |word: &[u8]| number::<u32>(word).filter(|class| (1..=LAST_CLASS).contains(class));
    let classes: Option<Vec<u32>> = classes.split(|&byte| byte == b',').map(class).collect();
    let classes = classes.ok_or(CommandError::say("BADCLASS invalid class id"))?;
    Ok(classes.contains(&1))
}

/// An iterator over a snapshot of all items.
pub(super) struct MetadataDump {
    items: Option<UnorderedScan>,
    now_ms: u64,
}

impl MetadataDump {
    /// Creates the dump for a request.
    pub(super) fn new(
        request: &MemcachedRequest<'_>,
        store: &ServerStore,
    ) -> Result<MetadataDump, CommandError> {
        let classes = match request.words.len() {
            3 => request.word(2),
            _ => return Err(CommandError::say("ERROR")),
        };
        let items = wants_all(classes)?.then(|| store.items.unordered());
        Ok(MetadataDump {
            items,
            now_ms: store.now_ms(),
        })
    }

    /// Writes the next page. Returns whether it was the last one.
    ///
    /// # Errors
    /// The store cannot be read. The connection must then be closed, because part of the reply has
    /// already been sent.
    pub(super) fn write(&mut self, output: &mut Vec<u8>) -> Result<bool, CommandError> {
        let _may_wait = wait_hooks::may_wait();
        let start = output.len();
        while let Some(items) = &mut self.items {
            if output.len() - start > PAGE {
                return Ok(false);
            }
            let Some((key, stored)) = items.next().transpose()? else {
                break;
            };
            let item = format::decode_item(&stored)?;
            if item.expires_ms != 0 && item.expires_ms <= self.now_ms {
                continue;
            }
            output.extend_from_slice(b"key=");
            write_encoded(output, &key);
            let expires_s = match item.expires_ms {
                0 => -1,
                ms => i64::try_from(ms / 1000).unwrap_or(i64::MAX),
            };
            let text = format!(
                " exp={expires_s} la={} cas={} fetch=no cls=1 size={}\n",
                item.touched,
                item.cas,
                key.len() + stored.len(),
            );
            output.extend_from_slice(text.as_bytes());
        }
        output.extend_from_slice(b"END\r\n");
        Ok(true)
    }
}

/// Writes a key in percent-encoding, which encodes all bytes except letters, digits and `-._~`.
fn write_encoded(output: &mut Vec<u8>, key: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in key {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            output.push(byte);
        } else {
            let digit = |half: u8| DIGITS[usize::from(half)];
            output.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

/// Returns the reply to an `lru_crawler` subcommand other than `metadump`. These subcommands are
/// accepted but have no effect, because there is no crawler.
pub(super) fn crawler(request: &MemcachedRequest<'_>) -> Result<&'static str, CommandError> {
    const BAD_LINE: CommandError = CommandError::say("CLIENT_ERROR bad command line format");
    match (request.word(1), request.words.len()) {
        (b"enable" | b"disable", 2) => Ok("OK"),
        (b"crawl", 3) => wants_all(request.word(2)).map(|_| "OK"),
        (b"tocrawl", 3) => number::<u32>(request.word(2)).map(|_| "OK").ok_or(BAD_LINE),
        (b"sleep", 3) => match number::<u32>(request.word(2)) {
            Some(0..=1_000_000) => Ok("OK"),
            Some(_) => Err(CommandError::say("CLIENT_ERROR sleep must be one second or less")),
            None => Err(BAD_LINE),
        },
        _ => Err(CommandError::say("ERROR")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_encoded_as_in_uris() {
        let mut output = Vec::new();
        write_encoded(&mut output, b"a-Z_0.~/:\xff");
        assert_eq!(output, b"a-Z_0.~%2F%3A%FF");
    }

    #[test]
    fn classes_are_named_or_numbered() {
        assert!(wants_all(b"all").unwrap() && wants_all(b"hash").unwrap() && wants_all(b"5,1").unwrap());
        assert!(!wants_all(b"2").unwrap());
        for bad in [&b"0"[..], b"64", b"x", b"", b"1,", b"-1"] {
            assert!(wants_all(bad).is_err(), "{}", bad.escape_ascii());
        }
    }
}
