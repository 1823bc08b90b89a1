//! Interactive transactions with BEGIN, COMMIT and ABORT.

use crate::client::{Client, Fixture, options};
use alluvium_server::ServerOptions;
use std::time::{Duration, Instant};

#[test]
pub(crate) fn a_transaction_sees_its_own_writes_and_others_see_them_after_commit() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    one.script(
        r#"
        MSET a 1 b 2 gone x => OK
        BEGIN => OK
        SET a 10 => OK
        GET a => "10"
        INCRBY a 5 => :15
        APPEND b 3 => :2
        MGET a b nothing => ["15" "23" nil]
        SET c 1 NX => OK
        SET c 2 NX => nil
        SET c 3 GET => "1"
        DEL gone c nothing => :2
        EXISTS a b c gone => :2
        RENAME b d => OK
        EXPIRE d 100 => :1
        TTL d => :100
        SETBIT bits 7 1 => :0
        GETDEL bits => "\x01"
        SELECT 1 => OK
        SET elsewhere 1 => OK
        SELECT 0 => OK
        PING => PONG
        "#,
    );
    two.script("MGET a b c d gone => [\"1\" \"2\" nil nil \"x\"]");
    one.script("COMMIT => OK");
    two.script(
        r#"
        MGET a b c d gone => ["15" nil nil "23" nil]
        TTL d => :100
        SELECT 1 => OK
        GET elsewhere => "1"
        "#,
    );
    one.script("BEGIN SNAPSHOT OPTIMISTIC => OK\nSET a 99 => OK\nABORT => OK\nGET a => \"15\"");
    one.script("BEGIN SNAPSHOT => OK\nSET a 99 => OK\nRESET => RESET\nGET a => \"15\"\nCOMMIT => -ERR COMMIT without BEGIN");
    one.send_bytes(b"BEGIN\r\nSET a 7\r\nGET a\r\nCOMMIT\r\nGET a\r\n");
    let replies: Vec<String> = (0..5).map(|_| one.reply()).collect();
    assert_eq!(replies, ["OK", "OK", "\"7\"", "OK", "\"7\""]);
}

