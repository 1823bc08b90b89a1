//! Tests the expiry, names and iteration of keys, and ranges of keys.

use crate::client::{Client, Fixture, options, sorted};
use alluvium_server::Server;
use std::collections::BTreeSet;
use std::time::Duration;

#[test]
pub(crate) fn keys_do_what_redis_says() {
    let fixture = Fixture::new();
    fixture.client().script(
        r#"
        SET a 1 => OK
        TYPE a => string
        TYPE none => none
        EXISTS a a none => :2
        EXPIRE a 100 => :1
        TTL a => :100
        EXPIRE a 50 GT => :0
        EXPIRE a 50 LT => :1
        EXPIRE a 70 NX => :0
        EXPIRE a 70 NX XX => -ERR NX and XX, GT or LT options at the same time are not compatible
        EXPIRE a 70 GT LT => -ERR GT and LT options at the same time are not compatible
        EXPIRE a 70 NX GT => -ERR NX and XX, GT or LT options at the same time are not compatible
        EXPIRE a x NX GT => -ERR NX and XX, GT or LT options at the same time are not compatible
        EXPIRE a x ZZ => -ERR Unsupported option ZZ
        EXPIRE a x NX => -ERR value is not an integer or out of range
        EXPIRE a 70 ZZ => -ERR Unsupported option ZZ
        PERSIST a => :1
        PERSIST a => :0
        TTL a => :-1
        TTL none => :-2
        EXPIRE none 5 => :0
        EXPIRE a 9223372036854775807 => -ERR invalid expire time in 'expire' command
        RENAME a b => OK
        RENAME a b => -ERR no such key
        SET c 3 => OK
        RENAMENX b c => :0
        RENAMENX b d => :1
        COPY d d => -ERR source and destination objects are the same
        COPY d c => :0
        COPY d c REPLACE => :1
        COPY d e DB 3 => :1
        GET c => "1"
        SELECT 3 => OK
        GET e => "1"
        SELECT 16 => -ERR DB index is out of range
        SELECT x => -ERR value is not an integer or out of range
        DBSIZE => :1
        FLUSHDB => OK
        DBSIZE => :0
        SELECT 0 => OK
        DBSIZE => :2
        DEL c d none => :2
        RANDOMKEY => nil
        EXPIRE a -1 => :0
        SET a 1 PXAT 1 => OK
        GET a => nil
        "#,
    );
}

#[test]
pub(crate) fn collections_expire_with_their_elements() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    for index in 0..100 {
        client.ask(&format!("HSET hash f{index} v"));
        client.ask(&format!("SADD kept m{index}"));
    }
    client.script(
        "PEXPIRE hash 200 => :1
         PEXPIRE kept 200 => :1
         RENAME hash other => OK
         PERSIST kept => :1
         HLEN other => :100",
    );
    let elements = || fixture.db.keyspace("redis").unwrap().prefix(b"\0e").count();
    assert_eq!(elements(), 200);
    std::thread::sleep(Duration::from_millis(250));
    client.script(
        "HLEN other => :0
         EXISTS other => :0
         HSET other f v => :1",
    );
    // The server must delete expired elements without any access by a client.
    let mut waits = 0;
    while elements() > 101 {
        std::thread::sleep(Duration::from_millis(50));
        waits += 1;
        assert!(waits < 400, "{} elements are left", elements());
    }
    client.script(
        "SCARD kept => :100
         HGETALL other => [\"f\" \"v\"]",
    );
}

#[test]
pub(crate) fn a_deleted_collection_leaves_nothing_behind() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    for command in [
        "RPUSH l a b c",
        "SADD s a b c",
        "ZADD z 1 a 2 b",
        "HSET h a 1",
        "EXPIRE h 1000",
        "DEL l s",
        "SET z 1",
        "RENAME l2 l3",
        "COPY h h2",
        "SET h2 1",
        "UNLINK h z h2",
    ] {
        client.ask(command);
    }
    let left = fixture
        .db
        .keyspace("redis")
        .unwrap()
        .range(..&b"\x01"[..])
        .count();
    assert_eq!(left, 0);
}

/// Requests one page of a scan, adds its keys to `seen`, and returns the next cursor.
fn page(
    client: &mut Client,
    cursor: &str,
    count: usize,
    seen: &mut BTreeSet<String>,
) -> Result<String, String> {
    let reply = client.ask(&format!("SCAN {cursor} COUNT {count}"));
    let Some(inner) = reply.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
        return Err(reply);
    };
    let (next, found) = inner.split_once(' ').unwrap();
    seen.extend(sorted(found));
    Ok(next.trim_matches('"').to_owned())
}

