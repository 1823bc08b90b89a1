//! The commands MULTI, EXEC and WATCH.

use crate::client::Fixture;
use std::time::Duration;

#[test]
pub(crate) fn transactions_do_what_redis_says() {
    let fixture = Fixture::new();
    fixture.client().script(
        r#"
        EXEC => -ERR EXEC without MULTI
        DISCARD => -ERR DISCARD without MULTI
        MULTI => OK
        MULTI => -ERR MULTI calls can not be nested
        WATCH a => -ERR WATCH inside MULTI is not allowed
        SET a 1 => QUEUED
        INCR a => QUEUED
        RPUSH l a b => QUEUED
        LRANGE l 0 -1 => QUEUED
        LPUSH a x => QUEUED
        SELECT 1 => QUEUED
        SET other 1 => QUEUED
        EXEC => [OK :2 :2 ["a" "b"] -WRONGTYPE Operation against a key holding the wrong kind of value OK OK]
        DBSIZE => :1
        SELECT 0 => OK
        GET a => "2"
        MULTI => OK
        SET a 5 => QUEUED
        NOSUCH => -ERR unknown command 'NOSUCH', with args beginning with:
        EXEC => -EXECABORT Transaction discarded because of previous errors.
        GET a => "2"
        MULTI => OK
        SET a 5 => QUEUED
        DISCARD => OK
        GET a => "2"
        MULTI => OK
        EXEC => []
        MULTI => OK
        DEL l => QUEUED
        RPUSH l x => QUEUED
        LRANGE l 0 -1 => QUEUED
        HSET h a 1 => QUEUED
        HGETALL h => QUEUED
        FLUSHALL => QUEUED
        HSET h b 2 => QUEUED
        HGETALL h => QUEUED
        KEYS * => QUEUED
        EXEC => [:1 :1 ["x"] :1 ["a" "1"] OK :1 ["b" "2"] ["h"]]
        HGETALL h => ["b" "2"]
        "#,
    );
}

#[test]
pub(crate) fn a_watched_key_that_is_written_to_aborts() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    let begin = "SET k 1 => OK\nWATCH k => OK\nMULTI => OK\nSET k 2 => QUEUED";
    one.script(begin);
    two.script("SET k 3 => OK");
    one.script("EXEC => nil array\nGET k => \"3\"");
    one.script(begin);
    two.script("SET other 3 => OK\nGET k => \"1\"");
    one.script("EXEC => [OK]\nGET k => \"2\"");
    one.script("WATCH k => OK\nUNWATCH => OK");
    two.script("APPEND k 3 => :2");
    one.script("MULTI => OK\nPING => QUEUED\nEXEC => [PONG]");
    one.script(begin);
    two.script("FLUSHALL => OK");
    one.script("EXEC => nil array");
    one.script("SET k 1 PX 50 => OK\nWATCH k => OK\nMULTI => OK\nPING => QUEUED");
    std::thread::sleep(Duration::from_millis(80));
    one.script("EXEC => nil array");
    one.script(begin);
    two.script("RENAME k k2 => OK");
    one.script("EXEC => nil array");
}

#[test]
fn emptying_a_database_tells_only_those_whose_key_was_there() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    for (empties, in_vain) in [
        ("FLUSHDB", "SELECT 1"),
        ("FLUSHALL", "PING"),
        ("DELRANGE [a [z", "DELRANGE [l [z"),
    ] {
        for (has_key, command, reply) in [
            (false, empties, "[OK]"),
            (true, empties, "nil array"),
            (true, in_vain, "[OK]"),
        ] {
            one.script("SET other 1 => OK\nDEL k => :0\nWATCH k => OK\nUNWATCH => OK");
            if has_key {
                one.script("SET k 1 => OK");
            }
            one.script("WATCH k => OK\nMULTI => OK\nSET j 2 => QUEUED");
            let _ = two.ask(command);
            let _ = two.ask("SELECT 0");
            one.script(&format!("EXEC => {reply}"));
            let _ = one.ask("DEL k");
        }
    }
}

#[test]
pub(crate) fn transfers_between_accounts_keep_the_sum() {
    let fixture = Fixture::new();
    fixture.client().script("MSET a 1000 b 1000 => OK");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = fixture.client();
                for _ in 0..200 {
                    client.send_bytes(b"MULTI\r\nDECRBY a 3\r\nINCRBY b 3\r\nEXEC\r\n");
                    let replies: Vec<String> = (0..4).map(|_| client.reply()).collect();
                    assert!(replies[3].starts_with("[:"), "{replies:?}");
                }
            });
        }
        let mut client = fixture.client();
        for _ in 0..200 {
            let reply = client.ask("MGET a b");
            let sum: i64 = reply.split('"').filter_map(|part| part.parse::<i64>().ok()).sum();
            assert_eq!(sum, 2000, "{reply}");
        }
    });
    fixture.client().script("MGET a b => [\"-1400\" \"3400\"]");
}
