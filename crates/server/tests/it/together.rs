//! Counters, displays and limits while replies are sent in parts, wait for memory, or are delayed.

use crate::client::{Client, Fixture, options};
use alluvium_server::{ServerOptions, UserFile};
use std::io;
use std::sync::Arc;

const MIB: usize = 1 << 20;

/// Returns the value of an INFO field.
fn line(client: &mut Client, section: &str, name: &str) -> String {
    let text = client.ask(&format!("INFO {section}")).replace("\\r\\n", "\n");
    let found = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.unwrap_or_else(|| panic!("{name} in {text}")).to_owned()
}

fn set(client: &mut Client, key: &[u8], length: usize) {
    client.send(&[b"SET", key, &vec![b'v'; length]]);
    assert_eq!(client.reply(), "OK");
}

#[test]
fn commands_of_a_batch_that_is_cut_are_counted_and_shown_once() {
    let fixture = Fixture::bounded(16 * MIB);
    let (mut client, mut watcher) = (fixture.client(), fixture.client());
    set(&mut client, b"k", MIB);
    client.script("CONFIG RESETSTAT => OK\nCONFIG SET slowlog-log-slower-than 0 => OK");
    watcher.script("MONITOR => OK");
    client.send_bytes(&b"GET k\r\n".repeat(60));
    for _ in 0..60 {
        assert_eq!(client.reply().len(), MIB + 2);
    }
    client.script("ECHO end => \"end\"");
    let mut shown = 0;
    loop {
        let line = watcher.reply();
        if line.contains("\"ECHO\"") {
            break;
        }
        shown += usize::from(line.contains("\"GET\" \"k\""));
    }
    assert_eq!(shown, 60);
    let counted = line(&mut client, "commandstats", "cmdstat_get");
    assert!(counted.starts_with("calls=60,"), "{counted}");
    assert_eq!(line(&mut client, "stats", "keyspace_hits"), "60");
}

#[test]
fn what_comes_behind_a_long_reply_is_counted_once_and_monitors_get_whole_replies() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let mut other = fixture.client();
    let members: Vec<String> = (0..20_000).map(|number| format!("member{number:010}")).collect();
    client.ask(&format!("SADD s {}", members.join(" ")));
    client.script("CONFIG RESETSTAT => OK\nMONITOR => OK");
    client.send_bytes(&b"SMEMBERS s\r\nSCARD s\r\n".repeat(5));
    for _ in 0..50 {
        other.script("ECHO now => \"now\"");
    }
    let mut replies = Vec::new();
    while replies.len() < 10 {
        let reply = client.reply();
        // MONITOR output must appear between replies, never within one.
        if !reply.contains("[0 ") {
            replies.push(reply);
        }
    }
    for pair in replies.chunks(2) {
        assert_eq!(pair[0].matches("member").count(), 20_000);
        assert_eq!(pair[1], ":20000");
    }
    let counted = line(&mut other, "commandstats", "cmdstat_smembers");
    assert!(counted.starts_with("calls=5,"), "{counted}");
    let counted = line(&mut other, "commandstats", "cmdstat_scard");
    assert!(counted.starts_with("calls=5,"), "{counted}");
}

#[test]
fn a_reply_that_is_refused_for_want_of_room_is_a_failure() {
    let fixture = Fixture::bounded(8 * MIB);
    let mut client = fixture.client();
    set(&mut client, b"k", 3 * MIB);
    client.script("CONFIG RESETSTAT => OK");
    client.send(&[b"MGET", b"k", b"k", b"k", b"k"]);
    assert!(client.reply().starts_with("-OOM the reply"));
    let counted = line(&mut client, "commandstats", "cmdstat_mget");
    assert!(counted.starts_with("calls=1,"), "{counted}");
    assert!(counted.ends_with("failed_calls=1"), "{counted}");
    assert_eq!(line(&mut client, "errorstats", "errorstat_OOM"), "count=1");
}

/// Users that no file stores.
#[derive(Debug)]
struct Users;

impl UserFile for Users {
    fn place(&self) -> String {
        "users.acl".to_owned()
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        Ok(b"user one on >secret allkeys allcommands\nuser two on >secret allkeys +get +ping".to_vec())
    }

