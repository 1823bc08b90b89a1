//! Limits, each with its error.

use crate::client::{Client, Fixture, options, request};
use alluvium_server::{Limits, ServerOptions};

fn limited(change: impl FnOnce(&mut Limits)) -> Fixture {
    let mut limits = Limits::default();
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
    // The server hears of the end of a connection a little later.
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
    // Each reply by itself is within the limit, both together are not.
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
        assert!(reply.contains("is too long: at most"), "{reply}");
    }
    client.send(&[b"GET", &long]);
    assert_eq!(client.reply(), "nil");
    client.script("DBSIZE => :0");
}
