//! Commands for tools, such as INFO, MONITOR, CLIENT, LATENCY, MEMORY and SHUTDOWN.

use crate::client::{Client, Fixture, options, sorted};
use alluvium_server::ServerOptions;
use std::collections::BTreeMap;
use std::time::Duration;

/// Returns the fields of INFO by name.
fn info(client: &mut Client, sections: &str) -> BTreeMap<String, String> {
    let text = client.ask(format!("INFO {sections}").trim_end());
    let text = text.trim_matches('"').replace("\\r\\n", "\n");
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn number(lines: &BTreeMap<String, String>, name: &str) -> f64 {
    let value = lines.get(name).unwrap_or_else(|| panic!("INFO has no {name}"));
    value.parse().unwrap_or_else(|_| panic!("{name} is {value}"))
}

#[test]
fn info_has_what_exporters_and_frameworks_ask_for() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.script(
        r#"
        SET a 1 => OK
        SET b 1 EX 1000 => OK
        GET a => "1"
        GET none => nil
        GET b => "1"
        "#,
    );
    let lines = info(&mut client, "");
    for name in [
        "run_id",
        "os",
        "uptime_in_seconds",
        "maxclients",
        "used_memory_human",
        "used_memory_peak_perc",
        "maxmemory_policy",
        "rdb_last_bgsave_status",
        "aof_last_write_status",
        "instantaneous_ops_per_sec",
        "evicted_keys",
        "expired_keys",
        "master_replid",
        "used_cpu_user",
        "used_cpu_sys",
        "cluster_enabled",
    ] {
        assert!(lines.contains_key(name), "INFO has no {name}");
    }
    assert_eq!(lines["role"], "master");
    assert_eq!(lines["connected_slaves"], "0");
    assert_eq!(lines["connected_clients"], "1");
    assert_eq!(lines["run_id"].len(), 40);
    assert_eq!(number(&lines, "keyspace_hits"), 2.0);
    assert_eq!(number(&lines, "keyspace_misses"), 1.0);
    assert!(
        lines["db0"].starts_with("keys=2,expires=1,avg_ttl="),
        "{}",
        lines["db0"]
    );
    let left: u64 = lines["db0"].rsplit('=').next().unwrap().parse().unwrap();
    assert!((900_000..=1_000_000).contains(&left), "{left}");
    // `used_memory` is the memory in use, not the limit.
    let (used, most) = (number(&lines, "used_memory"), number(&lines, "maxmemory"));
    assert!(used > 0.0 && used < most / 2.0, "{used} of {most}");
    assert!(number(&lines, "used_memory_rss") > 0.0);
    assert!(!lines.contains_key("cmdstat_get"), "only when asked for");
    let cpu = info(&mut client, "CPU");
    assert!(cpu.contains_key("used_cpu_user") && !cpu.contains_key("used_memory"));
}

#[test]
fn commands_are_counted_with_what_became_of_them() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.script(
        r#"
        CONFIG RESETSTAT => OK
        SET a word => OK
        SET b 2 => OK
        INCR a => -ERR value is not an integer or out of range
        GET => -ERR wrong number of arguments for 'get' command
        LPUSH a 1 => -WRONGTYPE Operation against a key holding the wrong kind of value
        NOSUCH => -ERR unknown command 'NOSUCH', with args beginning with:
        MULTI => OK
        GET a => QUEUED
        EXEC => ["word"]
        CONFIG GET nothing => []
        "#,
    );
    let lines = info(&mut client, "commandstats errorstats latencystats stats");
    assert!(
        lines["cmdstat_set"].starts_with("calls=2,usec="),
        "{}",
        lines["cmdstat_set"]
    );
    assert!(lines["cmdstat_incr"].ends_with("rejected_calls=0,failed_calls=1"));
    assert!(
        lines["cmdstat_get"].starts_with("calls=1,") && lines["cmdstat_get"].contains("rejected_calls=1")
    );
    assert!(lines.contains_key("cmdstat_config|get"), "{lines:?}");
    assert_eq!(lines["errorstat_ERR"], "count=3");
    assert_eq!(lines["errorstat_WRONGTYPE"], "count=1");
    assert_eq!(lines["total_error_replies"], "4");
    assert!(lines["latency_percentiles_usec_set"].starts_with("p50="));
    let histogram = client.ask("LATENCY HISTOGRAM set config");
    assert!(
        histogram.starts_with("[\"set\" [\"calls\" :2 \"histogram_usec\" ["),
        "{histogram}"
    );
    assert!(histogram.contains("config|get"), "{histogram}");
    client.script("CONFIG RESETSTAT => OK");
    let lines = info(&mut client, "commandstats errorstats");
    assert!(!lines.contains_key("cmdstat_set") && !lines.contains_key("errorstat_ERR"));
}

