//! Commands with the number of keys as an argument, bit operations on strings, and keys that move
//! between databases.

use crate::client::{Client, Fixture, sorted};

fn client_with(fixture: &Fixture, script: &str) -> Client {
    let mut client = fixture.client();
    client.script(script);
    client
}

#[test]
fn sorted_sets_are_united_intersected_and_subtracted() {
    let fixture = Fixture::new();
    let mut client = client_with(
        &fixture,
        r#"
        ZADD a 1 x 2 y 3 z => :3
        ZADD b 10 y 20 w => :2
        SADD s x y => :2
        ZUNION 2 a b WITHSCORES => ["x" "1" "z" "3" "y" "12" "w" "20"]
        ZUNION 2 a b WEIGHTS 2 1 AGGREGATE MAX WITHSCORES => ["x" "2" "z" "6" "y" "10" "w" "20"]
        ZINTER 2 a s WITHSCORES => ["x" "2" "y" "3"]
        ZINTER 2 a none => []
        ZDIFF 2 a b => ["x" "z"]
        ZUNIONSTORE to 2 a b => :4
        ZRANGE to 0 -1 WITHSCORES => ["x" "1" "z" "3" "y" "12" "w" "20"]
        ZINTERSTORE to 2 a none => :0
        EXISTS to => :0
        ZDIFFSTORE a 2 a b => :2
        ZRANGE a 0 -1 => ["x" "z"]
        ZINTERCARD 2 a s => :1
        ZINTERCARD 2 a s LIMIT -1 => -ERR LIMIT can't be negative
        ZINTERCARD 3 a s => -ERR syntax error
        ZINTERCARD 0 a s => -ERR at least 1 input key is needed for 'zintercard' command
        SINTERCARD 3 a s => -ERR Number of keys can't be greater than number of args
        ZADD zeros 0 a 0 c -1 b => :3
        ZUNION 1 zeros WEIGHTS -0 => ["a" "b" "c"]
        ZUNION 0 a => -ERR at least 1 input key is needed for 'zunion' command
        ZUNION x a => -ERR value is not an integer or out of range
        ZUNION 9 a => -ERR syntax error
        ZUNION 1 a WEIGHTS x => -ERR weight value is not a float
        ZUNION 1 a AGGREGATE x => -ERR syntax error
        ZDIFF 1 a WEIGHTS 1 => -ERR syntax error
        ZUNIONSTORE to 1 a WITHSCORES => -ERR syntax error
        SET text 1 => OK
        ZUNION 2 a text => -WRONGTYPE Operation against a key holding the wrong kind of value
        ZUNIONSTORE to 1 text BAD => -WRONGTYPE Operation against a key holding the wrong kind of value
        ZINTERSTORE to 1 text WEIGHTS x => -WRONGTYPE Operation against a key holding the wrong kind of value
        ZDIFFSTORE to 2 a text WITHSCORES => -WRONGTYPE Operation against a key holding the wrong kind of value
        ZUNION 1 text BAD => -WRONGTYPE Operation against a key holding the wrong kind of value
        ZUNIONSTORE to 0 text BAD => -ERR at least 1 input key is needed for 'zunionstore' command
        ZUNIONSTORE to x text BAD => -ERR value is not an integer or out of range
        ZUNIONSTORE to 2 text => -ERR syntax error
        ZINTERCARD 1 text LIMIT -1 => -WRONGTYPE Operation against a key holding the wrong kind of value
        SINTERCARD 1 text BAD => -ERR syntax error
        SINTERCARD 1 text => -WRONGTYPE Operation against a key holding the wrong kind of value
        ZADD i inf m => :1
        ZADD j -inf m => :1
        ZUNION 2 i j WITHSCORES => ["m" "0"]
        "#,
    );
    client.script(
        r#"
        HELLO 3 => {"server" "redis" "version" "7.0.15" "proto" :3 "id" :1 "mode" "standalone" "role" "master" "modules" []}
        ZUNION 1 i WITHSCORES => [["m" ,inf]]
        "#,
    );
}

