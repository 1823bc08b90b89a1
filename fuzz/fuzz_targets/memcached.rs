//! The parser of memcached requests with arbitrary bytes.
//!
//! Strategy: requests are parsed as on a connection until the input is used up. Invariants: no
//! panic; words and blocks lie within the input; every step consumes input; a truncated request is
//! never misparsed: a prefix of a request yields either nothing or the same result as the whole
//! request.
//! read of the whole.
#![no_main]

use alluvium_server::memcached::request::{ParsedInput, binary_refusal, read};
use libfuzzer_sys::fuzz_target;

const MOST: usize = 1024;

fuzz_target!(|input: &[u8]| {
    let mut at = 0;
    while at < input.len() {
        let rest = &input[at..];
        match read(rest, MOST) {
            ParsedInput::Nothing | ParsedInput::Endless | ParsedInput::Http => return,
            ParsedInput::Binary(header) => {
                assert!(binary_refusal(header).len() > header.len());
                return;
            }
            ParsedInput::Request(request, taken) => {
                assert!(taken > 0 && taken <= rest.len());
                assert!(request.block.len() <= MOST);
                for end in [taken / 2, taken - 1] {
                    assert_eq!(read(&rest[..end], MOST), ParsedInput::Nothing);
                }
                at += taken;
            }
            ParsedInput::TooLarge(request, taken) => {
                assert!(taken > MOST && request.block.is_empty());
                at = at.saturating_add(taken);
            }
            ParsedInput::Bad(error, taken) => {
                assert!(taken > 0 && !error.is_empty());
                at = at.saturating_add(taken);
            }
        }
    }
});
