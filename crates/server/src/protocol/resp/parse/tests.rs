use super::*;

const LIMITS: RequestLimits = RequestLimits {
    bytes: 100,
    argument: 50,
    arguments: 5,
    line: 40,
};

fn words(args: Args<'_>) -> Vec<Vec<u8>> {
    args.iter().map(<[u8]>::to_vec).collect()
}

/// Parses all requests in `bytes`, which arrive in pieces of `chunk` bytes.
fn read(bytes: &[u8], chunk: usize) -> Result<Vec<Vec<Vec<u8>>>, BadRequest> {
    read_within(bytes, chunk, &LIMITS)
}

fn read_within(bytes: &[u8], chunk: usize, limits: &RequestLimits) -> Result<Vec<Vec<Vec<u8>>>, BadRequest> {
    let (mut parser, mut requests) = (RequestParser::default(), ParsedRequests::default());
    let mut buffer: Vec<u8> = Vec::new();
    let mut all = Vec::new();
    for part in bytes.chunks(chunk) {
        buffer.extend_from_slice(part);
        let result = parser.parse(&mut buffer, &mut requests, limits, 3);
        for index in 0..requests.len() {
            all.push(words(requests.get(index, &buffer)));
        }
        buffer.drain(..requests.consumed());
        requests.forget();
        result?;
    }
    while !buffer.is_empty() {
        parser.parse(&mut buffer, &mut requests, limits, 3)?;
        if requests.is_empty() && requests.consumed() == 0 {
            break;
        }
        for index in 0..requests.len() {
            all.push(words(requests.get(index, &buffer)));
        }
        buffer.drain(..requests.consumed());
        requests.forget();
    }
    Ok(all)
}

fn bad(bytes: &[u8]) -> String {
    read(bytes, bytes.len()).unwrap_err().to_string()
}

#[test]
fn headers_that_are_read_in_one_go_mean_what_they_mean_line_by_line() {
    // With this line length limit, the fast path parses no header.
    let by_line = RequestLimits {
        line: USUAL_DIGITS + 2,
        ..LIMITS
    };
    for number in [
        "0", "1", "2", "3", "5", "6", "03", "00", "-1", "+1", "", "50", "51", "1a", " 1", "9999",
    ] {
        for end in ["\r\n", "\n", "\r", "\r\r\n"] {
            let count = format!("*{number}{end}$1\r\na\r\n$1\r\nb\r\nPING\r\n");
            let length = format!("*1\r\n${number}{end}abc\r\nPING\r\n");
            for text in [count, length] {
                for chunk in [1, 2, 5, text.len()] {
                    let bytes = text.as_bytes();
                    assert_eq!(
                        read(bytes, chunk),
                        read_within(bytes, chunk, &by_line),
                        "{text:?}"
                    );
                }
            }
        }
    }
    assert_eq!(usual_header(b"$12\r\n", b'$', &LIMITS), Some((12, 5)));
    assert_eq!(usual_header(b"$12\r\n", b'$', &by_line), None);
    assert_eq!(usual_header(b"$1234567890\r\n", b'$', &LIMITS), None);
}

#[test]
fn requests_are_the_same_however_they_arrive() {
    let bytes = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n\r\n*0\r\nPING\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\nset k \"a b\\x41\\n\"\n*1\r\n$4\r\nQUIT\r\n";
    let whole = read(bytes, bytes.len()).unwrap();
    assert_eq!(whole.len(), 5);
    assert_eq!(whole[0], [&b"GET"[..], b"k"]);
    assert_eq!(whole[1], [b"PING"]);
    assert_eq!(whole[2], [&b"SET"[..], b"k", b"a\r\nb"]);
    assert_eq!(whole[3], [&b"set"[..], b"k", b"a bA\n"]);
    for chunk in 1..bytes.len() {
        assert_eq!(read(bytes, chunk).unwrap(), whole, "{chunk}");
    }
}

#[test]
fn words_in_quotes_are_decoded() {
    let line = br#"a "" 'it\'s' "\"q\" \t\\ \zz" 'a\n'"#;
    let all = read(&[&line[..], b"\r\n"].concat(), 100).unwrap();
    assert_eq!(all[0], [&b"a"[..], b"", b"it's", b"\"q\" \t\\ zz", b"a\\n"]);
    for unbalanced in [&b"a \"b\n"[..], b"a 'b\n", b"\"a\"b\n", b"\"a\\\n"] {
        assert_eq!(bad(unbalanced), "Protocol error: unbalanced quotes in request");
    }
}

#[test]
fn words_end_where_redis_ends_them() {
    for (line, words) in [
        (&b"\x0b\x0c a b"[..], &[&b"a"[..], b"b"][..]),
        (b"a\x0bb\x0cc d", &[b"a\x0bb\x0cc", b"d"]),
        (b"a\tb\rc", &[b"a", b"b", b"c"]),
        (b"\"a\"\x0cb 'c'\x0bd", &[b"a", b"b", b"c", b"d"]),
        (b"a\"b c\" d", &[b"ab c", b"d"]),
    ] {
        let all = read(&[line, b"\r\n"].concat(), 100).unwrap();
        assert_eq!(all[0], words, "{}", line.escape_ascii());
    }
}