#[test]
fn ranges_are_stored_and_several_keys_are_popped_from() {
    let fixture = Fixture::new();
    let mut client = client_with(
        &fixture,
        r#"
        ZADD z 1 a 2 b 3 c 4 d => :4
        ZRANGESTORE to z 1 2 => :2
        ZRANGE to 0 -1 WITHSCORES => ["b" "2" "c" "3"]
        ZRANGESTORE to z (2 +inf BYSCORE LIMIT 0 1 => :1
        ZRANGE to 0 -1 => ["c"]
        ZRANGESTORE to z 5 9 => :0
        EXISTS to => :0
        ZRANGESTORE to z 0 1 WITHSCORES => -ERR syntax error
        ZMPOP 2 none z MIN => ["z" [["a" "1"]]]
        ZMPOP 1 z MAX COUNT 2 => ["z" [["d" "4"] ["c" "3"]]]
        ZMPOP 1 none MIN => nil array
        ZMPOP 0 z MIN => -ERR numkeys should be greater than 0
        ZMPOP 1 z MIN COUNT 0 => -ERR count should be greater than 0
        ZMPOP 1 z MIDDLE => -ERR syntax error
        RPUSH l 1 2 3 => :3
        LMPOP 2 none l LEFT => ["l" ["1"]]
        LMPOP 1 l RIGHT COUNT 9 => ["l" ["3" "2"]]
        LMPOP 1 l LEFT => nil array
        LMPOP 1 z LEFT => -WRONGTYPE Operation against a key holding the wrong kind of value
        SADD one a b c => :3
        SADD two b c d => :3
        SINTERCARD 2 one two => :2
        SINTERCARD 2 one two LIMIT 1 => :1
        SINTERCARD 2 one none => :0
        SINTERCARD 1 z => -WRONGTYPE Operation against a key holding the wrong kind of value
        ZRANDMEMBER none => nil
        ZRANDMEMBER none 5 => []
        ZRANDMEMBER z => "b"
        ZRANDMEMBER z -3 WITHSCORES => ["b" "2" "b" "2" "b" "2"]
        ZRANDMEMBER z 9 => ["b"]
        ZRANDMEMBER z -9223372036854775808 => -ERR value is out of range
        ZRANDMEMBER z -9223372036854775807 WITHSCORES => -ERR value is out of range
        "#,
    );
    let members: Vec<String> = (0..3000).map(|number| format!("{number} m{number}")).collect();
    client.ask(&format!("ZADD large {}", members.join(" ")));
    let drawn = sorted(&client.ask("ZRANDMEMBER large 100"));
    let mut different = drawn.clone();
    different.dedup();
    assert_eq!((drawn.len(), different.len()), (100, 100));
    assert_eq!(sorted(&client.ask("ZRANDMEMBER large -7")).len(), 7);
    let refusal = client.ask("ZRANDMEMBER large -1000000000");
    assert!(
        refusal.starts_with("-ERR"),
        "{}",
        &refusal[..refusal.len().min(100)]
    );
}

#[test]
fn bits_are_set_counted_found_and_joined() {
    let fixture = Fixture::new();
    client_with(
        &fixture,
        r#"
        SETBIT b 7 1 => :0
        SETBIT b 7 1 => :1
        GETBIT b 7 => :1
        GETBIT b 100 => :0
        GETBIT b 4294967295 => :0
        GETBIT b 4294967296 => -ERR bit offset is not an integer or out of range
        SETBIT b 1 2 => -ERR bit is not an integer or out of range
        SETBIT b -1 1 => -ERR bit offset is not an integer or out of range
        SETBIT b 99999999999999 1 => -ERR bit offset is not an integer or out of range
        SET t foobar => OK
        BITCOUNT t => :26
        BITCOUNT t 0 0 => :4
        BITCOUNT t 5 30 BIT => :17
        BITCOUNT t 5 -2 => :0
        BITCOUNT none 0 1 => :0
        BITCOUNT t 0 => -ERR syntax error
        BITCOUNT none 0 => :0
        BITCOUNT none x y BAD => :0
        BITCOUNT t x 1 BAD => -ERR value is not an integer or out of range
        BITCOUNT t 0 1 BAD => -ERR syntax error
        BITCOUNT t -1 -2 BAD => :0
        RPUSH list a => :1
        BITCOUNT list 0 => -WRONGTYPE Operation against a key holding the wrong kind of value
        BITPOS list 1 x => -WRONGTYPE Operation against a key holding the wrong kind of value
        BITPOS list 2 => -ERR The bit argument must be 1 or 0.
        BITPOS none 1 x => :-1
        BITPOS none 0 5 x => :0
        BITPOS t 1 0 x BAD => -ERR syntax error
        BITPOS t 1 0 1 BIT 4 => -ERR syntax error
        BITPOS t 1 => :1
        BITPOS t 0 => :0
        BITPOS none 1 => :-1
        BITPOS none 0 => :0
        BITPOS t 1 2 => :17
        BITPOS t 2 => -ERR The bit argument must be 1 or 0.
        BITOP AND to t b => :6
        BITCOUNT to => :0
        BITOP NOT to b => :1
        BITCOUNT to => :7
        BITOP NOT to b t => -ERR BITOP NOT must be called with a single source key.
        BITOP OR to none => :0
        EXISTS to => :0
        SET k1 ohmytext => OK
        SET k2 mynewtext => OK
        LCS k1 k2 => "mytext"
        LCS k1 k2 LEN => :6
        LCS k1 k2 IDX MINMATCHLEN 4 WITHMATCHLEN => ["matches" [[[:4 :7] [:5 :8] :4]] "len" :6]
        LCS k1 k2 LEN IDX => -ERR If you want both the length and indexes, please just use IDX.
        "#,
    );
}

#[test]
fn keys_move_between_databases_with_all_that_they_hold() {
    let fixture = Fixture::new();
    client_with(
        &fixture,
        r#"
        RPUSH l 1 2 => :2
        EXPIRE l 1000 => :1
        MOVE l 0 => -ERR source and destination objects are the same
        MOVE l x => -ERR value is not an integer or out of range
        MOVE l 5 => :1
        EXISTS l => :0
        MOVE l 5 => :0
        SELECT 5 => OK
        LRANGE l 0 -1 => ["1" "2"]
        TTL l => :1000
        SELECT 0 => OK
        SET l x => OK
        MOVE l 5 => :0
        "#,
    );
}
