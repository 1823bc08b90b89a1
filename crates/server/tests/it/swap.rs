//! SWAPDB, which exchanges two databases atomically for all clients.

use crate::client::{Client, Fixture, options};
use alluvium::Options;
use alluvium_server::Server;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
pub(crate) fn swapped_databases_show_each_others_keys_until_they_are_swapped_back() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    one.script("SET k zero => OK\nRPUSH l a b => :2");
    two.script("SELECT 1 => OK\nSET k one => OK\nHSET h f v => :1\nZADD z 1 m => :1");
    one.script("SWAPDB 0 1 => OK");
    one.script("GET k => \"one\"\nHGET h f => \"v\"\nEXISTS l => :0\nDBSIZE => :3");
    two.script("GET k => \"zero\"\nLRANGE l 0 -1 => [\"a\" \"b\"]\nEXISTS h => :0");
    // Deletes, overwrites and moves must use the databases as swapped.
    one.script("SET h text => OK\nMOVE k 1 => :0\nMOVE z 1 => :1\nCOPY h c DB 2 => :1");
    two.script("ZSCORE z m => \"1\"\nDEL k => :1");
    one.script("SWAPDB 1 0 => OK\nGET k => nil\nZRANGE z 0 -1 => [\"m\"]");
    two.script("GET k => \"one\"\nGET h => \"text\"\nFLUSHDB => OK\nDBSIZE => :0");
    one.script("DBSIZE => :2\nSWAPDB 0 0 => OK\nDBSIZE => :2\nSELECT 2 => OK\nGET c => \"text\"");
    one.script("SWAPDB 0 16 => -ERR DB index is out of range");
    one.script("SWAPDB a 1 => -ERR invalid first DB index");
    one.script("SWAPDB 0 b => -ERR invalid second DB index");
}

#[test]
pub(crate) fn what_follows_a_swap_in_a_pipeline_or_a_transaction_sees_it() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.script("SET k zero => OK\nSELECT 1 => OK\nSET k one => OK\nSELECT 0 => OK");
    client.send_bytes(
        b"GET k\r\nSWAPDB 0 1\r\nGET k\r\nAPPEND k !\r\nSWAPDB 1 0\r\nGET k\r\nSWAPDB 0 1\r\nGET k\r\n",
    );
    let replies: Vec<String> = (0..8).map(|_| client.reply()).collect();
    let expected = [
        "\"zero\"", "OK", "\"one\"", ":4", "OK", "\"zero\"", "OK", "\"one!\"",
    ];
    assert_eq!(replies, expected);
    client.script(
        r#"
        MULTI => OK
        SET k in => QUEUED
        SWAPDB 0 1 => QUEUED
        GET k => QUEUED
        SELECT 1 => QUEUED
        GET k => QUEUED
        SELECT 0 => QUEUED
        EXEC => [OK OK "zero" OK "in" OK]
        GET k => "zero"
        "#,
    );
}

#[test]
pub(crate) fn a_swap_touches_watched_keys_that_are_in_one_of_both_and_watches_go_on() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    let begin = "WATCH k => OK\nMULTI => OK\nPING => QUEUED";
    for (here, there, reply) in [
        (false, false, "[PONG]"),
        (true, false, "nil array"),
        (false, true, "nil array"),
        (true, true, "nil array"),
    ] {
        two.script("FLUSHALL => OK");
        for (is_there, database) in [(here, 0), (there, 7)] {
            two.script(&format!("SELECT {database} => OK"));
            if is_there {
                two.script("SET k 1 => OK");
            }
        }
        one.script(begin);
        two.script("SWAPDB 7 0 => OK");
        one.script(&format!("EXEC => {reply}"));
    }
    // Later writes to the watcher's database invalidate the watch, writes to other databases do
    // not.
    two.script("FLUSHALL => OK\nSELECT 0 => OK");
    for (database, reply) in [(0, "nil array"), (7, "[PONG]")] {
        one.script(begin);
        two.script("SWAPDB 0 7 => OK");
        two.script(&format!("SELECT {database} => OK\nSET k 1 => OK\nDEL k => :1"));
        one.script(&format!("EXEC => {reply}"));
    }
}

