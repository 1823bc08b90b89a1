//! The client side of both protocols: requests that set or get one key, and their replies.

use anyhow::{Result, bail};
use std::io::Write;
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerProtocol {
    /// The Redis protocol in version 2 (RESP2).
    Redis,
    /// The text protocol of memcached.
    Memcached,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerReply {
    Stored,
    /// The value, as a range of the received bytes.
    Value(Range<usize>),
    /// The key does not exist.
    Missing,
}

/// Maximum length of a line in bytes.
const LONGEST_LINE: usize = 4096;

impl ServerProtocol {
    /// Appends a request that sets a key to `request`.
    pub fn set(self, request: &mut Vec<u8>, key: &[u8], value: &[u8]) {
        let head = match self {
            ServerProtocol::Redis => write!(request, "*3\r\n$3\r\nSET\r\n${}\r\n", key.len()),
            ServerProtocol::Memcached => write!(request, "set "),
        };
        head.expect("a vector takes everything");
        request.extend_from_slice(key);
        let middle = match self {
            ServerProtocol::Redis => write!(request, "\r\n${}\r\n", value.len()),
            ServerProtocol::Memcached => write!(request, " 0 0 {}\r\n", value.len()),
        };
        middle.expect("a vector takes everything");
        request.extend_from_slice(value);
        request.extend_from_slice(b"\r\n");
    }

    /// Appends a request that gets a key to `request`.
    pub fn get(self, request: &mut Vec<u8>, key: &[u8]) {
        let head = match self {
            ServerProtocol::Redis => write!(request, "*2\r\n$3\r\nGET\r\n${}\r\n", key.len()),
            ServerProtocol::Memcached => write!(request, "get "),
        };
        head.expect("a vector takes everything");
        request.extend_from_slice(key);
        request.extend_from_slice(b"\r\n");
    }

    /// Parses the reply at the beginning of the received bytes. Returns its length and its content,
    /// or `None` if it is incomplete.
    ///
    /// # Errors
    /// Returns an error if the server has replied with an error, or with something that is no reply
    /// to such a request.
    pub fn reply(self, received: &[u8]) -> Result<Option<(usize, ServerReply)>> {
        let Some(line) = line(received)? else {
            return Ok(None);
        };
        let after = line.len() + 2;
        match (self, line) {
            (ServerProtocol::Redis, b"+OK") | (ServerProtocol::Memcached, b"STORED") => {
                Ok(Some((after, ServerReply::Stored)))
            }
            (ServerProtocol::Redis, b"$-1") | (ServerProtocol::Memcached, b"END") => {
                Ok(Some((after, ServerReply::Missing)))
            }
            (ServerProtocol::Redis, [b'$', digits @ ..]) => Ok(value(received, after, digits, b"\r\n")?),
            (ServerProtocol::Memcached, [b'V', b'A', b'L', b'U', b'E', b' ', rest @ ..]) => {
                let digits = rest.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
                Ok(value(received, after, digits, b"\r\nEND\r\n")?)
            }
            _ => bail!("the server answered {:?}", String::from_utf8_lossy(line)),
        }
    }
}

/// Returns the first line without its line end, or `None` if it is incomplete.
fn line(received: &[u8]) -> Result<Option<&[u8]>> {
    let within = &received[..received.len().min(LONGEST_LINE)];
    match within.iter().position(|&byte| byte == b'\r') {
        Some(end) if end + 1 < received.len() => Ok(Some(&received[..end])),
        None if within.len() == LONGEST_LINE => bail!("the server sends a line that does not end"),
        _ => Ok(None),
    }
}

/// Parses a value that begins at `start`. `digits` is its length, and `behind` must follow it.
fn value(
    received: &[u8],
    start: usize,
    digits: &[u8],
    behind: &[u8],
) -> Result<Option<(usize, ServerReply)>> {
    let len: Option<usize> = std::str::from_utf8(digits)
        .ok()
        .and_then(|digits| digits.parse().ok());
    let Some(len) = len else {
        bail!(
            "the server announced a value of {:?} bytes",
            String::from_utf8_lossy(digits)
        );
    };
    let end = start.saturating_add(len);
    let Some(tail) = received.get(end..end.saturating_add(behind.len())) else {
        return Ok(None);
    };
    if tail != behind {
        bail!("a value from the server does not end after {len} bytes");
    }
    Ok(Some((end + behind.len(), ServerReply::Value(start..end))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_what_servers_expect() {
        let text = |of: &dyn Fn(&mut Vec<u8>)| {
            let mut request = Vec::new();
            of(&mut request);
            String::from_utf8(request).unwrap()
        };
        let (redis, memcached) = (ServerProtocol::Redis, ServerProtocol::Memcached);
        assert_eq!(
            text(&|request| redis.set(request, b"key", b"value")),
            "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n"
        );
        assert_eq!(
            text(&|request| redis.get(request, b"key")),
            "*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n"
        );
        assert_eq!(
            text(&|request| memcached.set(request, b"key", b"value")),
            "set key 0 0 5\r\nvalue\r\n"
        );
        assert_eq!(text(&|request| memcached.get(request, b"key")), "get key\r\n");
    }

    #[test]
    fn replies_are_taken_when_they_are_whole() {
        for (protocol, whole, expected) in [
            (ServerProtocol::Redis, "+OK\r\n", ServerReply::Stored),
            (ServerProtocol::Redis, "$-1\r\n", ServerReply::Missing),
            (
                ServerProtocol::Redis,
                "$4\r\na\r\nb\r\n",
                ServerReply::Value(4..8),
            ),
            (ServerProtocol::Memcached, "STORED\r\n", ServerReply::Stored),
            (ServerProtocol::Memcached, "END\r\n", ServerReply::Missing),
            (
                ServerProtocol::Memcached,
                "VALUE k 0 4\r\nEND\r\r\nEND\r\n",
                ServerReply::Value(13..17),
            ),
        ] {
            let bytes = whole.as_bytes();
            for cut in 0..bytes.len() {
                assert_eq!(protocol.reply(&bytes[..cut]).unwrap(), None, "{whole:?} to {cut}");
            }
            let followed = [bytes, b"+OK"].concat();
            assert_eq!(
                protocol.reply(&followed).unwrap(),
                Some((bytes.len(), expected)),
                "{whole:?}"
            );
        }
    }

    #[test]
    fn what_is_no_such_reply_is_said() {
        for (protocol, text, why) in [
            (ServerProtocol::Redis, "-ERR wrong\r\n", "ERR wrong"),
            (ServerProtocol::Redis, "$x\r\n", "\"x\" bytes"),
            (ServerProtocol::Redis, "$1\r\nabc\r\n", "does not end after 1"),
            (ServerProtocol::Memcached, "SERVER_ERROR full\r\n", "full"),
            (
                ServerProtocol::Memcached,
                "VALUE k 0 1\r\nab\r\nEND\r\n",
                "does not end after 1",
            ),
        ] {
            let error = protocol.reply(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let endless = vec![b'x'; LONGEST_LINE];
        assert!(ServerProtocol::Redis.reply(&endless).is_err());
    }
}
