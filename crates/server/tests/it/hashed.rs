//! Servers with hashed keys. They run the general server tests, and tests of their specific
//! behaviour.

use crate::client::{Client, Fixture, Hashed, options, sorted};
use crate::hashed_model::scanned;
use crate::kill::Killed;
use alluvium::simulation::SimulationOperations as _;
use alluvium::{Change, Db, Options, Structure};
use alluvium_server::control::{
    ManagementReply, ManagementRequest, ManagementSession, RedisRequest, ScanContent, ScanOrder, ScanRequest,
};
use alluvium_server::{Error, KeyLayout, Server, ServerOptions};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Runs general server tests with hashed keys.
macro_rules! also_hashed {
    ($($module:ident { $($name:ident)+ })+) => {
        $(mod $module {
            $(#[test]
            fn $name() {
                let _hashed = crate::client::Hashed::begin();
                crate::$module::$name();
            })+
        })+
    };
}

also_hashed! {
    strings {
        strings_do_what_redis_says
        other_types_are_refused_where_a_string_is_wanted
        pipelined_commands_see_what_those_before_them_did
        a_failing_command_does_not_touch_its_neighbours
        counters_of_many_connections_lose_nothing
    }
    keys {
        keys_do_what_redis_says
        collections_expire_with_their_elements
        a_deleted_collection_leaves_nothing_behind
        walks_meet_every_key_that_is_there_all_the_time
        a_scan_that_a_restart_interrupts_misses_no_key_or_is_refused
        cursors_take_bounded_memory_and_a_client_that_asks_for_many_ends_no_other_scan
    }
    transactions {
        transactions_do_what_redis_says
        a_watched_key_that_is_written_to_aborts
        transfers_between_accounts_keep_the_sum
    }
    swap {
        swapped_databases_show_each_others_keys_until_they_are_swapped_back
        what_follows_a_swap_in_a_pipeline_or_a_transaction_sees_it
        a_swap_touches_watched_keys_that_are_in_one_of_both_and_watches_go_on
        a_swap_holds_after_a_restart
        a_snapshot_keeps_databases_where_they_were
        no_increment_is_lost_or_doubled_while_databases_are_swapped
    }
    collections {
        hashes_do_what_redis_says
        sets_do_what_redis_says
        lists_do_what_redis_says
        sorted_sets_do_what_redis_says
        every_family_refuses_the_types_of_others
    }
    sort {
        elements_are_sorted_by_themselves_and_by_other_keys
        what_was_sorted_is_stored_as_a_list
        integers_within_strings_are_read_and_changed
    }
    joined {
        two_clients_share_a_joint_transaction_which_takes_effect_as_a_whole
        a_rank_index_is_right_after_a_joint_commit_and_after_a_rollback
        a_joint_commit_conflicts_with_what_others_have_changed_since_the_transaction_began
        a_client_sees_databases_and_keys_as_they_were_when_the_joint_transaction_began
    }
    interactive {
        a_transaction_sees_its_own_writes_and_others_see_them_after_commit
        collections_meet_conflicts_as_strings_do
        only_serializable_transactions_depend_on_what_they_have_read
        what_is_read_is_as_of_the_begin
        commands_that_read_and_write_lose_nothing_beside_transactions
    }
    interleaved {
        transfers_between_collections_conserve_what_there_is
    }
    restart {
        values_and_expiries_survive_a_restart
    }
    kill {
        what_was_acknowledged_survives_the_servers_being_killed
    }
    differential {
        random_commands_get_the_replies_of_redis
    }
    cold {
        walks_over_keys_read_no_long_values
    }
    memcached {
        text_commands_do_what_memcached_says
    }
}

fn fixture() -> Fixture {
    let _hashed = Hashed::begin();
    Fixture::new()
}

fn open(place: &Path) -> Db {
    Options::new().memory(64 << 20).open(place.join("store")).unwrap()
}

fn start(db: &Db, keys: KeyLayout) -> Result<Server, Error> {
    Server::start(db, ServerOptions { keys, ..options() })
}

