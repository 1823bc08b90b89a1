//! Tests each limit and the error that reports it.

use crate::client::{Client, Fixture, options, request};
use alluvium_server::{ServerLimits, ServerOptions};

fn limited(change: impl FnOnce(&mut ServerLimits)) -> Fixture {
    let mut limits = ServerLimits::default();
    change(&mut limits);
    Fixture::with(ServerOptions { limits, ..options() })
}

fn last(mut client: Client) -> Option<String> {
    let mut last = None;
    while let Some(reply) = client.try_reply() {
        last = Some(reply);
    }
    last
}

#[test]
fn requests_that_are_too_long_end_the_connection() {
    let fixture = limited(|limits| limits.request = 1000);
    let mut client = fixture.client();
    client.script("PING => PONG");
    client.send_bytes(b"*2\r\n$3\r\nGET\r\n$1001\r\n");
    assert_eq!(last(client).unwrap(), "-ERR Protocol error: invalid bulk length");
    let mut client = fixture.client();
    let word = [b'a'; 400];
    client.send_bytes(&request(&[b"MGET", &word, &word, &word]));
    assert_eq!(
        last(client).unwrap(),
        "-ERR Protocol error: request exceeds 1000 bytes"
    );
}

#[test]
fn requests_with_too_many_arguments_end_the_connection() {
    let fixture = limited(|limits| limits.arguments = 3);
    let mut client = fixture.client();
    client.script("MGET a b => [nil nil]");
    client.send_bytes(b"*4\r\n");
    assert_eq!(
        last(client).unwrap(),
        "-ERR Protocol error: invalid multibulk length"
    );
}

#[test]
fn pipelines_that_are_longer_than_a_batch_are_executed_in_several() {
    let fixture = limited(|limits| limits.batch = 3);
    let mut client = fixture.client();
    client.send_bytes(&b"INCR n\r\n".repeat(1000));
    for index in 1..=1000 {
        assert_eq!(client.reply(), format!(":{index}"));
    }
}

#[test]
fn too_many_connections_are_refused() {
    let fixture = limited(|limits| limits.connections = 2);
    let (mut one, two) = (fixture.client(), fixture.client());
    one.script("PING => PONG");
    let third = fixture.client();
    assert_eq!(last(third).unwrap(), "-ERR max number of clients reached");
    drop(two);
    // The server takes a while to notice that a connection has ended.
    let mut waits = 0;
    while fixture.server.connections() > 1 {
        std::thread::sleep(std::time::Duration::from_millis(10));
        waits += 1;
        assert!(waits < 1000);
    }
    fixture.client().script("PING => PONG");
    assert!(one.ask("INFO stats").contains("rejected_connections:1"));
}

#[test]
fn replies_that_nobody_takes_end_the_connection() {
    let fixture = limited(|limits| limits.output = 1 << 20);
    let mut client = fixture.client();
    client.send(&[b"SET", b"k", &vec![b'v'; 600_000]]);
    assert_eq!(client.reply(), "OK");
    // Each value is within the limit, but both together exceed it.
    client.send_bytes(b"MGET k k\r\n");
    assert_eq!(client.try_reply(), None);
    assert!(
        fixture
            .client()
            .ask("INFO stats")
            .contains("client_output_buffer_limit_disconnections:1")
    );
}

#[test]
fn a_slow_reader_gets_everything_in_the_end() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.send(&[b"SET", b"k", &vec![b'v'; 100_000]]);
    assert_eq!(client.reply(), "OK");
    client.send_bytes(&b"GET k\r\n".repeat(500));
    std::thread::sleep(std::time::Duration::from_millis(300));
    for _ in 0..500 {
        assert_eq!(client.reply().len(), 100_002);
    }
}

#[test]
fn transactions_that_are_too_large_fail() {
    let fixture = limited(|limits| limits.transaction = 1000);
    let mut client = fixture.client();
    client.script("MULTI => OK");
    let value = [b'v'; 1000];
    client.send(&[b"SET", b"k", &value]);
    assert_eq!(client.reply(), "-ERR transaction exceeds the limit of its size");
    client.script("EXEC => -EXECABORT Transaction discarded because of previous errors.\nGET k => nil");
}