#[test]
fn keys_whose_time_has_come_are_counted() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.script("SET a 1 PX 1 => OK\nSET b 1 EX 1000 => OK");
    let expired = |client: &mut Client| number(&info(client, "stats"), "expired_keys");
    for _ in 0..600 {
        if expired(&mut client) > 0.0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(expired(&mut client), 1.0);
}

#[test]
fn monitor_shows_commands_without_their_secrets() {
    let fixture = Fixture::new();
    let (mut watcher, mut client) = (fixture.client(), fixture.client());
    client.script("SELECT 9 => OK");
    watcher.script("MONITOR => OK");
    client.script(
        r#"
        SET foo bar => OK
        MULTI => OK
        GET foo => QUEUED
        EXEC => ["bar"]
        CONFIG SET slowlog-max-len 10 => OK
        "#,
    );
    client.ask("AUTH secret");
    client.ask("HELLO 2 AUTH me secret");
    client.ask("PING");
    for expected in [
        "\"SET\" \"foo\" \"bar\"",
        "\"MULTI\"",
        "\"GET\" \"foo\"",
        "\"EXEC\"",
        "\"AUTH\" \"(redacted)\"",
        "\"HELLO\" \"2\" \"AUTH\" \"(redacted)\" \"(redacted)\"",
        "\"PING\"",
    ] {
        let line = watcher.reply();
        assert!(
            line.contains(" [9 127.0.0.1:") && line.ends_with(expected),
            "{line}"
        );
    }
    let list = client.ask("CLIENT LIST");
    assert!(list.contains("flags=O"), "{list}");
    client.script("ECHO last => \"last\"");
    watcher.send(&[b"RESET"]);
    let line = watcher.reply();
    assert!(line.ends_with("\"ECHO\" \"last\""), "{line}");
    assert_eq!(watcher.reply(), "RESET");
    client.script("PING => PONG");
    watcher.script("PING => PONG");
}

#[test]
fn a_monitor_that_takes_nothing_is_ended() {
    let fixture = Fixture::new();
    let (mut watcher, mut client) = (fixture.client(), fixture.client());
    watcher.script("MONITOR => OK");
    let long = vec![b'x'; 256 << 10];
    // Socket buffers absorb a few megabytes, but not the 500 MiB of MONITOR output that these
    // commands would cause.
    for _ in 0..2000 {
        client.send(&[b"ECHO", &long]);
        client.reply();
        if !client.ask("CLIENT LIST").contains("flags=O") {
            return;
        }
    }
    panic!("a connection that takes nothing still watches");
}

#[test]
fn connections_are_listed_and_ended_by_all_filters() {
    let fixture = Fixture::new();
    let (mut client, mut other) = (fixture.client(), fixture.client());
    other.script("PING => PONG\nCLIENT SETNAME other => OK");
    let line = client.ask("CLIENT INFO");
    for field in [
        "fd=",
        "sub=0",
        "qbuf=26",
        "multi=-1",
        "omem=0",
        "tot-mem=",
        "events=r",
        "cmd=client|info",
        "redir=-1",
    ] {
        assert!(line.contains(field), "{field} in {line}");
    }
    let id = other.ask("CLIENT ID")[1..].to_owned();
    assert!(
        client
            .ask(&format!("CLIENT LIST ID {id} 999"))
            .contains("name=other")
    );
    assert_eq!(client.ask("CLIENT LIST TYPE pubsub"), "\"\"");
    client.script(
        r#"
        CLIENT LIST TYPE x => -ERR Unknown client type 'x'
        CLIENT LIST ID x => -ERR Invalid client ID
        CLIENT KILL ID 0 => -ERR client-id should be greater than 0
        CLIENT KILL ID 10 WRONG => -ERR syntax error
        CLIENT KILL TYPE x => -ERR Unknown client type 'x'
        CLIENT KILL USER x => -ERR No such user 'x'
        CLIENT KILL SKIPME maybe => -ERR syntax error
        CLIENT KILL 1.2.3.4:5 => -ERR No such client
        CLIENT KILL TYPE pubsub => :0
        CLIENT KILL ADDR 1.2.3.4:5 => :0
        CLIENT KILL TYPE normal LADDR 1.2.3.4:5 => :0
        CLIENT GETREDIR => :-1
        CLIENT TRACKINGINFO => ["flags" ["off"] "redirect" :-1 "prefixes" []]
        CLIENT TRACKING OFF => OK
        CLIENT UNBLOCK 1 => :0
        CLIENT UNBLOCK 1 x => -ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR
        CLIENT SETINFO LIB-NAME tests => OK
        CLIENT SETINFO other tests => -ERR Unrecognized option 'other'
        CLIENT NO-TOUCH ON => OK
        CLIENT PAUSE x => -ERR timeout is not an integer or out of range
        CLIENT PAUSE -1 => -ERR timeout is negative
        CLIENT PAUSE 1 x => -ERR CLIENT PAUSE mode must be WRITE or ALL
        "#,
    );
    assert!(client.ask("CLIENT INFO").contains("lib-name=tests"));
    assert_eq!(client.ask("CLIENT KILL TYPE normal"), ":1");
    assert_eq!(other.try_reply(), None);
    client.send_bytes(b"CLIENT REPLY SKIP\r\nCLIENT REPLY ON\r\n");
    assert_eq!(client.reply(), "OK");
    assert_eq!(client.ask("CLIENT KILL SKIPME no"), ":1");
    assert_eq!(client.try_reply(), None);
}