fn end(server: Server) {
    server.stop();
    server.join().unwrap();
    drop(server);
}

#[test]
fn strings_and_items_are_hashed_and_elements_are_in_order() {
    let fixture = fixture();
    let mut client = fixture.client();
    client.script("SET s 1 => OK\nRPUSH l a b => :2\nSELECT 3 => OK\nSET t 1 => OK");
    let names: Vec<String> = fixture.db.keyspaces();
    assert_eq!(names, ["memcached", "redis", "redis.keys.0", "redis.keys.3"]);
    for name in names.iter().filter(|name| **name != "redis") {
        let keyspace = fixture.db.existing_keyspace(name).unwrap();
        assert!(
            matches!(keyspace.options().structure, Structure::Hashed(_)),
            "{name}"
        );
    }
    let records = fixture.db.existing_keyspace("redis.keys.0").unwrap();
    assert_eq!(records.unordered().count(), 2);
    let redis = fixture.db.existing_keyspace("redis").unwrap();
    assert_eq!(redis.prefix(b"\0k").count() + redis.prefix(b"\x03k").count(), 0);
    assert_eq!(redis.prefix(b"\0e").count(), 2);
}

#[test]
fn what_needs_an_order_says_that_there_is_none() {
    let fixture = fixture();
    let mut client = fixture.client();
    client.script("MSET a 1 b 2 => OK");
    for command in ["RANGE - +", "REVRANGE + -", "DELRANGE - +"] {
        let reply = client.ask(command);
        let name = command.split(' ').next().unwrap();
        let expected =
            format!("-ERR {name} needs keys in order, but this store keeps them hashed (--hashed)");
        assert!(reply.starts_with(&expected), "{reply}");
    }
    client.script("SNAPSHOT CREATE before => OK\nSET a 2 => OK\nSNAPSHOT GET before a => \"1\"\nSNAPSHOT GET before c => nil");
    client.script("SELECT 7 => OK\nSNAPSHOT GET before a => nil\nSNAPSHOT DROP before => OK");
}

/// Scans database 0 in a session. Returns the number of keys, or `None` if the scan failed.
fn told(session: &mut ManagementSession, scan: ScanRequest) -> Option<usize> {
    let mut keys = 0;
    let request = ManagementRequest::Redis(RedisRequest::Scan { database: 0, scan });
    let answered = session.answer(&request, &mut |reply| {
        keys += usize::from(matches!(reply, ManagementReply::Key(_)));
        Ok(())
    });
    answered.is_ok().then_some(keys)
}

