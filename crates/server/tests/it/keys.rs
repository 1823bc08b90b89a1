//! Keys: expiry, names, walks, ranges.

use crate::client::{Fixture, sorted};
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
    // No client asks for it, and yet the elements go.
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
        // Others come and go meanwhile.
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
        SNAPSHOT CREATE before => -ERR there is a snapshot "before" already: remove it first
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
