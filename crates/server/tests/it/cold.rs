//! Reads that miss the cache. Replies must be correct and in order, and no connection may wait for
//! another one's reads.

use crate::client::{Client, Fixture, options, request};
use alluvium::{Db, Options};
use alluvium_server::Server;
use std::io::{Read, Write};
use std::net::TcpStream;
use tempfile::TempDir;

const KEYS: u64 = 20_000;

fn value(key: u64) -> String {
    format!("{key}-{}", "v".repeat(200))
}

/// Closes and reopens the store to empty its cache.
fn with_nothing_in_memory(fixture: Fixture) -> (Db, Server, TempDir) {
    let Fixture { server, db, place } = fixture;
    server.stop();
    server.join().unwrap();
    drop(server);
    db.close().unwrap();
    let store = Options::new().memory(64 << 20).open(place.path().join("store"));
    let db = store.unwrap();
    let server = Server::start(&db, options()).unwrap();
    (db, server, place)
}

/// Returns the number of bytes that scans have read from the device.
fn scanned(db: &Db) -> u64 {
    db.stats().device.of(alluvium_base::Purpose::Scan).read_bytes
}

/// Returns the number of bytes that lookups have read from the device.
fn looked_up(db: &Db) -> u64 {
    db.stats().device.of(alluvium_base::Purpose::Lookup).read_bytes
}

#[test]
pub(crate) fn walks_over_keys_read_no_long_values() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let long = "v".repeat(100_000);
    for key in 0..30 {
        let expires = if key % 2 == 0 { "" } else { " EX 1000" };
        client.script(&format!("SET long:{key:02} {long}{expires} => OK"));
    }
    client.script("SET long:99 x PX 1 => OK\nRPUSH list a b => :2\nSET short 1 => OK\nSADD set a => :1");
    fixture.db.checkpoint().unwrap();
    let is_hashed = crate::client::layout() == alluvium_server::KeyLayout::Hashed;
    let (db, server, _place) = with_nothing_in_memory(fixture);
    let mut client = Client::connect(server.redis_addr().unwrap());
    std::thread::sleep(std::time::Duration::from_millis(5));
    let before = scanned(&db);
    client.script("DBSIZE => :33\nKEYS s* => [\"set\" \"short\"]");
    assert!(client.ask("RANDOMKEY").len() > 4);
    assert_eq!(client.ask("KEYS long:*").matches("long").count(), 30);
    client.script("MULTI => OK\nDBSIZE => QUEUED\nKEYS *9* => QUEUED");
    let both = client.ask("EXEC");
    assert!(
        both.starts_with("[:33 [") && both.matches("long").count() == 3,
        "{both}"
    );
    // Scans over hashed keys look up each key again, without reading the long values.
    let lookups = looked_up(&db);
    check_scans(&mut client, 30);
    let read = looked_up(&db) - lookups;
    assert!(read < 400_000, "{read} bytes");
    // Repeat this with uncommitted writes, in MULTI and in BEGIN.
    client.script("MULTI => OK");
    client.send(&[b"SET", b"long:own", long.as_bytes()]);
    assert_eq!(client.reply(), "QUEUED");
    client.script("DEL long:00 => QUEUED\nSCAN 0 COUNT 1000 TYPE string => QUEUED\nDBSIZE => QUEUED");
    let replies = client.ask("EXEC");
    assert!(replies.starts_with("[OK :1 ["), "{replies}");
    assert!(replies.ends_with(" :33]") && replies.matches("long").count() == 30);
    client.script("BEGIN => OK");
    client.send(&[b"SET", b"long:mine", long.as_bytes()]);
    assert_eq!(client.reply(), "OK");
    client.script("DEL long:02 => :1\nDBSIZE => :33");
    check_scans(&mut client, 30);
    client.script("COMMIT => OK");
    check_scans(&mut client, 30);
    if !is_hashed {
        assert_eq!(
            client
                .ask("RANGE [long:03 + LIMIT 10 KEYSONLY")
                .matches("long")
                .count(),
            10
        );
        assert_eq!(
            client.ask("REVRANGE (long:07 - KEYSONLY").matches("long").count(),
            5
        );
    }
    let read = scanned(&db) - before;
    assert!(read < 400_000, "{read} bytes");
    if !is_hashed {
        // Commands that need the values must still return all of them.
        assert_eq!(
            client.ask("RANGE [long: (m LIMIT 3").matches(&long[..]).count(),
            3
        );
    }
    assert_eq!(client.ask("STRLEN long:07"), ":100000");
}

/// Scans all keys of this test, `long` of which have long values.
fn check_scans(client: &mut Client, long: usize) {
    let strings = client.ask("SCAN 0 COUNT 1000 TYPE string");
    assert_eq!(strings.matches("long").count(), long, "{strings}");
    client.script("SCAN 0 COUNT 1000 TYPE list => [\"0\" [\"list\"]]");
}

#[test]
fn a_key_that_is_not_in_memory_is_looked_up_once() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    for key in 0..2000 {
        client.ask(&format!("SET {key} {}", value(key)));
    }
    let (db, server, _place) = with_nothing_in_memory(fixture);
    let mut client = Client::connect(server.redis_addr().unwrap());
    client.ask("PING");
    let before = db.stats().records.misses;
    let gets = (0..1000).map(|key| request(&[b"GET", format!("{}", key * 2).as_bytes()]));
    client.send_bytes(&gets.collect::<Vec<_>>().concat());
    for key in 0..1000 {
        assert_eq!(client.reply(), format!("\"{}\"", value(key * 2)));
    }
    let missed = db.stats().records.misses - before;
    assert!(missed <= 1100, "{missed} lookups");
}

