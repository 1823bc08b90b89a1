//! Divides the input into runs of requests that are executed together, and determines how each
//! request accesses items.

use super::items::ItemAccess;
use super::meta;
use super::request::{self, MemcachedRequest, ParsedInput};
use super::text::key;
use std::borrow::Cow;

/// Total size in bytes from which a run accepts no further request.
const MOST_BYTES: usize = 1 << 20;

/// The work to do next, with its length in the input in bytes. Variants without documentation mean
/// the same as in [`ParsedInput`].
pub(super) enum NextWork<'a> {
    Nothing,
    /// Requests on individual items, which are executed in one run.
    Run(Vec<MemcachedRequest<'a>>, usize),
    /// A request that must run on its own.
    Alone(MemcachedRequest<'a>, usize),
    Bad(&'static str, usize),
    TooLarge(MemcachedRequest<'a>, usize),
    Endless,
    Http,
    Binary(&'a [u8]),
}

/// Maximum number of items to prefetch for one request. Further items are read one by one.
const READ_AHEAD: usize = 64;

/// How many requests a run may contain.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunLimits {
    pub(super) requests: usize,
    /// Maximum number of requests that return items: `get`, `gat`, `mg` and their variants.
    pub(super) reads: usize,
}

impl RunLimits {
    /// Returns limits that restrict only the total number of requests.
    pub(super) fn requests(requests: usize) -> RunLimits {
        RunLimits {
            requests,
            reads: usize::MAX,
        }
    }
}

/// Returns the next run, or the next request that must run on its own. Rejects requests with data
/// blocks of more than `most_block` bytes.
pub(super) fn next(buffer: &[u8], most_block: usize, most: RunLimits) -> NextWork<'_> {
    let mut requests = Vec::new();
    let (mut taken, mut reads) = (0, 0);
    while requests.len() < most.requests && reads < most.reads && taken < MOST_BYTES {
        match request::read(&buffer[taken..], most_block) {
            ParsedInput::Request(request, bytes) if is_of_items(request.word(0)) => {
                reads += usize::from(matches!(
                    request.word(0),
                    b"get" | b"gets" | b"gat" | b"gats" | b"mg"
                ));
                requests.push(request);
                taken += bytes;
            }
            // End the run here, and handle whatever follows after it.
            _ if !requests.is_empty() => break,
            ParsedInput::Request(request, bytes) => return NextWork::Alone(request, bytes),
            ParsedInput::Nothing => return NextWork::Nothing,
            ParsedInput::Bad(error, bytes) => return NextWork::Bad(error, bytes),
            ParsedInput::TooLarge(request, bytes) => return NextWork::TooLarge(request, bytes),
            ParsedInput::Endless => return NextWork::Endless,
            ParsedInput::Http => return NextWork::Http,
            ParsedInput::Binary(header) => return NextWork::Binary(header),
        }
    }
    if requests.is_empty() {
        NextWork::Nothing
    } else {
        NextWork::Run(requests, taken)
    }
}

/// Returns whether a command concerns only individual items.
fn is_of_items(command: &[u8]) -> bool {
    matches!(
        command,
        b"get"
            | b"gets"
            | b"gat"
            | b"gats"
            | b"set"
            | b"add"
            | b"replace"
            | b"append"
            | b"prepend"
            | b"cas"
            | b"incr"
            | b"decr"
            | b"touch"
            | b"delete"
            | b"mg"
            | b"ms"
            | b"md"
            | b"ma"
            | b"me"
    )
}

/// Returns an upper bound on the number of bytes that the requests write from their data blocks.
pub(super) fn written_bytes(requests: &[MemcachedRequest<'_>]) -> usize {
    requests.iter().map(|request| request.block.len()).sum()
}

/// Returns the key of the item that a request with an oversized data block was meant to replace. As
/// in memcached, that item is deleted, so that the client cannot mistake it for the new one.
pub(super) fn outdated<'a>(request: &'a MemcachedRequest<'_>) -> Option<Cow<'a, [u8]>> {
    match request.word(0) {
        b"set" => key(request.word(1)).ok().map(Cow::Borrowed),
        b"ms" => meta::access(request, true).map(|(key, _)| key),
        _ => None,
    }
}

/// Calls `each` with the key and kind of access for every item that a request may access. Skips
/// invalid keys, because the request will be rejected when it runs. If `careful` is true, assumes
/// that `mg` may change an item that it finds stale.
pub(super) fn accesses(
    request: &MemcachedRequest<'_>,
    careful: bool,
    mut each: impl FnMut(&[u8], ItemAccess),
) {
    let mut words = |from: usize, most: usize, access: ItemAccess| {
        let words = request.words.iter().skip(from).take(most);
        words
            .filter(|word| key(word).is_ok())
            .for_each(|word| each(word, access));
    };
    match request.word(0) {
        b"get" | b"gets" => words(1, READ_AHEAD, ItemAccess::Reads),
        b"gat" | b"gats" => words(2, usize::MAX, ItemAccess::Changes),
        b"mg" | b"ms" | b"md" | b"ma" | b"me" => {
            if let Some((key, access)) = meta::access(request, careful) {
                each(&key, access);
            }
        }
        command => {
            let word = request.word(1);
            if key(word).is_ok() {
                let access = if command == b"set" {
                    ItemAccess::Overwrites
                } else {
                    ItemAccess::Changes
                };
                each(word, access);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_where_something_else_comes() {
        let text = b"get a b\r\nset c 0 0 1\r\nx\r\nstats\r\nget d\r\nget";
        let NextWork::Run(requests, taken) = next(text, 10, RunLimits::requests(100)) else {
            panic!("a run")
        };
        assert_eq!((requests.len(), taken), (2, 25));
        assert!(matches!(
            next(&text[taken..], 10, RunLimits::requests(100)),
            NextWork::Alone(_, 7)
        ));
        let NextWork::Run(requests, taken) = next(&text[32..], 10, RunLimits::requests(100)) else {
            panic!("a run")
        };
        assert_eq!((requests.len(), taken), (1, 7));
        assert!(matches!(
            next(&text[39..], 10, RunLimits::requests(100)),
            NextWork::Nothing
        ));
        let NextWork::Run(requests, taken) = next(text, 10, RunLimits::requests(1)) else {
            panic!("a run")
        };
        assert_eq!((requests.len(), taken), (1, 9));
        let most = RunLimits {
            requests: 10,
            reads: 2,
        };
        let NextWork::Run(requests, _) = next(b"set a 0 0 1\r\nx\r\nget a\r\nget b\r\nget c\r\n", 10, most)
        else {
            panic!("a run")
        };
        assert_eq!(requests.len(), 3);
    }

    #[test]
    fn what_requests_do_with_items() {
        let of = |text: &str, careful: bool| {
            let ParsedInput::Request(request, _) = request::read(text.as_bytes(), 10) else {
                panic!("a request: {text:?}")
            };
            let mut all = Vec::new();
            accesses(&request, careful, |key, access| all.push((key.to_vec(), access)));
            all
        };
        let one = |key: &str, access| vec![(key.as_bytes().to_vec(), access)];
        assert_eq!(of("get a\r\n", false), one("a", ItemAccess::Reads));
        assert_eq!(of("gets a b\r\n", false).len(), 2);
        assert_eq!(of("gat 5 a\r\n", false), one("a", ItemAccess::Changes));
        assert_eq!(
            of("set a 0 0 1\r\nx\r\n", false),
            one("a", ItemAccess::Overwrites)
        );
        assert_eq!(of("add a 0 0 1\r\nx\r\n", false), one("a", ItemAccess::Changes));
        assert_eq!(of("incr a 1\r\n", false), one("a", ItemAccess::Changes));
        assert_eq!(of("mg a v\r\n", false), one("a", ItemAccess::Reads));
        assert_eq!(of("mg a v\r\n", true), one("a", ItemAccess::Changes));
        assert_eq!(of("mg a t T30\r\n", false), one("a", ItemAccess::Changes));
        assert_eq!(of("mg YQ== b v\r\n", false), one("a", ItemAccess::Reads));
        assert_eq!(of("ms a 1\r\nx\r\n", false), one("a", ItemAccess::Changes));
        assert_eq!(of("get\r\n", false), []);
        assert_eq!(of("mg ! b\r\n", false), []);
    }
}
