//! The parser of Redis requests with arbitrary bytes.
//!
//! Strategy: the first byte selects the length of the pieces in which the rest arrives; the same
//! bytes are also parsed at once. Invariants: no panic; arguments lie within the received bytes;
//! both ways yield the same requests and the same error; no length in the input sizes an
//! allocation; a parsed request survives encoding and parsing unchanged.
#![no_main]

use alluvium_server::resp::{BadRequest, ParsedRequests, RequestLimits, RequestParser};
use libfuzzer_sys::fuzz_target;

const LIMITS: RequestLimits = RequestLimits {
    bytes: 4096,
    argument: 2048,
    arguments: 64,
    line: 512,
};

type Words = Vec<Vec<u8>>;

fn read(bytes: &[u8], piece: usize) -> (Vec<Words>, Option<BadRequest>) {
    let (mut parser, mut requests) = (RequestParser::default(), ParsedRequests::default());
    let (mut buffer, mut all) = (Vec::new(), Vec::new());
    for part in bytes.chunks(piece) {
        buffer.extend_from_slice(part);
        loop {
            let result = parser.parse(&mut buffer, &mut requests, &LIMITS, 4);
            for index in 0..requests.len() {
                let args = requests.get(index, &buffer);
                assert!(!args.is_empty());
                all.push(args.iter().map(<[u8]>::to_vec).collect());
            }
            let consumed = requests.consumed();
            assert!(consumed <= buffer.len());
            buffer.drain(..consumed);
            requests.forget();
            if let Err(bad) = result {
                return (all, Some(bad));
            }
            if consumed == 0 {
                break;
            }
        }
    }
    (all, None)
}

fuzz_target!(|input: &[u8]| {
    let Some((cut, bytes)) = input.split_first() else {
        return;
    };
    let whole = read(bytes, bytes.len().max(1));
    assert_eq!(read(bytes, usize::from(*cut).max(1)), whole);
    let mut encoded = Vec::new();
    for words in &whole.0 {
        encoded.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            encoded.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            encoded.extend_from_slice(word);
            encoded.extend_from_slice(b"\r\n");
        }
    }
    let fits = whole.0.iter().all(|words| words.len() <= LIMITS.arguments);
    if fits {
        assert_eq!(read(&encoded, encoded.len().max(1)), (whole.0, None));
    }
});