#[test]
fn a_long_line_is_read_if_its_end_has_come_by_the_time_when_it_is_long() {
    let line = |bytes: usize| [&vec![b'a'; bytes][..], b"\r\n"].concat();
    let most = LIMITS.line + AT_ONCE;
    for bytes in [LIMITS.line, LIMITS.line + 1, most - 2] {
        let all = read(&line(bytes), bytes + 2).unwrap();
        assert_eq!(all, [[vec![b'a'; bytes]]], "{bytes}");
    }
    let refusal = "Protocol error: too big inline request";
    assert_eq!(bad(&line(most - 1)), refusal);
    let (mut parser, mut requests) = (RequestParser::default(), ParsedRequests::default());
    let mut parse = |bytes: usize| parser.parse(&mut line(100)[..bytes], &mut requests, &LIMITS, 1);
    assert_eq!(parse(LIMITS.line), Ok(()));
    assert_eq!(parse(LIMITS.line + 1).unwrap_err().to_string(), refusal);
}

#[test]
fn a_line_with_a_zero_byte_has_no_end() {
    for begin in [
        &b"ECHO a\0b"[..],
        b"\0",
        b"*1\0",
        b"*1\r\n$4\0",
        b"*1\r\n$4\r\nPING\r\nA\0",
    ] {
        for chunk in [1, 3, 100] {
            let rest = b"\r\nPING\r\n";
            let (mut parser, mut requests) = (RequestParser::default(), ParsedRequests::default());
            let mut buffer = Vec::new();
            let bytes = [begin, rest].concat();
            let mut count = 0;
            for part in bytes.chunks(chunk) {
                buffer.extend_from_slice(part);
                parser.parse(&mut buffer, &mut requests, &LIMITS, 9).unwrap();
                count += requests.len();
                buffer.drain(..requests.consumed());
                requests.forget();
            }
            let is_second = begin.ends_with(b"A\0");
            assert_eq!(count, usize::from(is_second), "{}", begin.escape_ascii());
            buffer.extend_from_slice(&[b'\n'; 40]);
            let result = parser.parse(&mut buffer, &mut requests, &LIMITS, 9);
            assert!(matches!(result, Err(BadRequest::LongLine { .. })), "{result:?}");
        }
    }
    // Within quotes, an escape can stand for a zero byte. Arguments of an array may contain any
    // byte.
    assert_eq!(read(b"\"\\x00\"\n*1\r\n$1\r\n\0\r\n", 9).unwrap(), [[[0]], [[0]]]);
}

#[test]
fn what_is_no_request_is_refused_in_the_words_of_redis() {
    for (bytes, error) in [
        (&b"*x\r\n"[..], "invalid multibulk length"),
        (b"*6\r\n", "invalid multibulk length"),
        (b"*1\r\nGET\r\n", "expected '$', got 'G'"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$51\r\n", "invalid bulk length"),
    ] {
        assert_eq!(bad(bytes), format!("Protocol error: {error}"));
    }
    assert_eq!(bad(&[b'a'; 41]), "Protocol error: too big inline request");
    let digits = [&b"*"[..], &[b'0'; 41]].concat();
    assert_eq!(bad(&digits), "Protocol error: too big mbulk count string");
    let digits = [&b"*1\r\n$"[..], &[b'0'; 41]].concat();
    assert_eq!(bad(&digits), "Protocol error: too big bulk count string");
    let long = [
        &b"*3\r\n"[..],
        &[&b"$50\r\n"[..], &[b'a'; 50], b"\r\n"].concat().repeat(3),
    ]
    .concat();
    assert_eq!(bad(&long), "Protocol error: request exceeds 100 bytes");
}

#[test]
fn strangers_may_send_little() {
    let mut parser = RequestParser::default();
    let mut parse = |bytes: &[u8]| {
        let result = parser.parse(
            &mut bytes.to_vec(),
            &mut ParsedRequests::default(),
            &RequestLimits::STRANGER,
            9,
        );
        parser = RequestParser::default();
        result.unwrap_err().to_string()
    };
    assert_eq!(
        parse(b"*11\r\n"),
        "Protocol error: unauthenticated multibulk length"
    );
    assert_eq!(
        parse(b"*1\r\n$16385\r\n"),
        "Protocol error: unauthenticated bulk length"
    );
}

#[test]
fn a_refused_request_is_passed_over_as_it_comes_and_the_next_one_is_read() {
    let whole = b"*1\r\n$4\r\nPING\r\n*4\r\n$3\r\nSET\r\n$100\r\n";
    let rest = [&[b'*'; 100][..], b"\r\n$1\r\nv\r\n$0\r\n\r\n*1\r\n$4\r\nECHO\r\n"].concat();
    for step in [1, 2, 3, 7, 50, 1000] {
        let (mut parser, mut requests) = (RequestParser::default(), ParsedRequests::default());
        let limits = RequestLimits {
            bytes: 1000,
            argument: 1000,
            arguments: 10,
            line: 100,
        };
        let mut buffer = whole.to_vec();
        parser.parse(&mut buffer, &mut requests, &limits, 10).unwrap();
        assert_eq!(requests.len(), 1);
        buffer.drain(..requests.consumed());
        requests.forget();
        assert_eq!(parser.announced(), 4 + 9 + 6 + 102);
        assert!(parser.refuse(&mut requests) && parser.announced() == 0);
        let mut words = Vec::new();
        for chunk in rest.chunks(step) {
            buffer.extend_from_slice(chunk);
            parser.parse(&mut buffer, &mut requests, &limits, 10).unwrap();
            for index in 0..requests.len() {
                words.push(requests.get(index, &buffer).at(0).to_vec());
            }
            buffer.drain(..requests.consumed());
            requests.forget();
            assert!(buffer.len() < 20, "what is passed over is not kept");
        }
        assert_eq!(words, [b"ECHO"], "in steps of {step}");
        assert!(!parser.refuse(&mut requests));
    }
}
