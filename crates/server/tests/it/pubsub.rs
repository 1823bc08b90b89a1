//! Messages on channels, and keyspace events.

use crate::client::{Client, Fixture, request, sorted};
use crate::differential::start_redis;
use std::time::{Duration, Instant};

#[test]
fn subscribers_receive_what_others_publish() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    assert_eq!(one.ask("SUBSCRIBE a b"), "[\"subscribe\" \"a\" :1]");
    assert_eq!(one.reply(), "[\"subscribe\" \"b\" :2]");
    assert_eq!(one.ask("PSUBSCRIBE a*"), "[\"psubscribe\" \"a*\" :3]");
    assert_eq!(one.ask("SSUBSCRIBE a"), "[\"ssubscribe\" \"a\" :1]");
    assert_eq!(one.ask("SUBSCRIBE a"), "[\"subscribe\" \"a\" :3]");
    two.script(
        r#"
        PUBLISH a hello => :2
        PUBLISH ax world => :1
        SPUBLISH a shard => :1
        PUBLISH none x => :0
        PUBSUB CHANNELS b* => ["b"]
        PUBSUB NUMSUB a b none => ["a" :1 "b" :1 "none" :0]
        PUBSUB NUMPAT => :1
        PUBSUB SHARDCHANNELS => ["a"]
        PUBSUB SHARDNUMSUB a b => ["a" :1 "b" :0]
        PUBSUB NOSUCH => -ERR unknown subcommand 'NOSUCH'. Try PUBSUB HELP.
        PUBLISH a => -ERR wrong number of arguments for 'publish' command
        "#,
    );
    assert_eq!(sorted(&two.ask("PUBSUB CHANNELS")), ["\"a\"", "\"b\""]);
    assert_eq!(one.reply(), "[\"message\" \"a\" \"hello\"]");
    assert_eq!(one.reply(), "[\"pmessage\" \"a*\" \"a\" \"hello\"]");
    assert_eq!(one.reply(), "[\"pmessage\" \"a*\" \"ax\" \"world\"]");
    assert_eq!(one.reply(), "[\"smessage\" \"a\" \"shard\"]");
    one.script(
        r#"
        GET k => -ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context
        PING => ["pong" ""]
        PING x => ["pong" "x"]
        UNSUBSCRIBE b => ["unsubscribe" "b" :2]
        UNSUBSCRIBE none => ["unsubscribe" "none" :2]
        UNSUBSCRIBE => ["unsubscribe" "a" :1]
        PUNSUBSCRIBE => ["punsubscribe" "a*" :0]
        SUNSUBSCRIBE => ["sunsubscribe" "a" :0]
        SUNSUBSCRIBE => ["sunsubscribe" nil :0]
        UNSUBSCRIBE => ["unsubscribe" nil :0]
        PING => PONG
        "#,
    );
    two.script("PUBLISH a x => :0\nPUBSUB CHANNELS => []\nPUBSUB NUMPAT => :0");
    assert_eq!(one.ask("SUBSCRIBE a"), "[\"subscribe\" \"a\" :1]");
    let listed = two.ask("CLIENT LIST TYPE pubsub");
    assert!(
        listed.contains("flags=P") && listed.contains("sub=1 psub=0"),
        "{listed}"
    );
    assert!(two.ask("INFO clients").contains("pubsub_clients:1"));
    assert!(two.ask("INFO stats").contains("pubsub_channels:1"));
    one.script("RESET => RESET\nPING => PONG");
    two.script("PUBLISH a x => :0");
    let _ = one.ask("SUBSCRIBE a");
    drop(one);
    let limit = Instant::now() + Duration::from_secs(30);
    while two.ask("PUBLISH a x") != ":0" {
        assert!(Instant::now() < limit);
    }
}

#[test]
fn version_three_has_pushes_between_replies() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    let _ = one.ask("HELLO 3");
    assert_eq!(one.ask("SUBSCRIBE a"), ">[\"subscribe\" \"a\" :1]");
    one.script("SET k 1 => OK\nGET k => \"1\"\nPUBLISH a own => :1");
    assert_eq!(one.reply(), ">[\"message\" \"a\" \"own\"]");
    two.script("PUBLISH a other => :1");
    assert_eq!(one.reply(), ">[\"message\" \"a\" \"other\"]");
    // A client that waits for an element receives messages meanwhile.
    one.send(&[b"BLPOP", b"q", b"0"]);
    while !two.ask("INFO clients").contains("blocked_clients:1") {}
    two.script("PUBLISH a now => :1\nRPUSH q x => :1");
    assert_eq!(one.reply(), ">[\"message\" \"a\" \"now\"]");
    assert_eq!(one.reply(), "[\"q\" \"x\"]");
    assert_eq!(one.ask("UNSUBSCRIBE"), ">[\"unsubscribe\" \"a\" :0]");
}