#[test]
fn a_pause_holds_writes_or_everything_until_it_is_ended() {
    let fixture = Fixture::new();
    let (mut client, mut other) = (fixture.client(), fixture.client());
    client.script("CLIENT PAUSE 100000 WRITE => OK\nGET a => nil");
    other.send_bytes(b"SET a 1\r\nGET a\r\n");
    client.script("GET a => nil\nCLIENT UNPAUSE => OK");
    assert_eq!((other.reply().as_str(), other.reply().as_str()), ("OK", "\"1\""));
    client.script("CLIENT PAUSE 100000 => OK");
    other.send_bytes(b"PING\r\n");
    client.script("CLIENT UNPAUSE => OK");
    assert_eq!(other.reply(), "PONG");
    // Without CLIENT UNPAUSE, a pause ends when its time is over.
    client.script("CLIENT PAUSE 5 => OK\nPING => PONG");
    client.script("CLIENT PAUSE 100000 => OK");
    other.send_bytes(b"SET a 2\r\n");
    fixture.server.stop();
    fixture.server.join().unwrap();
}

#[test]
fn small_commands_answer_as_tools_expect() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.script(
        r#"
        WAIT 0 0 => :0
        WAIT 1 -1 => -ERR timeout is negative
        MODULE LIST => []
        MEMORY USAGE none => nil
        MEMORY PURGE => OK
        OBJECT IDLETIME none => nil
        LATENCY RESET => :0
        LATENCY LATEST => []
        LATENCY HISTORY command => []
        LATENCY GRAPH command => -ERR No samples available for event 'command'
        SLOWLOG GET -2 => -ERR count should be greater than or equal to -1
        COMMAND LIST FILTERBY PATTERN zran* => ["zrandmember" "zrange" "zrangebylex" "zrangebyscore" "zrangestore" "zrank"]
        COMMAND LIST FILTERBY PATTERN config|g* => ["config|get"]
        COMMAND LIST FILTERBY MODULE x => []
        COMMAND LIST FILTERBY ACLCAT nothing => []
        COMMAND LIST FILTERBY x y => -ERR syntax error
        COMMAND GETKEYS ZUNION 2 a b => ["a" "b"]
        COMMAND GETKEYS MEMORY USAGE a => ["a"]
        COMMAND GETKEYSANDFLAGS SET a 1 => [["a" [OW update]]]
        COMMAND GETKEYS PING x => -ERR The command has no key arguments
        SHUTDOWN NOW ABORT => -ERR syntax error
        SHUTDOWN ABORT => -ERR No shutdown in progress.
        MULTI => OK
        SAVE => -ERR Command not allowed inside a transaction
        SHUTDOWN => -ERR Command not allowed inside a transaction
        EXEC => -EXECABORT Transaction discarded because of previous errors.
        RPUSH l aaaa bbbb cccc => :3
        "#,
    );
    assert!(client.ask("ROLE").starts_with("[\"master\" :"));
    assert!(client.ask("LOLWUT").contains("Redis ver. 7.0.15"));
    assert!(client.ask("MEMORY DOCTOR").contains("The store uses"));
    assert!(client.ask("MEMORY STATS").contains("\"peak.allocated\" :"));
    assert!(client.ask("LATENCY DOCTOR").contains("latency-monitor-threshold"));
    assert!(sorted(&client.ask("COMMAND LIST FILTERBY ACLCAT hash")).contains(&"\"hget\"".to_owned()));
    let bytes = |reply: String| reply[1..].parse::<u64>().unwrap();
    let some = bytes(client.ask("MEMORY USAGE l"));
    let all = bytes(client.ask("MEMORY USAGE l SAMPLES 0"));
    assert_eq!(some, all, "elements are alike");
    assert!((12..1000).contains(&all), "{all}");
    let info = client.ask("COMMAND INFO config|get nosuch");
    assert!(info.starts_with("[[\"config|get\" :-3"), "{info}");
}