#[test]
fn the_command_line_reads_and_writes_them_beside_a_server_and_without() {
    let fixture = fixture();
    fixture.client().script("MSET a 1 b 2 => OK\nRPUSH l x y => :2");
    let Fixture { server, db, place } = fixture;
    end(server);
    let mut session = ManagementSession::new(&db);
    let all = ScanRequest {
        keyspace: String::new(),
        from: Vec::new(),
        to: None,
        direction: ScanOrder::Forward,
        limit: None,
        what: ScanContent::Pairs,
    };
    assert_eq!(told(&mut session, all.clone()), Some(3));
    let limit = Some(2);
    assert_eq!(told(&mut session, ScanRequest { limit, ..all.clone() }), Some(2));
    let direction = ScanOrder::Backward;
    assert_eq!(
        told(
            &mut session,
            ScanRequest {
                direction,
                ..all.clone()
            }
        ),
        None
    );
    let from = b"b".to_vec();
    assert_eq!(told(&mut session, ScanRequest { from, ..all }), None);
    let commands = [&["SET", "c", "3"][..], &["DEL", "a", "l"]];
    let words = |words: &&[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let executed = ManagementRequest::Redis(RedisRequest::Execute {
        database: 0,
        commands: commands.iter().map(words).collect(),
        also: Vec::new(),
    });
    session.answer(&executed, &mut |_| Ok(())).unwrap();
    let get = |session: &mut ManagementSession, key: &str| {
        let mut found = Vec::new();
        let request = ManagementRequest::Redis(RedisRequest::Get {
            database: 0,
            keys: vec![key.as_bytes().to_vec()],
        });
        let answered = session.answer(&request, &mut |reply| {
            if let ManagementReply::Elements(elements) = reply {
                found.extend(elements);
            }
            Ok(())
        });
        answered.unwrap();
        found
    };
    assert_eq!(get(&mut session, "c"), [(b"3".to_vec(), Vec::new())]);
    assert_eq!(get(&mut session, "a"), []);
    drop(session);
    let server = start(&db, KeyLayout::AsStored).unwrap();
    let mut client = Client::connect(server.redis_addr().unwrap());
    client.script("GET c => \"3\"\nDBSIZE => :2\nLLEN l => :0");
    drop(place);
}

#[test]
fn a_store_keeps_what_it_was_made_with_and_one_with_keys_in_order_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let db = open(place.path());
    // The new store contains nothing yet, so it can still use either layout.
    end(start(&db, KeyLayout::AsStored).unwrap());
    let server = start(&db, KeyLayout::Hashed).unwrap();
    Client::connect(server.redis_addr().unwrap()).script("SET a 1 => OK");
    end(server);
    for keys in [KeyLayout::AsStored, KeyLayout::Hashed] {
        let server = start(&db, keys).unwrap();
        let mut client = Client::connect(server.redis_addr().unwrap());
        client.script("GET a => \"1\"\nDBSIZE => :1");
        assert!(client.ask("RANGE - +").contains("hashed"));
        end(server);
    }
    db.close().unwrap();

    let place = tempfile::tempdir().unwrap();
    let db = open(place.path());
    let server = start(&db, KeyLayout::AsStored).unwrap();
    Client::connect(server.redis_addr().unwrap()).script("SET a 1 => OK");
    end(server);
    let refused = start(&db, KeyLayout::Hashed).unwrap_err();
    assert!(
        matches!(refused, Error::InOrder { keyspace: "redis" }),
        "{refused}"
    );
    assert_eq!(db.keyspaces(), ["memcached", "redis"], "nothing has changed");
    let server = start(&db, KeyLayout::AsStored).unwrap();
    Client::connect(server.redis_addr().unwrap()).script("GET a => \"1\"\nDEL a => :1");
    end(server);
    db.keyspace("memcached").unwrap().put("key", "an item").unwrap();
    let refused = start(&db, KeyLayout::Hashed).unwrap_err();
    assert!(
        matches!(
            refused,
            Error::InOrder {
                keyspace: "memcached"
            }
        ),
        "{refused}"
    );
    db.keyspace("memcached").unwrap().delete("key").unwrap();
    // A snapshot still contains the deleted record.
    drop(db.create_snapshot("kept").unwrap());
    let refused = start(&db, KeyLayout::Hashed).unwrap_err();
    assert!(
        matches!(&refused, Error::SnapshotInOrder { name } if name == "kept"),
        "{refused}"
    );
    db.remove_snapshot("kept").unwrap();
    end(start(&db, KeyLayout::Hashed).unwrap());
}