#[test]
pub(crate) fn a_swap_holds_after_a_restart() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.script("HSET k f 0 => :1\nSELECT 3 => OK\nSET k three => OK\nSWAPDB 3 0 => OK\nSWAPDB 3 5 => OK");
    drop(client);
    let Fixture { server, db, place } = fixture;
    server.stop();
    server.join().unwrap();
    drop(server);
    db.close().unwrap();
    let db = Options::new()
        .memory(64 << 20)
        .open(place.path().join("store"))
        .unwrap();
    let server = Server::start(&db, options()).unwrap();
    let mut client = Client::connect(server.redis_addr().unwrap());
    client.script("GET k => \"three\"\nSELECT 5 => OK\nHGET k f => \"0\"\nSELECT 3 => OK\nEXISTS k => :0");
    // The server must track which keys of the swapped database have collections.
    client.script(
        "SELECT 5 => OK\nSET k text => OK\nDEL k => :1\nHSET k g 1 => :1\nHGETALL k => [\"g\" \"1\"]",
    );
    assert!(client.ask("INFO keyspace").contains("db0:keys=1"));
}

#[test]
pub(crate) fn no_increment_is_lost_or_doubled_while_databases_are_swapped() {
    let fixture = Fixture::new();
    std::thread::scope(|scope| {
        for database in [0, 1, 0, 1] {
            let fixture = &fixture;
            scope.spawn(move || {
                let mut client = fixture.client();
                client.script(&format!("SELECT {database} => OK"));
                for _ in 0..100 {
                    client.send_bytes(b"INCR a\r\nSET b x\r\nGET b\r\nMULTI\r\nINCR a\r\nGET a\r\nEXEC\r\n");
                    let replies: Vec<String> = (0..7).map(|_| client.reply()).collect();
                    let own = replies[6].trim_matches(['[', ']']);
                    let (count, seen) = own.split_once(' ').unwrap();
                    assert_eq!(count[1..], *seen.trim_matches('"'), "{replies:?}");
                }
            });
        }
        let mut client = fixture.client();
        for _ in 0..200 {
            client.script("SWAPDB 0 1 => OK");
        }
    });
    let mut client = fixture.client();
    let mut sum = 0;
    for database in [0, 1] {
        client.script(&format!("SELECT {database} => OK"));
        sum += client.ask("GET a").trim_matches('"').parse::<u64>().unwrap_or(0);
    }
    assert_eq!(sum, 4 * 100 * 2);
}

#[test]
fn a_write_that_waited_for_a_swap_goes_to_its_database_as_it_is_then() {
    let fixture = Fixture::new();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let (fixture, is_over) = (&fixture, &is_over);
            scope.spawn(move || {
                let mut client = fixture.client();
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    client.script(&format!("SET k {writer}:{number} => OK"));
                }
            });
        }
        let mut client = fixture.client();
        client.script("SELECT 1 => OK");
        let mut changed = Vec::new();
        for _ in 0..500 {
            client.script("SWAPDB 0 1 => OK");
            // All other clients write to the other database.
            let (before, after) = (client.ask("GET k"), client.ask("GET k"));
            if before != after {
                changed.push((before, after));
            }
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(changed.is_empty(), "{} times: {:?}", changed.len(), changed[0]);
    });
}

#[test]
pub(crate) fn a_snapshot_keeps_databases_where_they_were() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.script("SET a zero => OK\nSELECT 1 => OK\nSET a one => OK\nSNAPSHOT CREATE before => OK");
    client.script("SWAPDB 0 1 => OK\nSNAPSHOT GET before a => \"one\"\nSELECT 0 => OK");
    client.script("SNAPSHOT GET before a => \"zero\"\nSNAPSHOT CREATE behind => OK");
    client.script("SWAPDB 0 2 => OK\nSNAPSHOT GET behind a => \"one\"\nGET a => nil");
}
