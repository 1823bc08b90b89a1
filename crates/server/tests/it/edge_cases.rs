//! Unusual requests, to which a real Redis and this server must reply alike.

use crate::client::{Client, Fixture};
use crate::differential::start_redis;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Sends the same lines to both servers and compares the replies.
fn compare(lines: impl IntoIterator<Item = String>) {
    let Some(redis) = start_redis() else {
        return;
    };
    let fixture = Fixture::new();
    let (mut theirs, mut ours) = (Client::connect(redis.address), fixture.client());
    for line in lines {
        assert_eq!(ours.ask(&line), theirs.ask(&line), "{line}");
    }
}

/// Hexadecimal numbers, and strings that resemble them.
const HEXADECIMAL: &[&str] = &[
    "0x1p3",
    "0X1P3",
    "-0x1p3",
    "+0x10",
    "0x1.8p1",
    "0x.8",
    "0x1.",
    "0x1p+2",
    "0x1P-2",
    "0xAbC.dEp4",
    "0x",
    "0x.",
    "0x1p",
    "0x1p+",
    "0xg",
    "0x-1",
    "0xinf",
    "1p3",
    "0x1.8.1",
    "0x1e+5",
    "0x1e5",
    "00x1",
    "0x0p99999999999999999999",
    "-0x0",
];

/// Numbers that must be rounded or exceed the range of a double. Redis computes them with more
/// digits.
const ROUNDED: &[&str] = &[
    "0x1.00000000000008p0",
    "0x1.000000000000080000001p0",
    "0x1.00000000000018p0",
    "0x1.fffffffffffff7p1023",
    "0x1.fffffffffffff8p1023",
    "0x1p1024",
    "-0x1p1024",
    "0x1p99999999999999999999",
    "0x1p-1022",
    "0x1p-1074",
    "0x1.8p-1075",
    "0x1p-1075",
    "0x1p-2000",
    "0x0.0000000000000000000000000001p100",
    "0x123456789abcdef0123456789p-40",
];

#[test]
fn hexadecimal_numbers_are_read_as_redis_reads_them() {
    let sums = HEXADECIMAL.iter().flat_map(|number| {
        [
            "DEL f h".to_owned(),
            format!("INCRBYFLOAT f {number}"),
            format!("INCRBYFLOAT f {number}"),
            format!("HINCRBYFLOAT h f {number}"),
            format!("SET f {number}"),
            "INCRBYFLOAT f 0.5".to_owned(),
            format!("HSET h f {number}"),
            "HINCRBYFLOAT h f 0.5".to_owned(),
            format!("INCRBY f {number}"),
            format!("RPUSH l {number}"),
            "SORT l".to_owned(),
            "DEL l".to_owned(),
        ]
    });
    let scores = HEXADECIMAL.iter().chain(ROUNDED).flat_map(|number| {
        [
            "DEL z".to_owned(),
            format!("ZADD z {number} m"),
            "ZSCORE z m".to_owned(),
            format!("ZINCRBY z {number} m"),
            format!("ZADD z INCR {number} m"),
            format!("ZCOUNT z {number} +inf"),
            format!("ZRANGEBYSCORE z -inf ({number} WITHSCORES"),
            format!("ZUNION 1 z WEIGHTS {number} WITHSCORES"),
        ]
    });
    compare(sums.chain(scores));
}

