//! Requests out of bytes: a line, and behind some a block.

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
    /// A request, which takes so many bytes.
    Request(Request<'a>, usize),
    /// A request that is none; so many bytes are to be skipped, of which some may not have come.
    Bad(&'static str, usize),
    /// A line without an end: the connection is of no use any more.
    Endless,
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

const BAD_LINE: &str = "CLIENT_ERROR bad command line format";
const BAD_BLOCK: &str = "CLIENT_ERROR bad data chunk";
const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";

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

/// Reads the request that a buffer begins with. Blocks are at most `most` bytes long.
#[must_use]
pub fn read(buffer: &[u8], most: usize) -> Found<'_> {
    let Some(end) = buffer.iter().take(MAX_LINE).position(|&byte| byte == b'\n') else {
        return if buffer.len() >= MAX_LINE {
            Found::Endless
        } else {
            Found::Nothing
        };
    };
    let line = &buffer[..end];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let words: SmallVec<[&[u8]; 8]> = line
        .split(|&byte| byte == b' ')
        .filter(|word| !word.is_empty())
        .collect();
    let taken = end + 1;
    let command = words.first().copied().unwrap_or_default();
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
    // What is wrong before the block is found before the block is looked for: it is taken for the next request.
    let is_cas = command == b"cas";
    if is_cas && words.len() < 6 {
        return Found::Bad("ERROR", taken);
    }
    let is_key = words.get(1).is_some_and(|key| key.len() <= MAX_KEY);
    let fits = command == b"ms"
        || words.get(2).copied().and_then(number::<u32>).is_some()
            && words.get(3).copied().and_then(number::<i32>).is_some()
            && (!is_cas || words.get(5).copied().and_then(number::<u64>).is_some());
    let length = number::<i32>(length).and_then(|length| usize::try_from(length).ok());
    let (Some(length), true) = (length, is_key && fits) else {
        return Found::Bad(BAD_LINE, taken);
    };
    if length > most {
        return Found::Bad(TOO_LARGE, taken.saturating_add(length).saturating_add(2));
    }
    let rest = &buffer[taken..];
    if rest.len() < length + 2 {
        return Found::Nothing;
    }
    if &rest[length..length + 2] != b"\r\n" {
        // What follows is skipped up to its next line, as memcached does.
        let skipped = rest[length..].iter().position(|&byte| byte == b'\n');
        let skipped = skipped.map_or(rest.len() - length, |at| at + 1);
        return Found::Bad(BAD_BLOCK, taken + length + skipped);
    }
    let block = &rest[..length];
    Found::Request(Request { words, block }, taken + length + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(read(b"set k x 0 1\r\na\r\n", 10), Found::Bad(BAD_LINE, 13));
        assert_eq!(read(b"cas k 0 0 1\r\na\r\n", 10), Found::Bad("ERROR", 13));
        assert_eq!(read(b"ms\r\n", 10), Found::Bad("ERROR", 4));
        assert_eq!(read(b"ms k x\r\n", 10), Found::Bad(BAD_LINE, 8));
        assert_eq!(read(b"set k 0 0 11\r\n", 10), Found::Bad(TOO_LARGE, 27));
        assert_eq!(read(b"set k 0 0 1\r\nabc\r\nget", 10), Found::Bad(BAD_BLOCK, 18));
        assert_eq!(read(&[b'a'; MAX_LINE], 10), Found::Endless);
    }
}
