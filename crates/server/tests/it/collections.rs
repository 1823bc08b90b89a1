//! Tests hashes, sets, lists and sorted sets.

use crate::client::{Fixture, sorted};
use std::collections::BTreeSet;

const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

#[test]
pub(crate) fn hashes_do_what_redis_says() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.script(
        r#"
        HSET h a 1 b 2 a 3 => :2
        HGET h a => "3"
        HGET h none => nil
        HGET none a => nil
        HMGET h a none b => ["3" nil "2"]
        HLEN h => :2
        HEXISTS h a => :1
        HSETNX h a 9 => :0
        HSETNX h c 9 => :1
        HINCRBY h a 4 => :7
        HINCRBY h x 4 => :4
        HINCRBYFLOAT h a 0.5 => "7.5"
        HINCRBY h a 1 => -ERR hash value is not an integer
        HSTRLEN h a => :3
        HDEL h a none x => :2
        HSET h a => -ERR wrong number of arguments for 'hset' command
        HDEL h b c => :2
        EXISTS h => :0
        HMSET h a 1 => OK
        HGETALL h => ["a" "1"]
        HRANDFIELD h => "a"
        HRANDFIELD h 5 WITHVALUES => ["a" "1"]
        HRANDFIELD h -2 => ["a" "a"]
        OBJECT ENCODING h => "listpack"
        "#,
    );
    client.ask("HELLO 3");
    client.script("HGETALL h => {\"a\" \"1\"}");
}

#[test]
pub(crate) fn sets_do_what_redis_says() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.script(
        r#"
        SADD s a b a => :2
        SADD s a c => :1
        SCARD s => :3
        SISMEMBER s a => :1
        SMISMEMBER s a none => [:1 :0]
        SREM s c none => :1
        SADD t b d => :2
        SINTER s t => ["b"]
        SDIFF s t => ["a"]
        SINTER s none => []
        SINTERSTORE u s t => :1
        SUNIONSTORE u s t => :3
        SDIFFSTORE u t s => :1
        SMEMBERS u => ["d"]
        SMOVE s t a => :1
        SMOVE s t a => :0
        SMEMBERS s => ["b"]
        SPOP s => "b"
        SPOP s => nil
        SPOP s 2 => []
        SPOP t -1 => -ERR value is out of range, must be positive
        SRANDMEMBER none => nil
        SRANDMEMBER none 2 => []
        "#,
    );
    assert_eq!(sorted(&client.ask("SUNION t u")), ["\"a\"", "\"b\"", "\"d\""]);
    assert_eq!(sorted(&client.ask("SRANDMEMBER t 10")).len(), 3);
    assert_eq!(sorted(&client.ask("SRANDMEMBER t -10")).len(), 10);
    assert_eq!(sorted(&client.ask("SPOP t 2")).len(), 2);
    client.script("SCARD t => :1");
}

#[test]
fn members_of_large_sets_are_drawn_from_all_of_them() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    for hundred in 0..30 {
        let members: Vec<String> = (0..100).map(|index| format!("m{hundred}-{index}")).collect();
        client.ask(&format!("SADD s {}", members.join(" ")));
    }
    let drawn: BTreeSet<String> = (0..100).map(|_| client.ask("SRANDMEMBER s")).collect();
    assert!(drawn.len() > 50, "{}", drawn.len());
    assert_eq!(sorted(&client.ask("SRANDMEMBER s 20")).len(), 20);
    assert_eq!(sorted(&client.ask("SPOP s 20")).len(), 20);
    client.script("SCARD s => :2980");
    assert_eq!(walk(&mut client, "SSCAN s", "").len(), 2980);
}

/// Returns all elements from a complete iteration with a SCAN command.
fn walk(client: &mut crate::client::Client, command: &str, options: &str) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut cursor = "0".to_owned();
    loop {
        let reply = client.ask(format!("{command} {cursor} {options}").trim_end());
        let (next, found) = reply[1..reply.len() - 1].split_once(' ').unwrap();
        seen.extend(sorted(found));
        cursor = next.trim_matches('"').to_owned();
        if cursor == "0" {
            return seen;
        }
    }
}

#[test]
pub(crate) fn lists_do_what_redis_says() {
    let fixture = Fixture::new();
    fixture.client().script(
        r#"
        RPUSH l b c => :2
        LPUSH l a z => :4
        LRANGE l 0 -1 => ["z" "a" "b" "c"]
        LLEN l => :4
        LINDEX l -1 => "c"
        LINDEX l 9 => nil
        LSET l 0 y => OK
        LSET l 9 y => -ERR index out of range
        LSET none 0 y => -ERR no such key
        LINSERT l BEFORE b x => :5
        LINSERT l AFTER none x => :-1
        LINSERT l BESIDE b x => -ERR syntax error
        LRANGE l 0 -1 => ["y" "a" "x" "b" "c"]
        RPUSH l x x => :7
        LPOS l x => :2
        LPOS l x RANK 2 => :5
        LPOS l x COUNT 0 => [:2 :5 :6]
        LPOS l x RANK -1 COUNT 2 => [:6 :5]
        LPOS l none => nil
        LREM l -2 x => :2
        LRANGE l 0 -1 => ["y" "a" "x" "b" "c"]
        LREM l 0 x => :1
        LTRIM l 1 2 => OK
        LRANGE l 0 -1 => ["a" "b"]
        LMOVE l m LEFT RIGHT => "a"
        RPOPLPUSH l m => "b"
        EXISTS l => :0
        LRANGE m 0 -1 => ["b" "a"]
        LMOVE m m LEFT RIGHT => "b"
        LRANGE m 0 -1 => ["a" "b"]
        LPOP m 5 => ["a" "b"]
        LPOP m => nil
        LPOP m 2 => nil array
        LPUSHX m a => :0
        RPUSH m a => :1
        RPUSHX m b => :2
        LPOP m 0 => []
        RPOP m => "b"
        LPOP m -1 => -ERR value is out of range, must be positive
        LMOVE none m LEFT RIGHT => nil
        LTRIM m 5 9 => OK
        EXISTS m => :0
        "#,
    );
}