#[test]
fn what_makes_no_sense_is_refused_and_a_lenient_transaction_goes_on() {
    let fixture = Fixture::new();
    fixture.client().script(
        r#"
        COMMIT => -ERR COMMIT without BEGIN
        ABORT => -ERR ABORT without BEGIN
        BEGIN NONSENSE => -ERR syntax error
        BEGIN SNAPSHOT SERIALIZABLE => -ERR syntax error
        BEGIN OPTIMISTIC optimistic => -ERR syntax error
        BEGIN LENIENT lenient => -ERR syntax error
        BEGIN TIMEOUT => -ERR syntax error
        BEGIN TIMEOUT 1 TIMEOUT 1 => -ERR syntax error
        BEGIN TIMEOUT 0 => -ERR TIMEOUT must be 1 to 600000 milliseconds
        BEGIN TIMEOUT -9223372036854775808 => -ERR TIMEOUT must be 1 to 600000 milliseconds
        BEGIN TIMEOUT 600001 => -ERR TIMEOUT must be 1 to 600000 milliseconds
        BEGIN TIMEOUT x => -ERR value is not an integer or out of range
        BEGIN LOCKING => -ERR BEGIN LOCKING is not supported, because a client that waits for a lock would block others; use OPTIMISTIC, and retry the transaction after a conflict
        COMMIT => -ERR COMMIT without BEGIN
        COMMIT now => -ERR wrong number of arguments for 'commit' command
        MULTI => OK
        BEGIN => -ERR Command not allowed inside a transaction
        EXEC => -EXECABORT Transaction discarded because of previous errors.
        RPUSH list x y => :2
        SADD set x => :1
        SET text 1 => OK
        begin serializable lenient timeout 600000 => OK
        BEGIN => -ERR BEGIN calls can not be nested; send COMMIT or ABORT first
        MULTI => -ERR MULTI after BEGIN is not allowed; send COMMIT or ABORT first
        WATCH a => -ERR WATCH after BEGIN is not allowed, because the transaction detects changes of the keys it reads
        EXEC => -ERR EXEC without MULTI
        COMMIT => OK
        BEGIN => OK
        FLUSHALL => -ERR 'flushall' cannot run between BEGIN and COMMIT, because it would bypass the transaction; use MULTI instead
        DELRANGE - + => -ERR 'delrange' cannot run between BEGIN and COMMIT, because it would bypass the transaction; use MULTI instead
        NOSUCH => -ERR unknown command 'NOSUCH', with args beginning with:
        SET text refused => OK
        COMMIT => -ABORTED a command of the transaction was refused, so nothing is written
        COMMIT => -ERR COMMIT without BEGIN
        BEGIN => OK
        GET text => "1"
        SET text refused => OK
        GET => -ERR wrong number of arguments for 'get' command
        COMMIT => -ABORTED a command of the transaction was refused, so nothing is written
        BEGIN => OK
        SET text refused => OK
        COMMIT now => -ABORTED COMMIT was refused and nothing is written: ERR wrong number of arguments for 'commit' command
        COMMIT => -ERR COMMIT without BEGIN
        BEGIN LENIENT => OK
        SET text refused => OK
        NOSUCH => -ERR unknown command 'NOSUCH', with args beginning with:
        COMMIT => -ABORTED a command of the transaction was refused, so nothing is written
        BEGIN LENIENT SNAPSHOT => OK
        TYPE list => list
        GET list => -WRONGTYPE Operation against a key holding the wrong kind of value
        HSET list a 1 => -WRONGTYPE Operation against a key holding the wrong kind of value
        LSET list 7 a => -ERR index out of range
        INCRBY text x => -ERR value is not an integer or out of range
        SET text 5 EX 0 => -ERR invalid expire time in 'set' command
        GET text => "1"
        INCR text => :2
        COMMIT => OK
        GET text => "2"
        LRANGE list 0 -1 => ["x" "y"]
        SMEMBERS set => ["x"]
        DEL list set => :2
        "#,
    );
}

/// Commands on collections in a transaction, which must see their own earlier writes.
const WITHIN: &str = r#"
BEGIN => OK
HSET h c 3 a 9 => :1
HMGET h a b c => ["9" "2" "3"]
HDEL h b => :1
HLEN h => :2
HINCRBY h c 4 => :7
LPUSH l w => :4
RPOP l => "z"
LRANGE l 0 -1 => ["w" "x" "y"]
LSET l 1 v => OK
LTRIM l 1 -1 => OK
LINSERT l BEFORE y u => :3
LRANGE l 0 -1 => ["v" "u" "y"]
SADD s o => :1
SREM s m => :1
SMISMEMBER s m n o => [:0 :1 :1]
ZADD z 3 three => :1
ZINCRBY z 5 one => "6"
ZRANGE z 0 -1 => ["two" "three" "one"]
ZREVRANGE z 0 0 => ["one"]
ZRANK z one => :2
SADD new 1 2 => :2
SCARD new => :2
DEL text => :1
RPUSH text a => :1
TYPE text => list
RENAME text listed => OK
COPY h copied => :1
HGET copied c => "7"
DEL s => :1
SADD s p => :1
SMEMBERS s => ["p"]
KEYS * => ["copied" "h" "l" "listed" "new" "s" "z"]
DBSIZE => :7
SCAN 0 MATCH l* => ["0" ["l" "listed"]]
REVRANGE (l - KEYSONLY => ["h" "copied"]
SORT l ALPHA => ["u" "v" "y"]
EXPIRE l 100 => :1
"#;

#[test]
fn collections_and_walks_see_what_the_transaction_has_written() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    two.script(
        r#"
        HSET h a 1 b 2 => :2
        RPUSH l x y z => :3
        SADD s m n => :2
        ZADD z 1 one 2 two => :2
        SET text 1 => OK
        "#,
    );
    one.script(WITHIN);
    let before = r#"
        HMGET h a b c => ["1" "2" nil]
        LRANGE l 0 -1 => ["x" "y" "z"]
        ZRANGE z 0 -1 => ["one" "two"]
        EXISTS new listed copied => :0
        GET text => "1"
        DBSIZE => :5
        "#;
    two.script(before);
    one.script("COMMIT => OK");
    two.script(
        r#"
        HMGET h a b c => ["9" nil "7"]
        LRANGE l 0 -1 => ["v" "u" "y"]
        TTL l => :100
        ZRANGE z 0 -1 => ["two" "three" "one"]
        SMEMBERS s => ["p"]
        LRANGE listed 0 -1 => ["a"]
        KEYS * => ["copied" "h" "l" "listed" "new" "s" "z"]
        SET new 5 => OK
        GET new => "5"
        DEL new h l s z listed copied => :7
        DBSIZE => :0
        "#,
    );
    one.script("BEGIN => OK\nRPUSH l 1 => :1\nABORT => OK\nLLEN l => :0\nSET l 1 => OK");
}