/// SCAN must return every key that exists throughout the scan, whatever happens to other keys,
/// whether or not merges move records, and whether or not each page restarts the iteration.
#[test]
fn scan_meets_all_keys_that_stay_while_others_come_and_go_and_merges_move_them() {
    for is_crowded in [false, true] {
        let fixture = fixture();
        let (mut client, mut other) = (fixture.client(), fixture.client());
        let mut random = fastrand::Rng::with_seed(7);
        for index in 0..600 {
            client.ask(&format!("SET stays:{index} v"));
            client.ask(&format!("SET gone:{index} v"));
            client.ask(&format!("SET goes:{index} v"));
            if index % 150 == 0 {
                fixture.db.checkpoint().unwrap();
            }
        }
        for index in 0..600 {
            client.ask(&format!("DEL gone:{index}"));
        }
        let mut round = 0;
        let found = scanned(&mut client, 20, || {
            round += 1;
            for _ in 0..20 {
                other.ask(&format!("DEL goes:{}", random.u32(..600)));
                other.ask(&format!("SET comes:{round} v"));
                other.ask(&format!("SET stays:{} other", random.u32(..600)));
            }
            match round % 20 {
                5 | 10 => fixture.db.checkpoint().unwrap(),
                15 => fixture.db.compact().unwrap(),
                _ => {}
            }
            if is_crowded {
                // Open more scans than the server keeps.
                (0..5).for_each(|_| drop(other.ask("SCAN 0 COUNT 1")));
            }
        });
        let distinct: BTreeSet<&String> = found.iter().collect();
        for index in 0..600 {
            assert!(distinct.contains(&format!("\"stays:{index}\"")), "{index}");
        }
        assert!(found.iter().all(|name| !name.starts_with("\"gone:")));
        assert_eq!(distinct.len(), found.len(), "no key has come twice");
        assert!(round > 30, "{round}");
    }
}

#[test]
fn scan_within_multi_meets_its_writes_and_all_that_was_there() {
    let fixture = fixture();
    let mut client = fixture.client();
    for index in 0..50 {
        client.ask(&format!("SET key:{index} v"));
    }
    fixture.db.checkpoint().unwrap();
    let page = client.ask("SCAN 0 COUNT 10");
    let (next, first) = page[1..page.len() - 1].split_once(' ').unwrap();
    let cursor = next.trim_matches('"');
    assert_ne!(cursor, "0");
    client.script("MULTI => OK\nSET own v => QUEUED\nSET key:1 other => QUEUED\nDEL key:2 => QUEUED");
    // A scan that was already open returns the earlier keys. A scan that starts now also returns
    // the new key.
    client.script(&format!(
        "SCAN {cursor} COUNT 100 => QUEUED\nSCAN 0 COUNT 100 => QUEUED\nKEYS * => QUEUED\nDBSIZE => QUEUED"
    ));
    client.script("FLUSHDB => QUEUED\nSET last v => QUEUED\nSCAN 0 COUNT 5 => QUEUED\nDBSIZE => QUEUED");
    let reply = client.ask("EXEC");
    let parts: Vec<&str> = reply.split("[\"0\" ").collect();
    let [_, rest, whole, emptied] = parts[..] else {
        panic!("three walks are over: {reply}");
    };
    for index in 0..50 {
        let name = format!("\"key:{index}\"");
        let is_there = index != 2;
        assert!(
            !is_there || first.contains(&name) || rest.contains(&name),
            "{index}"
        );
        assert_eq!(whole.matches(&name).count(), 2 * usize::from(is_there), "{index}");
    }
    assert_eq!(whole.matches("\"own\"").count(), 2);
    assert!(emptied.starts_with("[\"last\"]] :1"), "{emptied}");
    client.script("DBSIZE => :1\nKEYS * => [\"last\"]");
    client.script(
        "MULTI => OK\nFLUSHDB => QUEUED\nGET last => QUEUED\nEXISTS last => QUEUED\nEXEC => [OK nil :0]",
    );
}

#[test]
fn exec_is_one_commit_of_both_kinds_of_keyspaces() {
    let fixture = fixture();
    let mut client = fixture.client();
    client.script("SET n 0 => OK\nRPUSH l 0 => :1");
    let from = fixture.db.sequence();
    client.script("MULTI => OK\nSET n 1 => QUEUED\nRPUSH l 1 => QUEUED\nEXEC => [OK :2]");
    let sets: Vec<_> = fixture.db.changes_since(from).unwrap().collect();
    let mut kinds: Vec<BTreeSet<String>> = Vec::new();
    for set in sets {
        let named = |change| match change {
            Change::Put { keyspace, .. } => Some(keyspace),
            _ => None,
        };
        kinds.push(set.unwrap().changes.into_iter().filter_map(named).collect());
    }
    // The server may record the time in a separate commit.
    let both = ["redis".to_owned(), "redis.keys.0".to_owned()];
    let of_records: Vec<_> = kinds.iter().filter(|names| names.contains(&both[1])).collect();
    assert_eq!(of_records, [&BTreeSet::from(both)]);
}

