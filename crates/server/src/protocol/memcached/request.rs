//! Parses requests. A request is a line, followed by a data block for some commands.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use smallvec::SmallVec;

/// Maximum length of a line in bytes, including its line end.
pub const MAX_LINE: usize = 1 << 20;

/// Maximum length of a key in bytes, as in memcached.
pub const MAX_KEY: usize = 250;

/// Maximum number of words in a line, except for commands that get several items.
const MAX_WORDS: usize = 24;

/// The result of parsing the start of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParsedInput<'a> {
    /// The input contains no complete request.
    Nothing,
    /// A complete request, and its length in bytes.
    Request(MemcachedRequest<'a>, usize),
    /// An invalid request, with the error to reply and the number of bytes to skip, some of which
    /// may not have arrived yet.
    Bad(&'static str, usize),
    /// A request whose data block is too long. Holds the request without its block, and the number
    /// of bytes to skip, some of which may not have arrived yet.
    TooLarge(MemcachedRequest<'a>, usize),
    /// A line that exceeds the maximum length. The connection must be closed.
    Endless,
    /// A line of an HTTP request. The connection must be closed without a reply.
    Http,
    /// A request in memcached's binary protocol, of which this is the header.
    Binary(&'a [u8]),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemcachedRequest<'a> {
    /// The words of the request line, beginning with the command.
    pub words: SmallVec<[&'a [u8]; 8]>,
    /// The data block, or empty if the command has none.
    pub block: &'a [u8],
}

impl<'a> MemcachedRequest<'a> {
    /// Returns the word at an index, or an empty word if the line is shorter.
    #[must_use]
    pub fn word(&self, index: usize) -> &'a [u8] {
        self.words.get(index).copied().unwrap_or_default()
    }

    /// Returns whether the last word is `noreply`, which asks for no reply.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.words.last().is_some_and(|word| *word == b"noreply")
    }
}

/// The first byte of a request in memcached's binary protocol.
const BINARY: u8 = 0x80;

/// Length in bytes of a binary protocol header.
const BINARY_HEADER: usize = 24;

const BAD_LINE: &str = "CLIENT_ERROR bad command line format";
const BAD_BLOCK: &str = "CLIENT_ERROR bad data chunk";

/// Returns the index of the word that states the data block's length, or `None` if the command has
/// no block.
fn block_word(command: &[u8]) -> Option<usize> {
    match command {
        b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => Some(4),
        b"ms" => Some(2),
        _ => None,
    }
}

/// Parses a decimal number. Returns `None` if it is malformed or out of range.
#[must_use]
pub fn number<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Parses an item's client flags. As in memcached, numbers of more than 32 bits are truncated.
#[must_use]
pub fn flags(word: &[u8]) -> Option<u32> {
    number::<u64>(word).map(|flags| flags as u32)
}

/// Returns the total size in bytes of the incomplete request at the start of the input, or 0 if it
/// cannot be determined yet.
#[must_use]
pub fn announced(buffer: &[u8], most: usize) -> usize {
    let Some(end) = buffer.iter().take(MAX_LINE).position(|&byte| byte == b'\n') else {
        return 0;
    };
    let line = buffer.get(..end).unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut words = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let at = words.next().and_then(block_word);
    let length = at.and_then(|at| words.nth(at - 1)).and_then(number::<usize>);
    let length = length.filter(|&length| length <= most);
    length.map_or(0, |length| end + 1 + length + 2)
}

/// Parses the request at the start of the input. Rejects requests with data blocks of more than
/// `most` bytes.
#[must_use]
pub fn read(buffer: &[u8], most: usize) -> ParsedInput<'_> {
    if buffer.first() == Some(&BINARY) {
        return buffer
            .get(..BINARY_HEADER)
            .map_or(ParsedInput::Nothing, ParsedInput::Binary);
    }
    let Some(end) = buffer.iter().take(MAX_LINE).position(|&byte| byte == b'\n') else {
        return if buffer.len() >= MAX_LINE {
            ParsedInput::Endless
        } else {
            ParsedInput::Nothing
        };
    };
    let line = buffer.get(..end).unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let words: SmallVec<[&[u8]; 8]> = line
        .split(|&byte| byte == b' ')
        .filter(|word| !word.is_empty())
        .collect();
    let taken = end + 1;
    let command = words.first().copied().unwrap_or_default();
    if is_http(&words) {
        return ParsedInput::Http;
    }
    let is_get = matches!(command, b"get" | b"gets" | b"gat" | b"gats");
    if words.len() > MAX_WORDS && !is_get {
        return ParsedInput::Bad("ERROR", taken);
    }
    let Some(at) = block_word(command) else {
        return ParsedInput::Request(MemcachedRequest { words, block: &[] }, taken);
    };
    let Some(length) = words.get(at) else {
        let has_key = command == b"ms" && words.len() > 1;
        return ParsedInput::Bad(if has_key { BAD_LINE } else { "ERROR" }, taken);
    };
    // If a line that states a block length is rejected, skip the block, too, because it contains
    // the client's data and not requests.
    let length = number::<u64>(length);
    let block = length.map_or(0, |length| length.saturating_add(2));
    let all = taken.saturating_add(usize::try_from(block).unwrap_or(usize::MAX));
    let is_cas = command == b"cas";
    if is_cas && words.len() < 6 {
        return ParsedInput::Bad("ERROR", all);
    }
    let is_key = words.get(1).is_some_and(|key| key.len() <= MAX_KEY);
    let fits = command == b"ms"
        || words.get(2).copied().and_then(flags).is_some()
            && words.get(3).copied().and_then(number::<i32>).is_some()
            && (!is_cas || words.get(5).copied().and_then(number::<u64>).is_some());
    let length = length.and_then(|length| usize::try_from(length).ok());
    let (Some(length), true) = (length, is_key && fits) else {
        return ParsedInput::Bad(BAD_LINE, all);
    };
    if length > most {
        return ParsedInput::TooLarge(MemcachedRequest { words, block: &[] }, all);
    }
    let rest = buffer.get(taken..).unwrap_or_default();
    let (Some(block), Some(end)) = (rest.get(..length), rest.get(length..length + 2)) else {
        return ParsedInput::Nothing;
    };
    if end != b"\r\n" {
        // As in memcached, skip the rest of the line after the block.
        let mut after = rest.iter().skip(length);
        let skipped = after.position(|&byte| byte == b'\n');
        let skipped = skipped.map_or(rest.len() - length, |at| at + 1);
        return ParsedInput::Bad(BAD_BLOCK, taken + length + skipped);
    }
    ParsedInput::Request(MemcachedRequest { words, block }, taken + length + 2)
}

/// Returns whether a line belongs to an HTTP request: either a request line, which begins with a
/// method and ends with the protocol version, or a `Host` header. The method must be checked,
/// because a memcached key may begin with `HTTP/`.
fn is_http(words: &[&[u8]]) -> bool {
    const VERBS: [&[u8]; 9] = [
        b"GET", b"POST", b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"PATCH", b"CONNECT", b"TRACE",
    ];
    let Some(first) = words.first() else {
        return false;
    };
    let has_version = words.last().is_some_and(|word| word.starts_with(b"HTTP/"));
    first.eq_ignore_ascii_case(b"host:") || (has_version && VERBS.contains(first))
}

/// Returns the error reply to a request in the binary protocol, which is not supported. The reply
/// is encoded in that protocol.
#[must_use]
pub fn binary_refusal(header: &[u8]) -> Vec<u8> {
    const TEXT: &[u8] = b"the binary protocol is not supported; use the text protocol";
    /// The magic byte at the start of a reply.
    const REPLY: u8 = 0x81;
    /// The 16-bit status code `Unknown command`.
    const UNKNOWN: [u8; 2] = [0, 0x81];
    let mut frame = vec![REPLY, header.get(1).copied().unwrap_or_default()];
    // Key length, extras length and data type are all zero.
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(&UNKNOWN);
    frame.extend_from_slice(&[0, 0, 0, TEXT.len() as u8]);
    // Return the request's opaque value. The CAS value is zero.
    frame.extend_from_slice(header.get(12..16).unwrap_or(&[0; 4]));
    frame.extend_from_slice(&[0; 8]);
    frame.extend_from_slice(TEXT);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_long_its_request_is() {
        assert_eq!(announced(b"set a 0 0 100\r\nx", 1000), 15 + 102);
        assert_eq!(announced(b"ms a 100 T0\r\nx", 1000), 13 + 102);
        assert_eq!(announced(b"set a 0 0 100", 1000), 0);
        assert_eq!(announced(b"set a 0 0 100\r\n", 99), 0);
        assert_eq!(announced(b"get a 0 0 100\r\n", 1000), 0);
    }

    #[test]
    fn lines_of_http_are_known() {
        assert_eq!(read(b"POST / HTTP/1.1\r\nset a 0 0 1\r\n", 10), ParsedInput::Http);
        assert_eq!(read(b"Host: x\r\n", 10), ParsedInput::Http);
        assert!(matches!(read(b"get HTTP/1.1\r\n", 10), ParsedInput::Request(..)));
    }

    #[test]
    fn the_binary_protocol_is_refused_in_its_own_form() {
        let mut request = vec![0x80, 0x0a];
        request.resize(12, 0);
        request.extend_from_slice(&[1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(read(&request, 10), ParsedInput::Nothing);
        request.push(0);
        let ParsedInput::Binary(header) = read(&request, 10) else {
            panic!("a request of the binary protocol")
        };
        let refusal = binary_refusal(header);
        assert_eq!(refusal[..8], [0x81, 0x0a, 0, 0, 0, 0, 0, 0x81]);
        assert_eq!(refusal[12..16], [1, 2, 3, 4]);
        assert_eq!(refusal.len(), BINARY_HEADER + usize::from(refusal[11]));
    }

    #[test]
    fn requests_are_lines_with_blocks() {
        let ParsedInput::Request(request, taken) = read(b"get a  b\r\nrest", 10) else {
            panic!("a request")
        };
        assert_eq!((&request.words[..], taken), (&[&b"get"[..], b"a", b"b"][..], 10));
        let ParsedInput::Request(request, taken) = read(b"set k 0 0 3 noreply\r\na\nb\r\nx", 10) else {
            panic!("a request")
        };
        assert!(request.is_quiet());
        assert_eq!((request.block, taken), (&b"a\nb"[..], 26));
        let whole = b"ms k 2 T0\r\nab\r\n";
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end], 10), ParsedInput::Nothing, "{end}");
        }
    }

    #[test]
    fn what_is_no_request_is_skipped() {
        assert_eq!(read(b"set k 0 0\r\n", 10), ParsedInput::Bad("ERROR", 11));
        assert_eq!(read(b"set k 0 0 x\r\n", 10), ParsedInput::Bad(BAD_LINE, 13));
        assert_eq!(read(b"set k 0 0 -1\r\n", 10), ParsedInput::Bad(BAD_LINE, 14));
        assert_eq!(read(b"set k x 0 1\r\na\r\n", 10), ParsedInput::Bad(BAD_LINE, 16));
        assert_eq!(read(b"cas k 0 0 1\r\na\r\n", 10), ParsedInput::Bad("ERROR", 16));
        let long = [b"set ", &[b'k'; MAX_KEY + 1][..], b" 0 0 11\r\nflush_all\r\n\r\n"].concat();
        assert_eq!(read(&long, 20), ParsedInput::Bad(BAD_LINE, long.len()));
        assert_eq!(read(b"ms\r\n", 10), ParsedInput::Bad("ERROR", 4));
        assert_eq!(read(b"ms k x\r\n", 10), ParsedInput::Bad(BAD_LINE, 8));
        assert!(matches!(
            read(b"set k 0 0 11\r\n", 10),
            ParsedInput::TooLarge(_, 27)
        ));
        assert!(matches!(
            read(b"set k 0 0 99999999999\r\n", 10),
            ParsedInput::TooLarge(_, 100_000_000_024)
        ));
        let longest = read(b"set k 0 0 18446744073709551615\r\n", 10);
        assert!(
            matches!(longest, ParsedInput::TooLarge(_, usize::MAX)),
            "{longest:?}"
        );
        assert!(matches!(
            read(b"set k 4294967296 0 1\r\na\r\n", 10),
            ParsedInput::Request(_, 25)
        ));
        assert_eq!(
            read(b"set k 0 0 1\r\nabc\r\nget", 10),
            ParsedInput::Bad(BAD_BLOCK, 18)
        );
        assert_eq!(read(&[b'a'; MAX_LINE], 10), ParsedInput::Endless);
    }
}
