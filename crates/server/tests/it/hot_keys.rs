//! The cost of pipelined commands on one key, in reads and iterator steps.

use crate::client::{Client, Fixture, request, sorted};
use crate::differential::{SHAPES, compared, fill, is_of_its_moment};

/// Sends all requests at once and returns the replies.
fn together(client: &mut Client, requests: &[Vec<u8>]) -> Vec<String> {
    client.send_bytes(&requests.concat());
    requests.iter().map(|_| client.reply()).collect()
}

/// Builds commands whose last argument is a number.
fn numbered(words: &[&str], numbers: std::ops::Range<u32>) -> Vec<Vec<u8>> {
    let command = |number: u32| {
        let last = format!("{number:06}");
        let words = words.iter().map(|word| word.as_bytes());
        request(&words.chain([last.as_bytes()]).collect::<Vec<_>>())
    };
    numbers.map(command).collect()
}

/// Upper bound on the number of parts in which a pipeline arrives. Each part is one batch.
const PARTS: u64 = 8;

#[test]
fn commands_of_a_pipeline_on_one_key_read_its_record_and_their_elements_at_once() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.script("INCR n => :1\nHSET h 000003 old => :1\nSADD s 000003 => :1\nZADD z 1 000003 => :1");
    client.script("LPUSH l a => :1");
    let mut reads = |requests: Vec<Vec<u8>>| {
        let before = fixture.db.stats().operations;
        let replies = together(&mut client, &requests);
        let after = fixture.db.stats().operations;
        (
            replies,
            after.multi_gets + after.gets - before.multi_gets - before.gets,
        )
    };
    let (replies, read) = reads(vec![request(&[b"INCR", b"n"]); 200]);
    let expected = (2..202).map(|number| format!(":{number}"));
    assert!(replies.into_iter().eq(expected) && read <= PARTS, "{read}");
    let (_, read) = reads(numbered(&["LPUSH", "l"], 0..200));
    assert!(read <= PARTS, "{read}");
    // One of the elements already exists, and one occurs twice.
    let hset = |number: u32| request(&[b"HSET", b"h", format!("{number:06}").as_bytes(), b"v"]);
    let (replies, read) = reads((0..200).chain([7]).map(hset).collect());
    let added = |replies: &[String]| replies.iter().filter(|reply| *reply == ":1").count();
    assert!(added(&replies) == 199 && read <= 2 * PARTS, "{read}");
    assert_eq!((&*replies[3], &*replies[200]), (":0", ":0"));
    for words in [&["SADD", "s"][..], &["ZADD", "z", "5"]] {
        let (replies, read) = reads(numbered(words, 0..200));
        assert!(added(&replies) == 199 && read <= 2 * PARTS, "{words:?}: {read}");
        assert_eq!(replies[3], ":0");
    }
    let (replies, read) = reads(numbered(&["HGET", "h"], 0..200));
    assert!(
        replies.iter().all(|reply| reply == "\"v\"") && read <= 2 * PARTS,
        "{read}"
    );
    // The pipeline deletes the hash first, although its fields may already have been prefetched.
    let mut requests = vec![request(&[b"DEL", b"h"])];
    requests.extend(numbered(&["HGET", "h"], 0..50));
    let (replies, _) = reads(requests);
    assert!(replies[1..].iter().all(|reply| reply == "nil"), "{replies:?}");
}

#[test]
fn taking_many_members_in_one_transaction_does_not_walk_over_those_that_it_took() {
    const MEMBERS: u32 = 1500;
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let add = |number: u32| {
        let score = format!("{number}");
        request(&[
            b"ZADD",
            b"z",
            score.as_bytes(),
            format!("m{number:06}").as_bytes(),
        ])
    };
    together(&mut client, &(0..MEMBERS).map(add).collect::<Vec<_>>());
    let before = fixture.db.stats().operations.scanned;
    let mut requests = vec![request(&[b"MULTI"])];
    for number in 0..MEMBERS {
        // Pops alternate between both ends, and a new first member is added once.
        requests.push(request(&[
            if number % 2 == 0 { b"ZPOPMIN" } else { b"ZPOPMAX" },
            b"z",
        ]));
        if number == 500 {
            requests.push(request(&[b"ZADD", b"z", b"-1", b"first"]));
        }
    }
    requests.push(request(&[b"EXEC"]));
    let replies = together(&mut client, &requests);
    let last = replies.last().unwrap();
    assert!(
        last.contains("m000000") && last.contains("first") && !last.contains("ERR"),
        "{last}"
    );
    assert_eq!(last.matches("m0").count() as u32, MEMBERS - 1);
    let scanned = fixture.db.stats().operations.scanned - before;
    // An iterator reads a few records ahead. Skipping all deleted records would take about a
    // million steps.
    assert!(
        scanned < u64::from(MEMBERS) * 8,
        "{scanned} records were walked over"
    );
    client.script("ZCARD z => :1");
}

