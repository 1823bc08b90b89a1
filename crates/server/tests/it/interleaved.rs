//! Interleaves several clients' transactions on collections, and compares them with a server that
//! executes the committed transactions one after another.

use crate::client::{Client, Fixture};
use fastrand::Rng;

const CLIENTS: usize = 5;
const KEYS: [&str; 5] = ["l", "r", "h", "s", "z"];

/// Returns a random read of a whole collection, or part of it, under one of a few keys.
fn any_read(random: &mut Rng) -> String {
    let key = KEYS[random.usize(..KEYS.len())];
    match random.u32(..14) {
        0 => "LRANGE l 0 -1".to_owned(),
        1 => "LRANGE r -2 -1".to_owned(),
        2 => "HMGET h a b c".to_owned(),
        3 => "HLEN h".to_owned(),
        4 => "SORT s ALPHA".to_owned(),
        5 => "SMISMEMBER s a b c".to_owned(),
        6 => "ZRANGE z 0 -1 WITHSCORES".to_owned(),
        7 => "ZRANGEBYSCORE z -3 3".to_owned(),
        8 => "ZRANK z b".to_owned(),
        9 => "KEYS *".to_owned(),
        10 => "DBSIZE".to_owned(),
        11 => format!("EXISTS {key}"),
        12 => "SCAN 0 COUNT 100".to_owned(),
        _ => format!("TYPE {key}"),
    }
}

/// Returns a random change to a few elements of a few collections, so that transactions conflict.
fn any_change(random: &mut Rng) -> String {
    let key = KEYS[random.usize(..KEYS.len())];
    let other = KEYS[random.usize(..KEYS.len())];
    let member = ["a", "b", "c", "d"][random.usize(..4)];
    let number = random.i32(-9..9);
    match random.u32(..24) {
        0 => format!("RPUSH {key} {member}"),
        1 => format!("LPUSH l {member} {number}"),
        2 => "LPOP l".to_owned(),
        3 => "RPOP r".to_owned(),
        4 => "LMOVE l r RIGHT LEFT".to_owned(),
        5 => "RPOPLPUSH r l".to_owned(),
        6 => format!("LSET l 0 {member}"),
        7 => format!("LREM l 1 {member}"),
        8 => "LTRIM r 0 3".to_owned(),
        9 => format!("LINSERT l BEFORE {member} {number}"),
        10 => format!("HSET h {member} {number}"),
        11 => format!("HDEL h {member}"),
        12 => format!("HINCRBY h {member} {number}"),
        13 => format!("HSETNX h {member} 0"),
        14 => format!("SADD s {member}"),
        15 => format!("SREM s {member}"),
        16 => format!("ZADD z {number} {member}"),
        17 => format!("ZINCRBY z {number} {member}"),
        18 => format!("ZREM z {member}"),
        19 => "ZREMRANGEBYSCORE z -2 2".to_owned(),
        20 => format!("DEL {key}"),
        21 => format!("RENAME {key} {other}"),
        22 => format!("COPY {key} {other} REPLACE"),
        _ => format!("SET {key} {member}"),
    }
}

/// An open transaction.
#[derive(Default)]
struct Begun {
    done: Vec<(String, String)>,
    /// A read-only transaction's commands, with the expected replies as of its BEGIN.
    expected: Vec<(String, String)>,
}

fn begin(client: &mut Client, model: &mut Client, at: usize, random: &mut Rng) -> Begun {
    client.script("BEGIN LENIENT => OK");
    let mut begun = Begun::default();
    if random.u32(..4) == 0 {
        for _ in 0..random.u32(1..6) {
            let read = any_read(random);
            begun.expected.push((read.clone(), model.ask(&read)));
        }
    } else {
        // A transaction with writes is serialised at its commit, a read-only one at its BEGIN.
        let command = format!("INCR own{at}");
        let reply = client.ask(&command);
        begun.done.push((command, reply));
    }
    begun
}

/// Commits, and returns whether that succeeded. If so, executes the same commands on the model and
/// compares the replies.
fn commit(client: &mut Client, model: &mut Client, begun: &Begun) -> bool {
    let reply = client.ask("COMMIT");
    if reply != "OK" {
        assert!(reply.starts_with("-CONFLICT "), "{reply}");
        assert!(
            !begun.done.is_empty(),
            "a transaction that only reads meets no conflict"
        );
        return false;
    }
    for (command, replied) in &begun.done {
        assert_eq!(&model.ask(command), replied, "{command} of {:?}", begun.done);
    }
    true
}

fn assert_same(one: &mut Client, model: &mut Client) {
    for read in [
        "KEYS *",
        "DBSIZE",
        "LRANGE l 0 -1",
        "LRANGE r 0 -1",
        "HMGET h a b c d",
        "HLEN h",
    ] {
        assert_eq!(one.ask(read), model.ask(read), "{read}");
    }
    for read in [
        "SORT s ALPHA",
        "SCARD s",
        "ZRANGE z 0 -1 WITHSCORES",
        "ZCARD z",
        "GET h",
    ] {
        assert_eq!(one.ask(read), model.ask(read), "{read}");
    }
}