#[test]
fn the_order_of_a_large_sorted_set_changes_with_the_commit() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    for from in (0..3_000).step_by(100) {
        let members: Vec<String> = (from..from + 100).map(|n| format!("{n} m{n}")).collect();
        two.script(&format!("ZADD z {} => :100", members.join(" ")));
    }
    two.script("ZRANK z m2000 => :2000");
    one.script("BEGIN => OK\nZADD z 0.5 new => :1\nZRANK z m2000 => :2001\nZREM z m0 m1 m2 => :3");
    one.script("ZRANK z m2000 => :1998\nZRANGE z 0 1 => [\"new\" \"m3\"]");
    two.script("ZRANK z m2000 => :2000");
    one.script("COMMIT => OK");
    two.script("ZRANK z m2000 => :1998\nZRANGE z 1997 1999 => [\"m1999\" \"m2000\" \"m2001\"]");
    two.script("ZADD z 0.25 newer => :1\nZRANK z m2000 => :1999\nZCARD z => :2999");
}

#[test]
pub(crate) fn collections_meet_conflicts_as_strings_do() {
    let conflicts = [
        ("RPUSH list y", "RPUSH list z"),
        ("HSET h a 1", "HSET h b 1"),
        ("SADD j2 a", "SET j2 1"),
        ("DEL list", "RPUSH list z"),
    ];
    for (within, other) in conflicts {
        for begin in ["BEGIN", "BEGIN SNAPSHOT"] {
            assert!(!commits_after(begin, within, other), "{begin} {within}");
        }
    }
    // A blind write depends on no read, so the transactions can be serialised in one of the two
    // orders.
    let (within, other) = ("LSET list 0 y", "LSET list 0 z");
    assert!(!commits_after("BEGIN SNAPSHOT", within, other));
    assert!(commits_after("BEGIN", within, other));
    let reads = [
        ("LRANGE list 0 -1, SET k 5", "LSET list 0 z"),
        ("KEYS *, SET k 5", "SET another 1"),
        ("DBSIZE, SET k 5", "DEL j"),
        ("SCARD none, SET k 5", "SADD none 1"),
    ];
    for (within, other) in reads {
        assert!(!commits_after("BEGIN", within, other), "{within}");
    }
    assert!(commits_after(
        "BEGIN SNAPSHOT",
        "KEYS *, SET k 5",
        "SET another 1"
    ));
    assert!(commits_after("BEGIN", "HSET h a 1", "RPUSH list z"));
}

/// Runs `within` in one client's transaction, and `other` in a second client before the commit.
/// Returns whether the transaction commits.
fn commits_after(begin: &str, within: &str, other: &str) -> bool {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    two.script("MSET k 1 j 1 => OK\nRPUSH list x => :1");
    one.script(&format!("{begin} => OK"));
    for (client, commands) in [(&mut one, within), (&mut two, other)] {
        for command in commands.split(", ") {
            assert!(!client.ask(command).starts_with('-'), "{command}");
        }
    }
    let before = two.ask("MGET k j");
    let reply = one.ask("COMMIT");
    if reply == "OK" {
        return true;
    }
    assert!(reply.starts_with("-CONFLICT "), "{reply}");
    assert!(reply.contains("nothing is written"), "{reply}");
    assert!(!reply.contains("the key \"\""), "{reply}");
    assert_eq!(two.ask("MGET k j"), before, "a conflict writes nothing");
    one.script("COMMIT => -ERR COMMIT without BEGIN\nSET k 2 => OK\nGET k => \"2\"");
    false
}

