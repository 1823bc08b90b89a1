//! Requests out of bytes: a line, and behind some a block.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use smallvec::SmallVec;

/// The longest line.
pub const MAX_LINE: usize = 1 << 20;

/// The longest key.
pub const MAX_KEY: usize = 250;

/// The most words of a line that is not a `get`.
const MAX_WORDS: usize = 24;

/// What stands at the beginning of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// More bytes are needed.
    Nothing,
    /// A request, and how many bytes it takes.
    Request(Request<'a>, usize),
    /// A request that is none, and how many bytes are to be skipped, of which some may not have
    /// come.
    Bad(&'static str, usize),
    /// A request whose block is longer than is taken, without that block, and how many bytes are
    /// to be skipped, of which some may not have come.
    TooLarge(Request<'a>, usize),
    /// A line without an end: the connection is of no use any more.
    Endless,
    /// A line of HTTP: the connection ends without a reply.
    Http,
    /// A request of the binary protocol, which begins with this header.
    Binary(&'a [u8]),
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The words of its line.
    pub words: SmallVec<[&'a [u8]; 8]>,
    /// The block behind it; empty if there is none.
    pub block: &'a [u8],
}

impl<'a> Request<'a> {
    /// A word; empty if there are not as many.
    #[must_use]
    pub fn word(&self, index: usize) -> &'a [u8] {
        self.words.get(index).copied().unwrap_or_default()
    }

    /// Whether its last word is `noreply`.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.words.last().is_some_and(|word| *word == b"noreply")
    }
}

/// The first byte of every request of the binary protocol.
const BINARY: u8 = 0x80;

/// How long the header of such a request is.
const BINARY_HEADER: usize = 24;

const BAD_LINE: &str = "CLIENT_ERROR bad command line format";
const BAD_BLOCK: &str = "CLIENT_ERROR bad data chunk";

/// Where a command says how long the block behind it is.
fn block_word(command: &[u8]) -> Option<usize> {
    match command {
        b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => Some(4),
        b"ms" => Some(2),
        _ => None,
    }
}

/// A number of a line.
#[must_use]
pub fn number<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// The flags of an item. Of a number that is longer, the lowest bits are kept, as memcached does.
#[must_use]
pub fn flags(word: &[u8]) -> Option<u32> {
    number::<u64>(word).map(|flags| flags as u32)
}

/// How many bytes the request takes in all that a buffer begins with, but which has not come as a
/// whole; 0 where nothing is known.
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

/// Reads the request that a buffer begins with. Blocks are at most `most` bytes long.
#[must_use]
pub fn read(buffer: &[u8], most: usize) -> Found<'_> {
    if buffer.first() == Some(&BINARY) {
        return buffer.get(..BINARY_HEADER).map_or(Found::Nothing, Found::Binary);
    }
    let Some(end) = buffer.iter().take(MAX_LINE).position(|&byte| byte == b'\n') else {
        return if buffer.len() >= MAX_LINE {
            Found::Endless
        } else {
            Found::Nothing
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
        return Found::Http;
    }
    let is_get = matches!(command, b"get" | b"gets" | b"gat" | b"gats");
    if words.len() > MAX_WORDS && !is_get {
        return Found::Bad("ERROR", taken);
    }
    let Some(at) = block_word(command) else {
        return Found::Request(Request { words, block: &[] }, taken);
    };
    let Some(length) = words.get(at) else {
        let has_key = command == b"ms" && words.len() > 1;
        return Found::Bad(if has_key { BAD_LINE } else { "ERROR" }, taken);
    };
    // Where a line is refused that says how long its block is, the block is skipped: what it has is
    // the client's data, and no requests.
    let length = number::<u64>(length);
    let block = length.map_or(0, |length| length.saturating_add(2));
    let all = taken.saturating_add(usize::try_from(block).unwrap_or(usize::MAX));
    let is_cas = command == b"cas";
    if is_cas && words.len() < 6 {
        return Found::Bad("ERROR", all);
    }
    let is_key = words.get(1).is_some_and(|key| key.len() <= MAX_KEY);
    let fits = command == b"ms"
        || words.get(2).copied().and_then(flags).is_some()
            && words.get(3).copied().and_then(number::<i32>).is_some()
            && (!is_cas || words.get(5).copied().and_then(number::<u64>).is_some());
    let length = length.and_then(|length| usize::try_from(length).ok());
    let (Some(length), true) = (length, is_key && fits) else {
        return Found::Bad(BAD_LINE, all);
    };
    if length > most {
        return Found::TooLarge(Request { words, block: &[] }, all);
    }
    let rest = buffer.get(taken..).unwrap_or_default();
    let (Some(block), Some(end)) = (rest.get(..length), rest.get(length..length + 2)) else {
        return Found::Nothing;
    };
    if end != b"\r\n" {
        // What follows is skipped up to its next line, as memcached does.
        let mut after = rest.iter().skip(length);
        let skipped = after.position(|&byte| byte == b'\n');
        let skipped = skipped.map_or(rest.len() - length, |at| at + 1);
        return Found::Bad(BAD_BLOCK, taken + length + skipped);
    }
    Found::Request(Request { words, block }, taken + length + 2)
}

/// Whether a line belongs to HTTP: the first of a request, which ends in the protocol's version, or
/// the one that names the host. A key of memcached may begin with `HTTP/`, a command may not stand
/// before it alone.
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

/// The answer to a request of the binary protocol, which is not spoken here: an error in its own
/// form.
#[must_use]
pub fn binary_refusal(header: &[u8]) -> Vec<u8> {
    const TEXT: &[u8] = b"the binary protocol is not spoken here: use the text protocol";
    /// A reply.
    const REPLY: u8 = 0x81;
    /// `Unknown command`, as a 16-bit status.
    const UNKNOWN: [u8; 2] = [0, 0x81];
    let mut frame = vec![REPLY, header.get(1).copied().unwrap_or_default()];
    // No key, no extras, raw bytes.
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(&UNKNOWN);
    frame.extend_from_slice(&[0, 0, 0, TEXT.len() as u8]);
    // What the client has sent to know its reply by, and no number of the item.
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
        assert_eq!(read(b"POST / HTTP/1.1\r\nset a 0 0 1\r\n", 10), Found::Http);
        assert_eq!(read(b"Host: x\r\n", 10), Found::Http);
        assert!(matches!(read(b"get HTTP/1.1\r\n", 10), Found::Request(..)));
    }

    #[test]
    fn the_binary_protocol_is_refused_in_its_own_form() {
        let mut request = vec![0x80, 0x0a];
        request.resize(12, 0);
        request.extend_from_slice(&[1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(read(&request, 10), Found::Nothing);
        request.push(0);
        let Found::Binary(header) = read(&request, 10) else {
            panic!("a request of the binary protocol")
        };
        let refusal = binary_refusal(header);
        assert_eq!(refusal[..8], [0x81, 0x0a, 0, 0, 0, 0, 0, 0x81]);
        assert_eq!(refusal[12..16], [1, 2, 3, 4]);
        assert_eq!(refusal.len(), BINARY_HEADER + usize::from(refusal[11]));
    }

    #[test]
    fn requests_are_lines_with_blocks() {
        let Found::Request(request, taken) = read(b"get a  b\r\nrest", 10) else {
            panic!("a request")
        };
        assert_eq!((&request.words[..], taken), (&[&b"get"[..], b"a", b"b"][..], 10));
        let Found::Request(request, taken) = read(b"set k 0 0 3 noreply\r\na\nb\r\nx", 10) else {
            panic!("a request")
        };
        assert!(request.is_quiet());
        assert_eq!((request.block, taken), (&b"a\nb"[..], 26));
        let whole = b"ms k 2 T0\r\nab\r\n";
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end], 10), Found::Nothing, "{end}");
        }
    }

    #[test]
    fn what_is_no_request_is_skipped() {
        assert_eq!(read(b"set k 0 0\r\n", 10), Found::Bad("ERROR", 11));
        assert_eq!(read(b"set k 0 0 x\r\n", 10), Found::Bad(BAD_LINE, 13));
        assert_eq!(read(b"set k 0 0 -1\r\n", 10), Found::Bad(BAD_LINE, 14));
        assert_eq!(read(b"set k x 0 1\r\na\r\n", 10), Found::Bad(BAD_LINE, 16));
        assert_eq!(read(b"cas k 0 0 1\r\na\r\n", 10), Found::Bad("ERROR", 16));
        let long = [b"set ", &[b'k'; MAX_KEY + 1][..], b" 0 0 11\r\nflush_all\r\n\r\n"].concat();
        assert_eq!(read(&long, 20), Found::Bad(BAD_LINE, long.len()));
        assert_eq!(read(b"ms\r\n", 10), Found::Bad("ERROR", 4));
        assert_eq!(read(b"ms k x\r\n", 10), Found::Bad(BAD_LINE, 8));
        assert!(matches!(read(b"set k 0 0 11\r\n", 10), Found::TooLarge(_, 27)));
        assert!(matches!(
            read(b"set k 0 0 99999999999\r\n", 10),
            Found::TooLarge(_, 100_000_000_024)
        ));
        let longest = read(b"set k 0 0 18446744073709551615\r\n", 10);
        assert!(matches!(longest, Found::TooLarge(_, usize::MAX)), "{longest:?}");
        assert!(matches!(
            read(b"set k 4294967296 0 1\r\na\r\n", 10),
            Found::Request(_, 25)
        ));
        assert_eq!(read(b"set k 0 0 1\r\nabc\r\nget", 10), Found::Bad(BAD_BLOCK, 18));
        assert_eq!(read(&[b'a'; MAX_LINE], 10), Found::Endless);
    }
}