#[test]
pub(crate) fn a_scan_that_a_restart_interrupts_misses_no_key_or_is_refused() {
    let Fixture { server, db, place } = Fixture::new();
    // Cursors can encode the positions of the first kind of keys, but not those of the second.
    let names: Vec<String> = (0..300)
        .flat_map(|index| [format!("k{index:03}"), format!("another:{index:05}")])
        .collect();
    let mut client = Client::connect(server.redis_addr().unwrap());
    for name in &names {
        client.ask(&format!("SET {name} v"));
    }
    // Start one scan for each number of pages already read.
    let mut scans = Vec::new();
    for pages in 1..40 {
        let (mut cursor, mut seen) = ("0".to_owned(), BTreeSet::new());
        for _ in 0..pages {
            cursor = page(&mut client, &cursor, 14, &mut seen).unwrap();
        }
        scans.push((cursor, seen));
    }
    server.stop();
    server.join().unwrap();
    drop(server);
    let server = Server::start(&db, options()).unwrap();
    let mut client = Client::connect(server.redis_addr().unwrap());
    // Let another client scan before the interrupted scans continue.
    let (mut cursor, mut seen) = ("0".to_owned(), BTreeSet::new());
    for _ in 0..30 {
        cursor = page(&mut client, &cursor, 17, &mut seen).unwrap();
    }
    let mut client = Client::connect(server.redis_addr().unwrap());
    for (mut cursor, mut seen) in scans {
        loop {
            match page(&mut client, &cursor, 1000, &mut seen) {
                Ok(next) => cursor = next,
                Err(refusal) => {
                    assert_eq!(refusal, "-ERR invalid cursor");
                    break;
                }
            }
            if cursor == "0" {
                assert_eq!(seen.len(), names.len());
                break;
            }
        }
    }
    drop((db, place));
}

#[test]
pub(crate) fn cursors_take_bounded_memory_and_a_client_that_asks_for_many_ends_no_other_scan() {
    let fixture = Fixture::bounded(4 << 20);
    let mut client = fixture.client();
    let long = "x".repeat(5000);
    for index in 0..200 {
        client.ask(&format!("SET {long}{index:03} v"));
    }
    let figure = |client: &mut Client, name: &str| -> u64 {
        let info = client.ask("INFO memory");
        let (_, rest) = info.split_once(&format!("{name}:")).unwrap();
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
        digits.unwrap().parse().unwrap()
    };
    // Two clients get the same cursor, and one of them disconnects. A third client that opens many
    // cursors must not evict it.
    let (mut seen, mut again) = (BTreeSet::new(), BTreeSet::new());
    let place = page(&mut client, "0", 77, &mut seen).unwrap();
    let mut other = fixture.client();
    assert_eq!(page(&mut other, "0", 77, &mut again).unwrap(), place);
    assert_eq!(figure(&mut client, "alluvium_scan_cursors"), 1);
    drop(other);
    let mut flood = fixture.client();
    for round in 0..600 {
        page(&mut flood, "0", 1 + round % 190, &mut BTreeSet::new()).unwrap();
    }
    let taken = figure(&mut client, "alluvium_scan_cursor_bytes");
    assert!((100_000..=4 << 16).contains(&taken), "{taken}");
    assert!(figure(&mut client, "mem_clients_normal") > taken - 4096);
    let last = page(&mut client, &place, 1000, &mut seen);
    assert_eq!((last.as_deref(), seen.len()), (Ok("0"), 200));
}

#[test]
pub(crate) fn walks_meet_every_key_that_is_there_all_the_time() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    for index in 0..500 {
        client.ask(&format!("SET key:{index} v"));
    }
    client.ask("RPUSH other a");
    let mut seen = BTreeSet::new();
    let mut cursor = "0".to_owned();
    let mut round = 0;
    loop {
        let reply = client.ask(&format!("SCAN {cursor} MATCH key:* COUNT 7"));
        let (next, found) = reply[1..reply.len() - 1].split_once(' ').unwrap();
        seen.extend(sorted(found));
        cursor = next.trim_matches('"').to_owned();
        // Other keys are added and deleted during the scan.
        client.ask(&format!("SET key:x{round} v"));
        client.ask(&format!("DEL key:x{}", round / 2));
        round += 1;
        if cursor == "0" {
            break;
        }
    }
    for index in 0..500 {
        assert!(seen.contains(&format!("\"key:{index}\"")), "{index}");
    }
    client.script(
        "SCAN 0 TYPE list COUNT 10000 => [\"0\" [\"other\"]]
         SCAN 12345 => -ERR invalid cursor
         SCAN x => -ERR invalid cursor
         SCAN 0 COUNT 0 => -ERR syntax error
         KEYS oth?r => [\"other\"]
         KEYS nothing* => []",
    );
}

#[test]
fn keys_are_ranges_in_order() {
    let fixture = Fixture::new();
    fixture.client().script(
        r#"
        MSET a 1 b 2 c 3 d 4 => OK
        RPUSH bb x => :1
        RANGE - + => ["a" "1" "b" "2" "bb" nil "c" "3" "d" "4"]
        RANGE (a [c KEYSONLY => ["b" "bb" "c"]
        RANGE [b + LIMIT 2 KEYSONLY => ["b" "bb"]
        REVRANGE + - LIMIT 2 => ["d" "4" "c" "3"]
        REVRANGE (d [b KEYSONLY => ["c" "bb" "b"]
        RANGE a b => -ERR start or end is not -, +, [key or (key
        RANGE - + LIMIT x => -ERR value is not an integer or out of range
        SNAPSHOT CREATE before => OK
        SNAPSHOT CREATE before => -ERR the snapshot "before" already exists: remove it first
        DELRANGE [b (d => OK
        RANGE - + => ["a" "1" "d" "4"]
        EXISTS bb => :0
        SNAPSHOT GET before c => "3"
        SNAPSHOT LIST => ["before"]
        SNAPSHOT DROP before => OK
        SNAPSHOT GET before c => -ERR there is no snapshot "before"
        "#,
    );
}