#[test]
fn a_message_of_a_transaction_is_sent_when_it_commits() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    let _ = one.ask("SUBSCRIBE a");
    two.script(
        r#"
        MULTI => OK
        PUBLISH a multi => QUEUED
        SET k 1 => QUEUED
        DISCARD => OK
        MULTI => OK
        PUBLISH a multi => QUEUED
        SET k 1 => QUEUED
        EXEC => [:1 OK]
        BEGIN => OK
        PUBLISH a aborted => :1
        ABORT => OK
        BEGIN => OK
        PUBLISH a begin => :1
        PUBLISH a twice => :1
        COMMIT => OK
        BEGIN => OK
        PUBLISH later before => :0
        "#,
    );
    let mut late = fixture.client();
    let _ = late.ask("SUBSCRIBE later");
    two.script(
        r#"
        COMMIT => OK
        BEGIN => OK
        GET k => "1"
        SET k 2 => OK
        PUBLISH a conflict => :1
        "#,
    );
    fixture.client().script("SET k 3 => OK");
    assert!(two.ask("COMMIT").starts_with("-CONFLICT"));
    assert_eq!(late.reply(), "[\"message\" \"later\" \"before\"]");
    two.script("PUBLISH a last => :1");
    for text in ["multi", "begin", "twice", "last"] {
        assert_eq!(one.reply(), format!("[\"message\" \"a\" \"{text}\"]"));
    }
}

#[test]
fn every_subscriber_receives_all_messages_in_order() {
    let fixture = Fixture::new();
    let mut subscribers: Vec<Client> = (0..50).map(|_| fixture.client()).collect();
    for (index, subscriber) in subscribers.iter_mut().enumerate() {
        let _ = match index % 2 {
            0 => subscriber.ask("SUBSCRIBE a"),
            _ => subscriber.ask("PSUBSCRIBE ?"),
        };
    }
    let mut publisher = fixture.client();
    for number in 0..2000 {
        publisher.send_bytes(&request(&[b"PUBLISH", b"a", number.to_string().as_bytes()]));
    }
    for _ in 0..2000 {
        assert_eq!(publisher.reply(), ":50");
    }
    for (index, subscriber) in subscribers.iter_mut().enumerate() {
        for number in 0..2000 {
            let expected = match index % 2 {
                0 => format!("[\"message\" \"a\" \"{number}\"]"),
                _ => format!("[\"pmessage\" \"?\" \"a\" \"{number}\"]"),
            };
            assert_eq!(subscriber.reply(), expected);
        }
    }
}

#[test]
fn subscribers_that_do_not_read_are_closed_and_the_others_receive_everything() {
    let fixture = Fixture::bounded(8 << 20);
    let mut reading = fixture.client();
    let _ = reading.ask("SUBSCRIBE a");
    let mut stuck: Vec<Client> = (0..20).map(|_| fixture.client()).collect();
    for client in &mut stuck {
        let _ = client.ask("SUBSCRIBE a");
    }
    let mut publisher = fixture.client();
    let text = vec![b'x'; 64 << 10];
    for _ in 0..1500 {
        publisher.send(&[b"PUBLISH", b"a", &text]);
        assert!(publisher.reply().starts_with(':'));
        assert!(reading.reply().len() > text.len());
    }
    assert_eq!(publisher.ask("PUBSUB NUMSUB a"), "[\"a\" :1]");
}

#[test]
fn a_channel_outside_the_rules_of_a_user_is_refused() {
    let fixture = Fixture::new();
    let mut admin = fixture.client();
    admin.script("ACL SETUSER u on >p ~* +@all resetchannels &news* => OK");
    let mut client = fixture.client();
    client.script(
        r#"
        AUTH u p => OK
        SUBSCRIBE other => -NOPERM this user has no permissions to access one of the channels used as arguments
        PSUBSCRIBE * => -NOPERM this user has no permissions to access one of the channels used as arguments
        PUBLISH other x => -NOPERM this user has no permissions to access one of the channels used as arguments
        PUBLISH news1 x => :0
        PSUBSCRIBE news* => ["psubscribe" "news*" :1]
        SUBSCRIBE news1 => ["subscribe" "news1" :2]
        "#,
    );
    assert!(admin.ask("ACL LOG").contains("\"channel\""));
    let why = admin.ask("ACL DRYRUN u PUBLISH other x");
    assert!(why.contains("no permissions to access the"), "{why}");
    // Rules that forbid what a client has subscribed to end its connection.
    admin.script("ACL SETUSER u resetchannels &other => OK");
    assert_eq!(client.try_reply(), None);
}