#[test]
fn pipelines_of_connections_that_wait_for_the_device_get_their_replies_in_order() {
    let fixture = Fixture::new();
    let mut client = Client::connect(fixture.server.redis_addr().unwrap());
    for first in (0..KEYS).step_by(100) {
        let sets = (first..first + 100)
            .map(|key| request(&[b"SET", format!("{key}").as_bytes(), value(key).as_bytes()]));
        client.send_bytes(&sets.collect::<Vec<_>>().concat());
        (0..100).for_each(|_| assert_eq!(client.reply(), "OK"));
    }
    client.script("HSET h a 1 b 2 => :2\n SADD s x => :1");
    drop(client);
    let (db, server, _place) = with_nothing_in_memory(fixture);
    let address = server.redis_addr().unwrap();
    let reads_before = db.stats().operations.multi_get_keys;
    std::thread::scope(|scope| {
        for seed in 0..8 {
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                let mut client = Client::connect(address);
                for round in 0..60 {
                    let keys: Vec<u64> = (0..20).map(|_| random.u64(..KEYS)).collect();
                    let mut bytes = Vec::new();
                    for key in &keys {
                        let key = format!("{key}");
                        bytes.extend_from_slice(&request(&[b"GET", key.as_bytes()]));
                        bytes.extend_from_slice(&request(&[b"STRLEN", key.as_bytes()]));
                    }
                    // Commands that lock their keys form separate batches.
                    let own = format!("own:{seed}");
                    bytes.extend_from_slice(&request(&[b"INCR", own.as_bytes()]));
                    bytes.extend_from_slice(&request(&[b"HGET", b"h", b"b"]));
                    bytes.extend_from_slice(&request(&[b"ECHO", b"end"]));
                    // Send the requests in two pieces, so that more of them arrive while some wait.
                    let (head, tail) = bytes.split_at(random.usize(..bytes.len()));
                    client.send_bytes(head);
                    client.send_bytes(tail);
                    for &key in &keys {
                        assert_eq!(client.reply(), format!("\"{}\"", value(key)));
                        assert_eq!(client.reply(), format!(":{}", value(key).len()));
                    }
                    assert_eq!(client.reply(), format!(":{}", round + 1));
                    assert_eq!(client.reply(), "\"2\"");
                    assert_eq!(client.reply(), "\"end\"");
                }
            });
        }
    });
    let read = db.stats().operations.multi_get_keys - reads_before;
    // Consecutive commands on one key read it only once.
    assert!(read > 8 * 60 * 20, "{read} keys were read");
}

/// Sends requests in two pieces, so that more of them arrive while some wait, and expects exactly
/// these replies.
fn expect(stream: &mut TcpStream, requests: &str, cut: usize, replies: &str) {
    let (head, tail) = requests.as_bytes().split_at(cut);
    stream.write_all(head).unwrap();
    stream.write_all(tail).unwrap();
    let mut said = vec![0; replies.len()];
    stream.read_exact(&mut said).unwrap();
    assert_eq!(String::from_utf8_lossy(&said), replies);
}

#[test]
fn pipelines_of_memcached_that_wait_for_the_device_get_their_replies_in_order() {
    let fixture = Fixture::new();
    let mut stream = TcpStream::connect(fixture.server.memcached_addr().unwrap()).unwrap();
    for first in (0..KEYS).step_by(100) {
        let sets: String = (first..first + 100)
            .map(|key| format!("set {key} 0 0 {} noreply\r\n{}\r\n", value(key).len(), value(key)))
            .collect();
        expect(&mut stream, &(sets + "mn\r\n"), 0, "MN\r\n");
    }
    drop(stream);
    let (db, server, _place) = with_nothing_in_memory(fixture);
    let address = server.memcached_addr().unwrap();
    std::thread::scope(|scope| {
        for seed in 0..8 {
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                let mut stream = TcpStream::connect(address).unwrap();
                expect(
                    &mut stream,
                    &format!("set own{seed} 0 0 1\r\n0\r\n"),
                    5,
                    "STORED\r\n",
                );
                for round in 1..=60 {
                    let (mut requests, mut replies) = (String::new(), String::new());
                    for _ in 0..20 {
                        let key = random.u64(..KEYS);
                        let (text, len) = (value(key), value(key).len());
                        requests += &format!("get {key}\r\nmg {key} s\r\n");
                        replies += &format!("VALUE {key} 0 {len}\r\n{text}\r\nEND\r\nHD s{len}\r\n");
                    }
                    // `incr` reads under its lock, writes are visible immediately, and a command
                    // without an item ends the batch.
                    requests += &format!("incr own{seed} 1\r\nget own{seed}\r\nmn\r\nget nothing\r\n");
                    let digits = round.to_string().len();
                    replies +=
                        &format!("{round}\r\nVALUE own{seed} 0 {digits}\r\n{round}\r\nEND\r\nMN\r\nEND\r\n");
                    expect(&mut stream, &requests, random.usize(..requests.len()), &replies);
                }
            });
        }
    });
    let stats = db.stats().operations;
    assert!(
        stats.multi_get_keys > 8 * 60 * 40,
        "{} keys were read",
        stats.multi_get_keys
    );
}