#[test]
pub(crate) fn sorted_sets_do_what_redis_says() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.script(
        r#"
        ZADD z 1 a 2 b 3 c => :3
        ZADD z 5 a 4 d => :1
        ZADD z CH 6 a 4 d => :1
        ZADD z NX 9 a 1 e => :1
        ZADD z XX CH 7 a 1 f => :1
        ZADD z GT 1 a => :0
        ZSCORE z a => "7"
        ZADD z INCR 0.5 a => "7.5"
        ZADD z NX INCR 1 a => nil
        ZADD z XX NX 1 a => -ERR XX and NX options at the same time are not compatible
        ZADD z GT NX 1 a => -ERR GT, LT, and/or NX options at the same time are not compatible
        ZADD z INCR 1 a 2 b => -ERR INCR option supports a single increment-element pair
        ZADD z x a => -ERR value is not a valid float
        ZADD z 1 => -ERR wrong number of arguments for 'zadd' command
        ZADD z 1 a 2 => -ERR syntax error
        ZINCRBY z 1 b => "3"
        ZRANGE z 0 -1 WITHSCORES => ["e" "1" "b" "3" "c" "3" "d" "4" "a" "7.5"]
        ZREVRANGE z 0 1 => ["a" "d"]
        ZRANGE z 0 1 REV => ["a" "d"]
        ZRANGE z (1 3 BYSCORE => ["b" "c"]
        ZRANGE z 3 (1 BYSCORE REV LIMIT 1 5 => ["b"]
        ZRANGE z 0 1 LIMIT 0 1 => -ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX
        ZRANGEBYSCORE z -inf +inf WITHSCORES LIMIT 1 2 => ["b" "3" "c" "3"]
        ZREVRANGEBYSCORE z 4 3 => ["d" "c" "b"]
        ZRANGEBYSCORE z x 1 => -ERR min or max is not a float
        ZCOUNT z 3 4 => :3
        ZRANK z c => :2
        ZREVRANK z c => :2
        ZRANK z none => nil
        ZCARD z => :5
        ZMSCORE z a none => ["7.5" nil]
        ZREM z a none => :1
        ZPOPMIN z => ["e" "1"]
        ZPOPMAX z 2 => ["d" "4" "c" "3"]
        ZPOPMIN none => []
        ZREMRANGEBYSCORE z 0 9 => :1
        EXISTS z => :0
        ZADD z 0 a 0 b 0 c 0 d => :4
        ZRANGEBYLEX z [b (d => ["b" "c"]
        ZREVRANGEBYLEX z + - => ["d" "c" "b" "a"]
        ZLEXCOUNT z - (c => :2
        ZRANGEBYLEX z b c => -ERR min or max not valid string range item
        ZRANGE z [a [c BYLEX LIMIT 1 -1 => ["b" "c"]
        ZREMRANGEBYLEX z - (b => :1
        ZREMRANGEBYRANK z -1 -1 => :1
        ZRANGE z 0 -1 => ["b" "c"]
        ZADD z -inf b +inf c => :0
        ZINCRBY z -inf c => -ERR resulting score is not a number (NaN)
        ZSCAN z 0 MATCH c => ["0" ["c" "inf"]]
        "#,
    );
    client.ask("HELLO 3");
    client.script(
        r#"
        ZSCORE z c => ,inf
        ZRANGE z 0 0 WITHSCORES => [["b" ,-inf]]
        ZPOPMIN z => ["b" ,-inf]
        "#,
    );
}

#[test]
fn walks_over_elements_meet_all_of_them() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    for index in 0..300 {
        client.ask(&format!("HSET h field{index} value{index}"));
        client.ask(&format!("ZADD z {index} member{index}"));
    }
    assert_eq!(walk(&mut client, "HSCAN h", "COUNT 11").len(), 600);
    assert_eq!(walk(&mut client, "ZSCAN z", "COUNT 11 MATCH member*").len(), 600);
}

/// Commands of each family, on the key K.
#[rustfmt::skip]
const FAMILIES: [(&str, &[&str]); 4] = [
    ("list", &["RPUSH K a", "LPOP K", "LLEN K", "LRANGE K 0 1", "LSET K 0 a", "LREM K 0 a", "LMOVE K x LEFT LEFT"]),
    ("set", &["SADD K a", "SREM K a", "SMEMBERS K", "SPOP K", "SUNION K", "SINTER K", "SDIFF set K", "SSCAN K 0"]),
    ("zset", &["ZADD K 1 a", "ZREM K a", "ZRANGE K 0 1", "ZSCORE K a", "ZPOPMIN K", "ZRANK K a", "ZSCAN K 0"]),
    ("hash", &["HSET K a b", "HGET K a", "HDEL K a", "HGETALL K", "HINCRBY K a 1", "HSCAN K 0"]),
];

#[test]
pub(crate) fn every_family_refuses_the_types_of_others() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    for command in [
        "SET string a",
        "RPUSH list a",
        "SADD set a",
        "ZADD zset 1 a",
        "HSET hash a b",
    ] {
        client.ask(command);
    }
    for (own, commands) in FAMILIES {
        for key in ["string", "list", "set", "zset", "hash"]
            .into_iter()
            .filter(|key| *key != own)
        {
            for command in commands {
                let command = command.replace(" K", &format!(" {key}"));
                assert_eq!(client.ask(&command), WRONG, "{command}");
            }
        }
    }
}