#[test]
fn elements_that_a_pipeline_pops_are_read_together_and_walked_over_by_none() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let push = |number: u32| request(&[b"RPUSH", b"l", format!("{number}").as_bytes()]);
    together(&mut client, &(0..600).map(push).collect::<Vec<_>>());
    let before = fixture.db.stats().operations;
    let mut requests = Vec::new();
    for number in 0..200 {
        requests.push(request(&[b"LPOP", b"l"]));
        requests.push(request(&[b"RPOP", b"l"]));
        if number % 50 == 0 {
            // Elements pushed in between must be popped first.
            requests.push(request(&[b"LPUSH", b"l", b"x", b"y"]));
            requests.push(request(&[b"LPOP", b"l"]));
            requests.push(request(&[b"LPOP", b"l"]));
        }
    }
    let replies = together(&mut client, &requests);
    let after = fixture.db.stats().operations;
    let popped: Vec<&String> = replies.iter().filter(|reply| reply.starts_with('"')).collect();
    assert_eq!(popped.len(), 408);
    assert_eq!(popped[..4], ["\"0\"", "\"599\"", "\"y\"", "\"x\""]);
    assert_eq!(popped[407], "\"400\"");
    let reads = after.multi_gets + after.gets - before.multi_gets - before.gets;
    assert!(reads <= 5 * PARTS, "{reads}");
    assert_eq!(after.scanned, before.scanned);
    client.script("LLEN l => :200\nLINDEX l 0 => \"200\"\nLINDEX l -1 => \"399\"");
    // A list that becomes empty is removed, and a later push creates a new one.
    let mut requests = vec![request(&[b"LPOP", b"l"]); 201];
    requests.push(request(&[b"RPUSH", b"l", b"a", b"b"]));
    requests.push(request(&[b"RPOP", b"l"]));
    let replies = together(&mut client, &requests);
    assert_eq!(replies[199..], ["\"399\"", "nil", ":2", "\"b\""]);
    client.script("LRANGE l 0 -1 => [\"a\"]");
}

/// Returns a random command for keys of the given kind, usually on `key`.
fn on_key(kind: &str, key: &str, random: &mut fastrand::Rng) -> String {
    let is_fit = |shape: &&&str| {
        let mut words = shape.split(' ');
        // Comparing times to live depends on when each server executes the command.
        let compares_times = shape.starts_with("EXPIRE") && (shape.ends_with("GT") || shape.ends_with("LT"));
        let is_fit = words.any(|word| word == kind || word == "$any");
        is_fit && !is_of_its_moment(shape) && !compares_times
    };
    let fit: Vec<&&str> = SHAPES.iter().filter(is_fit).collect();
    let shape = fit[random.usize(..fit.len())];
    let words = shape.split(' ').map(|word| match word {
        word if word == kind && random.u8(..10) > 0 => key,
        "$any" if random.bool() => key,
        word => word,
    });
    fill(&words.collect::<Vec<_>>().join(" "), random)
}

#[test]
fn pipelines_that_stay_on_one_key_are_what_their_commands_are_one_by_one() {
    const PIPELINES: u64 = 1200;
    let (together, one_by_one) = (Fixture::new(), Fixture::new());
    let (mut batches, mut single) = (together.client(), one_by_one.client());
    let random = &mut fastrand::Rng::with_seed(20_261_129);
    for pipeline in 0..PIPELINES {
        let mut commands: Vec<String> = Vec::new();
        for _ in 0..random.usize(1..4) {
            let kind = ["H", "L", "T", "Z", "S"][random.usize(..5)];
            let key = format!("{}{}", kind.to_lowercase(), random.u8(..3));
            let count = random.usize(1..16);
            commands.extend((0..count).map(|_| on_key(kind, &key, random)));
        }
        if random.u8(..4) == 0 {
            commands.insert(0, "MULTI".to_owned());
            commands.push("EXEC".to_owned());
        }
        let words = |command: &String| {
            let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
            request(&words)
        };
        let requests: Vec<Vec<u8>> = commands.iter().map(words).collect();
        let found = self::together(&mut batches, &requests);
        for (command, found) in commands.iter().zip(found) {
            // EXEC's reply may contain unordered replies.
            let compared = |reply: String| match &command[..] {
                "EXEC" => sorted(&reply.replace(['[', ']', '<', '>', '{', '}'], " ")),
                command => compared(command, reply),
            };
            let expected = compared(single.ask(command));
            assert_eq!(
                compared(found),
                expected,
                "pipeline {pipeline}: {command} of {commands:?}"
            );
        }
    }
    for client in [&mut batches, &mut single] {
        assert!(client.ask("DBSIZE") != ":0");
    }
    let dump = |fixture: &Fixture| {
        let redis = fixture.db.keyspace("redis").unwrap();
        redis.iter().map(Result::unwrap).count()
    };
    assert_eq!(dump(&together), dump(&one_by_one), "records and elements");
}
