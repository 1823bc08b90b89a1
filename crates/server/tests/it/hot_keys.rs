//! What commands on one key cost that come together: reads, and steps of walks.

use crate::client::{Client, Fixture, request};

/// Sends requests at once and returns the replies.
fn together(client: &mut Client, requests: &[Vec<u8>]) -> Vec<String> {
    client.send_bytes(&requests.concat());
    requests.iter().map(|_| client.reply()).collect()
}

/// Commands with a number in their last place.
fn numbered(words: &[&str], numbers: std::ops::Range<u32>) -> Vec<Vec<u8>> {
    let command = |number: u32| {
        let last = format!("{number:06}");
        let words = words.iter().map(|word| word.as_bytes());
        request(&words.chain([last.as_bytes()]).collect::<Vec<_>>())
    };
    numbers.map(command).collect()
}

/// A pipeline may be received in a few parts, each of which is a batch.
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
    // One of the elements is there, and one comes twice.
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
    // What was deleted within the pipeline is not there, though it was read before.
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
        // From both ends, and now and then one comes back before all others.
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
    // A walk reads a few records ahead; all of those that are gone were a million.
    assert!(
        scanned < u64::from(MEMBERS) * 8,
        "{scanned} records were walked over"
    );
    client.script("ZCARD z => :1");
}