#[test]
fn the_second_committer_meets_a_conflict() {
    for begin in ["BEGIN", "BEGIN SNAPSHOT"] {
        for other in [
            "SET k 2",
            "INCR k",
            "DEL k",
            "RENAME k l",
            "EXPIRE k 100",
            "FLUSHALL",
            "DELRANGE [a [z",
            "DEL k, RPUSH k x",
            "SWAPDB 0 1, SWAPDB 1 2",
            "BEGIN, INCR k, COMMIT",
            "MULTI, INCR k, EXEC",
        ] {
            assert!(!commits_after(begin, "INCR k", other), "{begin} {other}");
            assert!(!commits_after(begin, "SET k 5", other), "{begin} {other}");
            let only_reads = !other.contains("SWAPDB");
            assert!(
                !only_reads || commits_after(begin, "GET k", other),
                "{begin} {other}"
            );
        }
        for other in [
            "SET l 2",
            "GET k",
            "RPUSH list x",
            "SELECT 1, SET k 5",
            "SWAPDB 3 3",
        ] {
            assert!(commits_after(begin, "INCR k", other), "{begin} {other}");
        }
    }
}

#[test]
pub(crate) fn only_serializable_transactions_depend_on_what_they_have_read() {
    for (within, other) in [("GET k, SET j 5", "INCR k"), ("GET none, SET j 5", "SET none 1")] {
        assert!(!commits_after("BEGIN", within, other), "{within}");
        assert!(commits_after("BEGIN SNAPSHOT", within, other), "{within}");
    }
}

#[test]
pub(crate) fn what_is_read_is_as_of_the_begin() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    two.script("MSET a 1 b 1 => OK\nSET brief 1 PX 40 => OK");
    one.script("BEGIN => OK\nGET a => \"1\"");
    two.script("MSET a 2 b 2 => OK\nFLUSHALL => OK");
    std::thread::sleep(Duration::from_millis(60));
    one.script("MGET a b brief => [\"1\" \"1\" \"1\"]\nCOMMIT => OK\nGET a => nil");
}

#[test]
fn a_transaction_that_is_too_old_is_ended_and_says_so_until_it_is_aborted() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.script("SET k 1 => OK\nBEGIN TIMEOUT 20 => OK\nSET k 2 => OK");
    std::thread::sleep(Duration::from_millis(50));
    for command in ["GET k", "SET k 3", "MSET j 1 k 3", "DEL k"] {
        let reply = client.ask(command);
        assert!(
            reply.starts_with("-ABORTED the transaction was open for longer than 20 ms"),
            "{command}: {reply}"
        );
    }
    client.script("ABORT => OK\nGET k => \"1\"\nGET j => nil\nBEGIN TIMEOUT 20 => OK\nSET k 2 => OK");
    std::thread::sleep(Duration::from_millis(50));
    assert!(client.ask("COMMIT").starts_with("-ABORTED "));
    client.script("COMMIT => -ERR COMMIT without BEGIN\nGET k => \"1\"");
}

pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_connection_that_is_closed_leaves_no_transaction() {
    let fixture = Fixture::new();
    let mut gone = fixture.client();
    gone.script("BEGIN => OK\nSET k 1 => OK");
    assert_eq!(fixture.db.transactions().len(), 1);
    drop(gone);
    wait_until("the transaction is rolled back", || {
        fixture.db.transactions().is_empty()
    });
    let mut quits = fixture.client();
    quits.script("GET k => nil\nBEGIN => OK\nSET k 1 => OK\nQUIT => OK");
    wait_until("the transaction is rolled back", || {
        fixture.db.transactions().is_empty()
    });
    let (mut killed, mut other) = (fixture.client(), fixture.client());
    let id = killed.ask("CLIENT ID").trim_start_matches(':').to_owned();
    killed.script("BEGIN => OK\nSET k 1 => OK");
    other.script(&format!("CLIENT KILL ID {id} => :1"));
    wait_until("the transaction is rolled back", || {
        fixture.db.transactions().is_empty()
    });
    other.script("GET k => nil");
}

#[test]
fn others_on_the_same_loop_go_on_while_a_transaction_is_open() {
    let fixture = Fixture::with(ServerOptions {
        loops: Some(1),
        ..options()
    });
    let mut open: Vec<Client> = (0..20).map(|_| fixture.client()).collect();
    for client in &mut open {
        client.script("BEGIN => OK\nSET k 1 => OK");
    }
    let mut other = fixture.client();
    other.script("SET k 2 => OK\nMULTI => OK\nAPPEND k 3 => QUEUED\nEXEC => [:2]\nKEYS * => [\"k\"]");
    for client in &mut open {
        assert!(client.ask("COMMIT").starts_with("-CONFLICT "));
    }
    other.script("GET k => \"23\"");
}

#[test]
fn a_watched_key_that_a_transaction_has_written_to_aborts_exec() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    two.script("BEGIN => OK\nSET k 1 => OK");
    one.script("WATCH k => OK\nMULTI => OK\nSET k 2 => QUEUED");
    two.script("COMMIT => OK");
    one.script("EXEC => nil array\nWATCH k => OK\nMULTI => OK\nSET k 2 => QUEUED");
    two.script("BEGIN => OK\nSET k 1 => OK\nABORT => OK");
    one.script("EXEC => [OK]");
}

#[test]
fn a_watched_collection_that_a_transaction_has_changed_aborts_exec() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    two.script("HSET h f 1 g 1 => :2\nRPUSH l a b c => :3\nZADD z 1 a 2 b => :2\nSADD s a => :1");
    // The number of elements stays the same.
    for (key, change) in [
        ("h", "HSET h f 2 => :0"),
        ("l", "LSET l 1 x => OK"),
        ("z", "ZADD z 5 a => :0"),
    ] {
        one.script(&format!("WATCH {key} => OK\nMULTI => OK\nSET k 2 => QUEUED"));
        two.script(&format!("BEGIN => OK\n{change}\nCOMMIT => OK"));
        one.script("EXEC => nil array");
    }
    // A command without an effect does not count as a change.
    one.script("WATCH s => OK\nMULTI => OK\nSET k 2 => QUEUED");
    two.script("BEGIN => OK\nSADD s a => :0\nCOMMIT => OK");
    one.script("EXEC => [OK]");
}

#[test]
pub(crate) fn commands_that_read_and_write_lose_nothing_beside_transactions() {
    const EACH: usize = 300;
    let fixture = Fixture::new();
    fixture.client().script("SET n 0 => OK");
    std::thread::scope(|scope| {
        for isolation in ["SERIALIZABLE", "SNAPSHOT"] {
            let fixture = &fixture;
            scope.spawn(move || {
                let (mut client, mut done) = (fixture.client(), 0);
                while done < EACH {
                    client.script(&format!("BEGIN {isolation} => OK"));
                    assert!(client.ask("INCR n").starts_with(':'));
                    let reply = client.ask("COMMIT");
                    assert!(reply == "OK" || reply.starts_with("-CONFLICT "), "{reply}");
                    done += usize::from(reply == "OK");
                }
            });
            scope.spawn(move || {
                let mut client = fixture.client();
                for _ in 0..EACH {
                    assert!(client.ask("INCR n").starts_with(':'));
                    std::thread::yield_now();
                }
            });
        }
    });
    fixture.client().script(&format!("GET n => \"{}\"", 4 * EACH));
}