#[test]
fn keys_and_members_that_are_too_long_are_refused() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let long = vec![b'k'; 70_000];
    for words in [
        &[b"SET", &long[..], b"v"][..],
        &[b"HSET", b"h", &long, b"v"],
        &[b"SADD", b"s", &long],
        &[b"ZADD", b"z", b"1", &long],
        &[b"RPUSH", &long, b"v"],
        &[b"RENAME", b"k", &long],
    ] {
        client.send(words);
        let reply = client.reply();
        assert!(reply.contains("is too long: the maximum is"), "{reply}");
    }
    client.send(&[b"GET", &long]);
    assert_eq!(client.reply(), "nil");
    client.script("DBSIZE => :0");
}

#[test]
fn numbers_of_clients_size_nothing() {
    let fixture = limited(|limits| limits.output = 1 << 20);
    let mut client = fixture.client();
    client.script("SADD s a b c => :3\nHSET h f v => :1");
    for (count, refusal) in [
        (i64::MIN, "-ERR value is out of range"),
        (-i64::MAX, "-ERR the reply exceeds 1048576 bytes"),
        (-10_000_000_000_000, "-ERR the reply exceeds 1048576 bytes"),
    ] {
        for command in ["SRANDMEMBER s", "HRANDFIELD h"] {
            let reply = client.ask(&format!("{command} {count}"));
            assert!(reply.starts_with(refusal), "{command} {count}: {reply}");
        }
    }
    let reply = client.ask(&format!("HRANDFIELD h {} WITHVALUES", i64::MAX));
    assert_eq!(reply, "-ERR value is out of range");
    assert_eq!(
        client
            .ask("SRANDMEMBER s 9223372036854775807")
            .matches(' ')
            .count(),
        2
    );
}

#[test]
fn deleting_many_collections_at_once_deletes_each() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let names: Vec<String> = (0..2000).map(|index| format!("s{index}")).collect();
    for name in &names {
        client.send(&[b"SADD", name.as_bytes(), b"m"]);
    }
    names.iter().for_each(|_| assert_eq!(client.reply(), ":1"));
    let mut words: Vec<&[u8]> = vec![b"DEL"];
    words.extend(names.iter().map(String::as_bytes));
    client.send(&words);
    assert_eq!(client.reply(), ":2000");
    client.script("DBSIZE => :0\nSADD s7 n => :1\nSMEMBERS s7 => [\"n\"]");
}

#[test]
fn commands_in_requests_of_http_are_not_executed() {
    let fixture = Fixture::new();
    for request in [
        &b"POST / HTTP/1.1\r\nHost: x\r\n\r\nSET pwned yes\r\n"[..],
        b"Host: x\r\nSET pwned yes\r\n",
    ] {
        let mut client = fixture.client();
        client.send_bytes(request);
        assert_eq!(last(client), None);
        let mut socket = std::net::TcpStream::connect(fixture.server.memcached_addr().unwrap()).unwrap();
        let request = String::from_utf8_lossy(request).replace("SET pwned yes", "set pwned 0 0 1\r\ny");
        let mut reply = Vec::new();
        std::io::Write::write_all(&mut socket, request.as_bytes()).unwrap();
        // The connection may be reset, because the server has not read everything.
        let _ = std::io::Read::read_to_end(&mut socket, &mut reply);
        assert!(reply.is_empty());
    }
    let mut socket = std::net::TcpStream::connect(fixture.server.memcached_addr().unwrap()).unwrap();
    std::io::Write::write_all(&mut socket, b"get pwned\r\nquit\r\n").unwrap();
    let mut reply = String::new();
    std::io::Read::read_to_string(&mut socket, &mut reply).unwrap();
    assert_eq!(reply, "END\r\n");
    fixture.client().script("EXISTS pwned => :0");
}