#[test]
fn serializable_transactions_over_collections_equal_their_commits_one_after_another() {
    let (fixture, sequential) = (Fixture::new(), Fixture::new());
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| fixture.client()).collect();
    let (mut plain, mut model) = (fixture.client(), sequential.client());
    let mut begun: Vec<Option<Begun>> = (0..CLIENTS).map(|_| None).collect();
    let mut random = Rng::with_seed(2828);
    let (mut committed, mut conflicts) = (0, 0);
    for turn in 0..6_000 {
        let at = random.usize(..CLIENTS);
        let client = &mut clients[at];
        let Some(open) = &mut begun[at] else {
            begun[at] = Some(begin(client, &mut model, at, &mut random));
            continue;
        };
        match random.u32(..10) {
            0 | 1 => {
                let ends = begun[at].take().expect("it has begun");
                let took_effect = commit(client, &mut model, &ends);
                committed += usize::from(took_effect && !ends.done.is_empty());
                conflicts += usize::from(!took_effect);
            }
            2 if random.bool() => {
                client.script("ABORT => OK");
                begun[at] = None;
            }
            3 if turn % 3 == 0 => {
                let command = any_change(&mut random);
                assert_eq!(plain.ask(&command), model.ask(&command), "{turn}: {command}");
            }
            _ if !open.expected.is_empty() => {
                let (read, expected) = &open.expected[random.usize(..open.expected.len())];
                assert_eq!(&client.ask(read), expected, "{turn}: {read}");
            }
            kind => {
                let command = match kind {
                    4..=6 => any_read(&mut random),
                    _ => any_change(&mut random),
                };
                let reply = client.ask(&command);
                open.done.push((command, reply));
            }
        }
        if turn % 100 == 0 {
            assert_same(&mut plain, &mut model);
        }
    }
    assert_same(&mut plain, &mut model);
    assert!(committed > 50 && conflicts > 50, "{committed} {conflicts}");
}

/// Moves one element between lists and one unit between fields. `way` selects the commands.
fn transfer(client: &mut Client, way: usize, random: &mut Rng) {
    let (from, to) = [("l", "r"), ("r", "l")][random.usize(..2)];
    let amount = random.i32(-5..6);
    let commands = [
        format!("LMOVE {from} {to} LEFT RIGHT"),
        format!("HINCRBY h {from} {amount}"),
        format!("HINCRBY h {to} {}", -amount),
    ];
    let (first, last) = [
        ("BEGIN SNAPSHOT", "COMMIT"),
        ("BEGIN", "COMMIT"),
        ("MULTI", "EXEC"),
    ][way];
    loop {
        client.script(&format!("{first} => OK"));
        for command in &commands {
            let reply = client.ask(command);
            assert!(!reply.starts_with('-'), "{command}: {reply}");
        }
        let reply = client.ask(last);
        if !reply.starts_with("-CONFLICT ") {
            assert!(!reply.starts_with('-'), "{reply}");
            return;
        }
    }
}

/// Returns the total length of two lists, and asserts that the fields add up to zero.
fn audit(client: &mut Client, begin: &str) -> i64 {
    let number = |reply: String| {
        reply
            .trim_matches(|c| c == ':' || c == '"')
            .parse::<i64>()
            .unwrap()
    };
    client.script(&format!("{begin} => OK"));
    let counts = number(client.ask("LLEN l")) + number(client.ask("LLEN r"));
    let sum = number(client.ask("HGET h l")) + number(client.ask("HGET h r"));
    let elements =
        client.ask("LRANGE l 0 -1").matches('"').count() + client.ask("LRANGE r 0 -1").matches('"').count();
    assert_eq!(elements, 2 * usize::try_from(counts).unwrap());
    assert_eq!(sum, 0);
    client.script("COMMIT => OK");
    counts
}

#[test]
pub(crate) fn transfers_between_collections_conserve_what_there_is() {
    const EACH: usize = 60;
    let fixture = Fixture::new();
    fixture
        .client()
        .script("RPUSH l 1 2 3 4 5 6 => :6\nRPUSH r 7 8 9 => :3\nHSET h l 0 r 0 => :2");
    std::thread::scope(|scope| {
        for way in [0, 0, 1, 1, 2] {
            let fixture = &fixture;
            scope.spawn(move || {
                let (mut client, mut random) = (fixture.client(), Rng::with_seed(way as u64));
                for _ in 0..EACH {
                    transfer(&mut client, way, &mut random);
                }
            });
        }
        let mut client = fixture.client();
        for turn in 0..EACH {
            let begin = ["BEGIN SNAPSHOT", "BEGIN"][turn % 2];
            assert_eq!(audit(&mut client, begin), 9, "{begin}");
        }
    });
    assert_eq!(audit(&mut fixture.client(), "BEGIN"), 9);
}

#[test]
fn a_sorted_set_that_grows_large_in_a_transaction_is_counted_as_it_is_then() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    let add = |client: &mut Client, from: u32| {
        let members: Vec<String> = (from..from + 100).map(|n| format!("{n} m{n}")).collect();
        client.script(&format!("ZADD z {} => :100", members.join(" ")));
    };
    (0..1_000).step_by(100).for_each(|from| add(&mut two, from));
    one.script("BEGIN SNAPSHOT => OK");
    (1_000..4_000).step_by(100).for_each(|from| add(&mut one, from));
    one.script("ZRANK z m3500 => :3500\nZCARD z => :4000");
    // The command adds no member, but the new position of an existing one invalidates the counts.
    two.script("ZADD z 3999.5 m5 => :0\nZRANK z m6 => :5");
    assert!(one.ask("COMMIT").starts_with("-CONFLICT "));
    one.script("BEGIN SNAPSHOT => OK");
    (1_000..6_000).step_by(100).for_each(|from| add(&mut one, from));
    one.script("COMMIT => OK");
    for _ in 0..2 {
        two.script("ZRANK z m4 => :4\nZRANK z m6 => :5\nZRANK z m2000 => :1999\nZRANK z m5999 => :5999");
        two.script("ZRANK z m5 => :3999\nZRANGE z 4500 4501 => [\"m4500\" \"m4501\"]");
        two.script("ZADD z 7000 last => :1\nZREM z last => :1");
    }
}