#[test]
fn emptied_databases_stay_empty() {
    let Fixture { server, db, place } = fixture();
    let mut client = Client::connect(server.redis_addr().unwrap());
    let fill = |client: &mut Client| {
        for database in 0..3 {
            client.ask(&format!("SELECT {database}"));
            for index in 0..300 {
                client.ask(&format!("SET key:{index} v"));
            }
            client.ask("RPUSH list a b");
            db.checkpoint().unwrap();
        }
        client.ask("SET key:new v");
    };
    let sizes = |client: &mut Client| -> Vec<String> {
        let size = |database: usize, client: &mut Client| {
            client.ask(&format!("SELECT {database}"));
            assert_eq!(
                scanned(client, 7, || {}).len().to_string(),
                client.ask("DBSIZE")[1..]
            );
            client.ask("DBSIZE")
        };
        (0..3).map(|database| size(database, client)).collect()
    };
    fill(&mut client);
    assert_eq!(sizes(&mut client), [":301", ":301", ":302"]);
    client.script("SELECT 1 => OK\nWATCH key:7 => OK\nFLUSHDB => OK\nGET key:7 => nil\nLLEN list => :0");
    client.script("MULTI => OK\nPING => QUEUED\nEXEC => nil array");
    assert_eq!(sizes(&mut client), [":301", ":0", ":302"]);
    db.compact().unwrap();
    client.script("SELECT 1 => OK\nSET key:1 new => OK\nSWAPDB 1 2 => OK");
    assert_eq!(sizes(&mut client), [":301", ":302", ":1"]);
    end(server);
    db.close().unwrap();
    let db = open(place.path());
    let server = start(&db, KeyLayout::AsStored).unwrap();
    let mut client = Client::connect(server.redis_addr().unwrap());
    assert_eq!(sizes(&mut client), [":301", ":302", ":1"]);
    client.script("FLUSHALL => OK");
    assert_eq!(sizes(&mut client), [":0", ":0", ":0"]);
    assert!(client.ask("RANDOMKEY").starts_with("nil"));
}

#[test]
fn a_transaction_depends_on_keys_that_were_never_there() {
    let fixture = fixture();
    let (mut one, mut other) = (fixture.client(), fixture.client());
    // This is the first access to the database, which has never had keys.
    one.script("BEGIN => OK\nGET k => nil\nSET mine 1 => OK");
    other.script("SET k 1 => OK");
    let reply = one.ask("COMMIT");
    assert!(
        reply.starts_with("-CONFLICT another client has written to the key \"k\" since BEGIN"),
        "{reply}"
    );
    one.script("GET mine => nil\nBEGIN => OK\nKEYS * => [\"k\"]\nSET mine 1 => OK");
    assert_eq!(sorted(&one.ask("KEYS *")), ["\"k\"", "\"mine\""]);
    one.script("DBSIZE => :2");
    other.script("SET new 1 => OK");
    assert!(one.ask("COMMIT").starts_with("-CONFLICT "));
    one.script("BEGIN => OK\nDBSIZE => :2\nDEL k new => :2\nDBSIZE => :0\nCOMMIT => OK\nDBSIZE => :0");
}

/// Writes a string and a list in each MULTI until the server is gone. The string is hashed, and the
/// list's elements are stored in order. Returns the number of the first transaction without an
/// acknowledgement.
fn write_both(address: std::net::SocketAddr, from: u64) -> u64 {
    let Some(mut client) = Client::try_connect(address) else {
        return from;
    };
    for number in from.. {
        let text =
            format!("MULTI\r\nSET n {number}\r\nDEL l\r\nRPUSH l {number}\r\nHSET h f {number}\r\nEXEC\r\n");
        if !client.try_send_bytes(text.as_bytes()) || (0..6).any(|_| client.try_reply().is_none()) {
            return number;
        }
    }
    from
}