#[test]
fn a_forgotten_transaction_is_ended_while_its_connection_is_silent() {
    let fixture = Fixture::new();
    let mut silent = fixture.client();
    silent.script("BEGIN TIMEOUT 30 => OK\nSET k 1 => OK");
    wait_until("the transaction is ended", || {
        fixture.db.transactions().is_empty()
    });
    assert_eq!(fixture.db.stats().transactions.timeouts, 1);
    assert!(silent.ask("GET k").starts_with("-ABORTED "));
    silent.script("ABORT => OK\nGET k => nil");
}

#[test]
fn a_pause_of_writers_holds_commit_and_no_command_before_it() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    one.script("BEGIN TIMEOUT 600000 => OK\nSET k 1 => OK");
    two.script("CLIENT PAUSE 100000 WRITE => OK");
    one.script("SET j 1 => OK\nGET k => \"1\"");
    one.send_bytes(b"COMMIT\r\n");
    for _ in 0..50 {
        two.script("GET k => nil");
    }
    two.script("CLIENT UNPAUSE => OK");
    assert_eq!(one.reply(), "OK");
    two.script("MGET k j => [\"1\" \"1\"]");
}

/// Returns a random command on one of a few keys, so that transactions conflict.
fn any_command(random: &mut fastrand::Rng) -> String {
    let key = ["a", "b", "c", "d"][random.usize(..4)];
    let other = ["a", "b", "c", "d"][random.usize(..4)];
    let number = random.i32(-20..20);
    match random.u32(..24) {
        0 => format!("SET {key} {number}"),
        1 => format!("SET {key} {number} XX GET"),
        2 => format!("SET {key} {number} NX"),
        3 => format!("SET {key} {number} EX 1000"),
        4 => format!("SET {key} {number} KEEPTTL"),
        5 => format!("DEL {key} {other}"),
        6 => format!("INCRBY {key} {number}"),
        7 => format!("APPEND {key} {number}"),
        8 => format!("GETSET {key} {number}"),
        9 => format!("GETDEL {key}"),
        10 => format!("GETEX {key} PERSIST"),
        11 => format!("MSET {key} 1 {other} {number}"),
        12 => format!("MSETNX {key} 1 {other} {number}"),
        13 => format!("RENAME {key} {other}"),
        14 => format!("RENAMENX {key} {other}"),
        15 => format!("EXPIRE {key} {}", number * 1000),
        16 => format!("PERSIST {key}"),
        17 => format!("SETRANGE {key} {} xy", random.u32(..20)),
        18 => format!("SETBIT {key} {} 1", random.u32(..80)),
        19 => format!("BITOP XOR {key} {other} {key}"),
        20 => format!("INCRBYFLOAT {key} {number}.5"),
        21 => format!("MGET {key} {other}"),
        22 => format!("EXISTS {key} {other}"),
        _ => format!("STRLEN {key}"),
    }
}

#[test]
fn commands_reply_the_same_between_begin_and_commit_as_without() {
    let (within, plain) = (Fixture::new(), Fixture::new());
    let (mut one, mut two) = (within.client(), plain.client());
    let mut random = fastrand::Rng::with_seed(2811);
    for turn in 0..150 {
        let aborts = random.u32(..4) == 0;
        one.script(if turn % 2 == 0 {
            "BEGIN LENIENT => OK"
        } else {
            "BEGIN SNAPSHOT LENIENT => OK"
        });
        for _ in 0..random.u32(1..20) {
            let command = any_command(&mut random);
            let reply = one.ask(&command);
            if !aborts {
                assert_eq!(reply, two.ask(&command), "{turn}: {command}");
            }
        }
        one.script(if aborts { "ABORT => OK" } else { "COMMIT => OK" });
        let state = "MGET a b c d";
        assert_eq!(one.ask(state), two.ask(state), "{turn}");
        for key in ["a", "b", "c", "d"] {
            let (ours, theirs) = (one.ask(&format!("TTL {key}")), two.ask(&format!("TTL {key}")));
            assert_eq!(ours == ":-1", theirs == ":-1", "{turn}: {key} {ours} {theirs}");
        }
    }
}