#[test]
fn what_takes_long_is_noted_whatever_the_command() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.script(
        r#"
        CONFIG SET latency-monitor-threshold 1 => OK
        CONFIG SET slowlog-log-slower-than 0 => OK
        SLOWLOG RESET => OK
        DEBUG SLEEP 0.005 => OK
        PING => PONG
        AUTH secret => -ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?
        CONFIG SET slowlog-log-slower-than -1 => OK
        "#,
    );
    let log = client.ask("SLOWLOG GET -1");
    for expected in ["\"SLEEP\"", "\"PING\"", "\"AUTH\" \"(redacted)\"", "\"RESET\""] {
        assert!(log.contains(expected), "{expected} in {log}");
    }
    assert!(!log.contains("secret"), "{log}");
    let latest = client.ask("LATENCY LATEST");
    assert!(latest.starts_with("[[\"command\" :"), "{latest}");
    assert!(client.ask("LATENCY GRAPH command").contains('#'));
    assert!(client.ask("LATENCY DOCTOR").contains("command: "));
    client.script("LATENCY RESET command none => :1");
}

#[test]
fn shutdown_ends_the_server_and_keeps_what_was_written() {
    let fixture = Fixture::with(ServerOptions {
        grace: Duration::from_millis(200),
        ..options()
    });
    let mut client = fixture.client();
    client.script("SET a 1 => OK\nSHUTDOWN SAVE NOSAVE => -ERR syntax error");
    client.send(&[b"SHUTDOWN", b"SAVE"]);
    assert_eq!(client.try_reply(), None);
    fixture.server.join().unwrap();
    let data = fixture.db.keyspace("redis").unwrap();
    assert!(data.range::<&[u8]>(..).count() >= 1);
    assert!(fixture.db.stats().checkpoints >= 1);
}

#[test]
fn answers_that_were_not_those_of_redis_are_now() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.script(
        r#"
        HSET h f 1 => :1
        HINCRBYFLOAT h f inf => -ERR value is NaN or Infinity
        HINCRBYFLOAT h f nan => -ERR value is not a valid float
        SET n 1 => OK
        INCRBYFLOAT n inf => -ERR increment would produce NaN or Infinity
        ZADD z 1e400 a => -ERR value is not a valid float
        ZADD z 0 a 123456789012345680 b 1.5 c => :3
        ZRANGEBYSCORE z  inf => ["a" "c" "b"]
        ZCOUNT z -1e400 1e400 => :3
        ZRANGE z 0 1 BYSCORE BYLEX => -ERR syntax error
        ZRANGE z 0 1 LIMIT 0 -1 => ["a" "c"]
        SSCAN none 0 WRONG => ["0" []]
        SSCAN h 0 WRONG => -WRONGTYPE Operation against a key holding the wrong kind of value
        HSCAN h 0 WRONG => -ERR syntax error
        ZSCAN none x => -ERR invalid cursor
        "#,
    );
    let scanned = client.ask("ZSCAN z 0");
    assert!(
        scanned.contains("\"123456789012345680\"") && scanned.contains("\"1.5\""),
        "{scanned}"
    );
}

#[test]
fn what_the_log_writes_is_counted_as_written() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let value = vec![b'x'; 64 << 10];
    for number in 0..16 {
        client.send(&[b"SET", format!("key{number}").as_bytes(), &value]);
        assert_eq!(client.reply(), "OK");
    }
    fixture.db.sync().unwrap();
    let stats = fixture.db.stats();
    let logged = stats.device.of(alluvium::Purpose::Log).written_bytes;
    assert!(logged >= 16 * value.len() as u64, "{logged}");
    assert!(stats.write_amplification().unwrap() >= 1.0);
    let free = fixture.db.disk_space().unwrap();
    assert!(free.free_bytes > 0 && free.free_bytes <= free.total_bytes);
}