#[test]
fn what_command_getkeys_refuses_is_said_as_redis_says_it() {
    let asked = [
        "",
        " PING",
        " PING x",
        " PING x y",
        " NOSUCH",
        " NOSUCH a",
        " GET",
        " GET a",
        " GET a b",
        " ZUNION",
        " ZUNION 1",
        " ZUNION 2 a",
        " ZUNION 2 a b",
        " ZUNION x a",
        " ZUNION 0 a",
        " ZUNION -1 a",
        " ZUNIONSTORE d 2 a",
        " ZUNIONSTORE d 1 a",
        " MEMORY",
        " MEMORY USAGE",
        " MEMORY USAGE a",
        " MEMORY NOSUCH a",
        " MEMORY DOCTOR",
        " OBJECT ENCODING a",
        " OBJECT ENCODING",
        " OBJECT HELP",
        " OBJECT FREQ a b",
        " MSET a",
        " MSET a 1",
        " MSET a 1 b",
        " SORT a STORE b",
        " SORT a STORE",
        " COMMAND GETKEYS GET a",
        " CONFIG GET x",
        " CONFIG NOSUCH x",
        " SINTERCARD 1",
        " SINTERCARD 3 a b",
        " SINTERCARD 2 a b",
        " LMPOP 5 a LEFT",
        " LMPOP x a LEFT",
        " LMPOP 1 a LEFT",
        " BITOP AND d",
        " BITOP AND d a",
        " KEYS *",
        " DEL",
        " SMOVE a b",
        " COPY a",
        " RENAME a b c",
        " CLIENT KILL",
        " ACL NOSUCH",
        " ZDIFF 99999999999 a",
    ];
    compare(asked.iter().map(|rest| format!("COMMAND GETKEYS{rest}")));
    let is_refused = |rest: &&&str| rest.contains("NOSUCH") || rest.ends_with("PING x") || rest.len() < 10;
    compare(
        asked
            .iter()
            .filter(is_refused)
            .map(|rest| format!("COMMAND GETKEYSANDFLAGS{rest}")),
    );
}

/// Sends bytes and returns the answer up to `mark` or, if `mark` is empty, up to the end of the
/// connection.
fn answered(address: SocketAddr, bytes: &[u8], mark: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    // The server may close the connection before it has received everything.
    let _ = socket.write_all(bytes);
    let (mut answer, mut some) = (Vec::new(), vec![0; 1 << 16]);
    while mark.is_empty() || !answer.ends_with(mark) {
        match socket.read(&mut some) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&some[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("{error} after {:?}", answer.escape_ascii().to_string()),
        }
    }
    answer
}

#[test]
fn lines_that_are_typed_end_where_redis_ends_them() {
    let Some(redis) = start_redis() else {
        return;
    };
    let fixture = Fixture::new();
    let ours = fixture.server.redis_addr().unwrap();
    let pong = &b"+PONG\r\n"[..];
    let long = |bytes: usize| [b"ECHO ", &vec![b'a'; bytes - 5][..], b"\r\nPING\r\n"].concat();
    let typed = [
        long(65_000),
        long(65_535),
        b"\x0bECHO\x0bab\r\nPING\r\n".to_vec(),
        b"ECHO a\x0cb\r\nPING\r\n".to_vec(),
        b"ECHO \"a\"\x0c'b'\r\nPING\r\n".to_vec(),
        b"ECHO \"a\\x00b\"\r\nPING\r\n".to_vec(),
        b"ECHO a\rb\r\nPING\r\n".to_vec(),
    ];
    for bytes in &typed {
        let theirs = answered(redis.address, bytes, pong);
        assert_eq!(answered(ours, bytes, pong), theirs, "{}", bytes.escape_ascii());
    }
    // A line with a zero byte never ends, and is refused once it exceeds the length limit.
    let zero = |rest: &[u8]| [b"PING\r\nECHO a\0b\r\nPING\r\n", rest].concat();
    let refused = [
        vec![b'a'; 100_000],
        zero(&[b'x'; 70_000]),
        [&b"*1\0\r\n"[..], &[b'x'; 70_000]].concat(),
        [&b"*1\r\n$4\0\r\n"[..], &[b'x'; 70_000]].concat(),
    ];
    for bytes in &refused {
        let theirs = answered(redis.address, bytes, b"");
        assert_eq!(
            answered(ours, bytes, b""),
            theirs,
            "{}",
            bytes[..30].escape_ascii()
        );
    }
}