#[test]
fn settings_choose_the_limits_of_inboxes_and_the_events() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let name = "client-output-buffer-limit";
    let shown = client.ask(&format!("CONFIG GET {name}"));
    assert!(shown.contains("pubsub 33554432 8388608 60"), "{shown}");
    client.send(&[
        b"CONFIG",
        b"SET",
        name.as_bytes(),
        b"pubsub 1mb 0 0 replica 0 0 0",
    ]);
    assert_eq!(client.reply(), "OK");
    assert!(
        client
            .ask(&format!("CONFIG GET {name}"))
            .contains("pubsub 1048576 0 0")
    );
    client.send(&[b"CONFIG", b"SET", name.as_bytes(), b"pubsub 1mb 0"]);
    assert!(client.reply().starts_with("-ERR CONFIG SET failed"));
    client.script(
        r#"
        CONFIG SET notify-keyspace-events KEA => OK
        CONFIG GET notify-keyspace-events => ["notify-keyspace-events" "AKE"]
        "#,
    );
    assert!(
        client
            .ask("CONFIG SET notify-keyspace-events q")
            .starts_with("-ERR")
    );
}

/// Commands whose events are compared with those of Redis.
const EVENTFUL: &str = "
SET s 1|SET s 2 EX 100|SETEX s 100 1|PSETEX s 100000 1|SETNX n 1|SETNX n 1|GETSET n 2|APPEND s x
INCR n|DECRBY n 2|INCRBYFLOAT n 1.5|SETRANGE s 0 ab|SETBIT s 1 1|MSET a 1 b 2|MSETNX c 1 d 2|GETDEL c
GETEX a EX 100|GETEX a PERSIST|EXPIRE b 100|PERSIST b|PERSIST b|EXPIRE b 0|BITOP NOT e a|RENAME e f
RPUSH l 1 2 3|LPUSH l 0|LPUSHX l 9|RPUSHX none 1|LPOP l|RPOP l|LSET l 0 x|LINSERT l BEFORE x y|LREM l 1 y
LTRIM l 0 0|LMOVE l m LEFT RIGHT|RPUSH m 1 2|RPOPLPUSH m l|LMPOP 1 m LEFT COUNT 5|BLPOP l 1|DEL l m
SADD t 1 2 3|SADD t 1|SREM t 1|SREM t 9|SMOVE t u 2|SMOVE t u 3|SADD t 7|SPOP t|SADD t 1 2|SPOP t 1|SUNIONSTORE v t u|SINTERSTORE v none
SADD v 1|SDIFFSTORE v none|HSET h a 1 b 2|HSETNX h c 1|HINCRBY h a 1|HINCRBYFLOAT h b 1.5|HDEL h a|HDEL h b c
ZADD z 1 a 2 b 3 c 4 d|ZADD z NX 1 a|ZINCRBY z 1 a|ZREM z a|ZPOPMIN z|ZPOPMAX z|ZRANGESTORE y z 0 -1
ZREMRANGEBYRANK z 0 0|ZUNIONSTORE z 1 y|ZINTERSTORE z 2 y none|ZADD x 1 a|BZPOPMIN x 1|COPY y w|MOVE w 1
SORT y BY nosort STORE o|DEL y o none|UNLINK a|RENAMENX f g|GETRANGE g 0 1|TYPE g|FLUSHDB
";

#[test]
fn keyspace_events_are_those_of_redis() {
    let Some(redis) = start_redis() else {
        return;
    };
    let fixture = Fixture::new();
    let record = |mut client: Client, mut listener: Client| {
        client.script("CONFIG SET notify-keyspace-events KEA => OK");
        let _ = listener.ask("PSUBSCRIBE __key*__:*");
        let mut events = Vec::new();
        for line in EVENTFUL.trim().lines().flat_map(|line| line.split('|')) {
            let _ = client.ask(line);
            // The marker shows where the events of the command end.
            let _ = client.ask("PUBLISH __keymarker__:x x");
            loop {
                let event = listener.reply();
                if event.contains("__keymarker__") {
                    break;
                }
                events.push(format!("{line}: {event}"));
            }
        }
        events
    };
    let client = || Client::connect(redis.address);
    let theirs = record(client(), client());
    let ours = record(fixture.client(), fixture.client());
    assert!(theirs.len() > 100);
    let differences: Vec<_> = theirs
        .iter()
        .filter(|event| !ours.contains(event))
        .map(|event| format!("only Redis: {event}"))
        .chain(
            ours.iter()
                .filter(|event| !theirs.contains(event))
                .map(|event| format!("only here: {event}")),
        )
        .collect();
    assert!(differences.is_empty(), "{differences:#?}");
}