#[test]
fn multi_is_whole_across_both_kinds_of_keyspaces_after_kills() {
    let _hashed = Hashed::begin();
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let mut random = fastrand::Rng::with_seed(3);
    let mut acknowledged = 0;
    for life in 0..5 {
        let mut server = Killed::start(&store);
        let mut client = Client::connect(server.address);
        let found = client.ask("GET n").trim_matches('"').parse().unwrap_or(0);
        assert!(
            found >= acknowledged,
            "{found} after {acknowledged} in life {life}"
        );
        if found > 0 {
            client.script(&format!(
                "LRANGE l 0 -1 => [\"{found}\"]\nHGET h f => \"{found}\"\nDBSIZE => :3"
            ));
        }
        let wait = Duration::from_millis(random.u64(50..250));
        let address = server.address;
        let writer = std::thread::spawn(move || write_both(address, found + 1));
        std::thread::sleep(wait);
        server.kill();
        // The last transaction was not acknowledged, but may have taken effect.
        acknowledged = writer.join().unwrap() - 1;
    }
    assert!(acknowledged > 10, "{acknowledged}");
}

/// Commits must be atomic even if the process ends between any two of them, and readers must never
/// see part of a commit.
#[test]
fn others_see_both_kinds_change_together() {
    let Fixture { server, db, place } = fixture();
    let mut client = Client::connect(server.redis_addr().unwrap());
    client.script("MULTI => OK\nSET n 0 => QUEUED\nRPUSH l 0 => QUEUED\nEXEC => [OK :1]");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut reader = Client::connect(server.redis_addr().unwrap());
            while !is_over.load(Ordering::Relaxed) {
                reader.script("MULTI => OK\nGET n => QUEUED\nLINDEX l -1 => QUEUED");
                let reply = reader.ask("EXEC");
                let (one, two) = reply[1..reply.len() - 1].split_once(' ').unwrap();
                assert_eq!(one, two);
            }
        });
        for number in 1..400 {
            client.script(&format!(
                "MULTI => OK\nSET n {number} => QUEUED\nRPUSH l {number} => QUEUED"
            ));
            client.ask("EXEC");
            if number % 100 == 0 {
                db.checkpoint().unwrap();
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    end(server);
    db.abandon();
    drop(db);
    let db = open(place.path());
    let server = start(&db, KeyLayout::AsStored).unwrap();
    Client::connect(server.redis_addr().unwrap())
        .script("GET n => \"399\"\nLINDEX l -1 => \"399\"\nLLEN l => :400");
}

#[test]
fn keys_are_drawn_from_all_and_counted() {
    let fixture = fixture();
    let mut client = fixture.client();
    for index in 0..1_500 {
        client.ask(&format!(
            "SET key:{index} v{}",
            if index % 2 == 0 { " EX 1000" } else { "" }
        ));
        if index == 700 {
            fixture.db.checkpoint().unwrap();
        }
    }
    let drawn: BTreeSet<String> = (0..60).map(|_| client.ask("RANDOMKEY")).collect();
    assert!(drawn.len() > 40, "{drawn:?}");
    let info = client.ask("INFO keyspace");
    let part = |name: &str| -> u64 {
        let at = info.find(name).unwrap() + name.len();
        let digits = info[at..].chars().take_while(char::is_ascii_digit);
        digits.collect::<String>().parse().unwrap()
    };
    assert!((1_400..=1_600).contains(&part("keys=")), "{info}");
    assert!((550..=950).contains(&part("expires=")), "{info}");
    client.script("DBSIZE => :1500\nSELECT 5 => OK\nDBSIZE => :0\nRANDOMKEY => nil");
    client.script("SCAN 0 => [\"0\" []]\nKEYS * => []\nFLUSHDB => OK\nSET a 1 PX 1 => OK");
    std::thread::sleep(Duration::from_millis(5));
    client.script("GET a => nil\nDBSIZE => :0\nEXISTS a => :0\nSCAN 0 => [\"0\" []]");
}