    fn write(&self, _text: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn connections_of_a_user_are_killed_and_passwords_are_not_shown() {
    let fixture = Fixture::with(ServerOptions {
        users: Some(Arc::new(Users)),
        ..options()
    });
    let (mut client, mut watcher) = (fixture.client(), fixture.client());
    client.script("CONFIG SET slowlog-log-slower-than 0 => OK");
    watcher.script("MONITOR => OK");
    let (mut one, mut two) = (fixture.client(), fixture.client());
    one.script("AUTH one secret => OK");
    two.script(
        "AUTH two secret => OK
         MONITOR => -NOPERM this user has no permissions to run the 'monitor' command
         SLOWLOG GET => -NOPERM this user has no permissions to run the 'slowlog|get' command",
    );
    // If a command contains several passwords or credentials, the last ones apply.
    one.ask("HELLO 2 AUTH two secret AUTH one secret");
    client.script("CONFIG SET requirepass secret1 requirepass secret2 => OK");
    client.script("ACL SETUSER three on >secret => OK\nECHO end => \"end\"");
    let mut shown = String::new();
    while !shown.contains("\"ECHO\"") {
        shown += &watcher.reply();
    }
    assert!(shown.contains("\"AUTH\" \"(redacted)\""), "{shown}");
    assert!(!shown.contains("secret"), "{shown}");
    let slow = client.ask("SLOWLOG GET -1");
    assert!(slow.contains("AUTH") && slow.contains("requirepass"), "{slow}");
    assert!(!slow.contains("secret"), "{slow}");
    assert!(client.ask("CLIENT LIST").contains("user=one"));
    client.script("CLIENT KILL USER one => :1");
    assert!(!client.ask("CLIENT LIST").contains("user=one"));
    assert!(one.try_reply().is_none());
    two.script("PING => PONG");
    // The reply to a wrong password is delayed, but the command is counted only once.
    client.script("CONFIG RESETSTAT => OK");
    for _ in 0..2 {
        let wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
        fixture.client().script(&format!("AUTH one wrong => {wrong}"));
    }
    let counted = line(&mut client, "commandstats", "cmdstat_auth");
    assert!(counted.starts_with("calls=2,"), "{counted}");
    assert!(counted.ends_with("failed_calls=2"), "{counted}");
}

#[test]
fn large_sets_that_are_made_of_others_have_their_ranks() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let add = |client: &mut Client, key: &str, from: usize, to: usize| {
        let members: Vec<String> = (from..to).map(|number| format!("{number} m{number}")).collect();
        client.ask(&format!("ZADD {key} {}", members.join(" ")));
    };
    add(&mut client, "a", 0, 20_000);
    add(&mut client, "b", 10_000, 30_000);
    client.script(
        r#"
        ZUNIONSTORE union 2 a b AGGREGATE MAX => :30000
        ZRANK union m29999 => :29999
        ZREVRANK union m29999 => :0
        ZRANGE union 12345 12346 WITHSCORES => ["m12345" "12345" "m12346" "12346"]
        ZREM union m5 => :1
        ZRANK union m12345 => :12344
        ZINTERSTORE both 2 a b => :10000
        ZRANK both m15000 => :5000
        ZSCORE both m15000 => "30000"
        ZDIFFSTORE left 2 a b => :10000
        ZRANK left m9999 => :9999
        ZRANGESTORE range a 19000 5000 BYSCORE REV => :14001
        ZRANK range m5001 => :1
        ZREVRANK range m19000 => :0
        ZRANGESTORE a a 0 9999 => :10000
        ZRANK a m9999 => :9999
        ZINTERCARD 2 union b => :20000
        ZINTERCARD 2 union b LIMIT 7 => :7
        ZUNIONSTORE b 2 b b => :20000
        ZSCORE b m10000 => "20000"
        ZMPOP 1 b MAX => ["b" [["m29999" "59998"]]]
        ZRANK b m29998 => :19998
        ZCARD b => :19999
        "#,
    );
}

#[test]
fn a_pause_holds_what_waits_behind_pages() {
    let fixture = Fixture::bounded(16 * MIB);
    let (mut client, mut other) = (fixture.client(), fixture.client());
    set(&mut client, b"k", MIB);
    other.script("CLIENT PAUSE 100000 WRITE => OK");
    client.send_bytes(&b"GET k\r\nGET k\r\nSET a 1\r\nGET k\r\nGET a\r\n"[..]);
    for _ in 0..2 {
        assert_eq!(client.reply().len(), MIB + 2);
    }
    other.script("GET a => nil\nCLIENT UNPAUSE => OK");
    assert_eq!(client.reply(), "OK");
    assert_eq!(client.reply().len(), MIB + 2);
    assert_eq!(client.reply(), "\"1\"");
}
