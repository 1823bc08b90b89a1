//! Commands that wait for elements: BLPOP, BZPOPMIN and similar.

use crate::client::{Client, Fixture};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Waits until as many clients as `count` wait for elements.
fn wait_for_blocked(asking: &mut Client, count: usize) {
    let line = format!("blocked_clients:{count}\\r");
    let limit = Instant::now() + Duration::from_secs(30);
    while !asking.ask("INFO clients").contains(&line) {
        assert!(Instant::now() < limit, "{}", asking.ask("INFO clients"));
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn words(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(str::as_bytes).collect()
}

/// Sends a command that waits, and returns once it does.
fn block(client: &mut Client, asking: &mut Client, line: &str, blocked: usize) {
    client.send(&words(line));
    wait_for_blocked(asking, blocked);
}

#[test]
fn commands_that_find_elements_answer_at_once() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.script(
        r#"
        RPUSH l a b c d e f g => :7
        BLPOP none l 0 => ["l" "a"]
        BRPOP l none 0.5 => ["l" "g"]
        BLMOVE l m LEFT RIGHT 0 => "b"
        BRPOPLPUSH l m 0 => "f"
        LRANGE m 0 -1 => ["f" "b"]
        BLMPOP 0 2 none l LEFT COUNT 2 => ["l" ["c" "d"]]
        BLMPOP 0 1 l RIGHT => ["l" ["e"]]
        EXISTS l => :0
        ZADD z 1 a 2 b 3 c 4 d => :4
        BZPOPMIN none z 0 => ["z" "a" "1"]
        BZPOPMAX z 0 => ["z" "d" "4"]
        BZMPOP 0 1 z MAX COUNT 5 => ["z" [["c" "3"] ["b" "2"]]]
        BLPOP none 0.01 => nil array
        BLMOVE none m LEFT LEFT 0.01 => nil array
        BZPOPMIN none 0.01 => nil array
        BZMPOP 0.01 1 none MIN => nil array
        SET text 1 => OK
        BLPOP none text 0 => -WRONGTYPE Operation against a key holding the wrong kind of value
        BZPOPMIN m 0 => -WRONGTYPE Operation against a key holding the wrong kind of value
        BLPOP l -1 => -ERR timeout is negative
        BLPOP l x => -ERR timeout is not a float or out of range
        BLPOP l nan => -ERR timeout is not a float or out of range
        BLPOP l 1e300 => -ERR timeout is out of range
        BLMPOP 0 0 l LEFT => -ERR numkeys should be greater than 0
        BLMPOP 0 1 l MIDDLE => -ERR syntax error
        BLMPOP 0 1 l LEFT COUNT 0 => -ERR count should be greater than 0
        BLMOVE l m UP LEFT 0 => -ERR syntax error
        BLPOP l => -ERR wrong number of arguments for 'blpop' command
        COMMAND GETKEYS BLPOP a b 0 => ["a" "b"]
        COMMAND GETKEYS BLMPOP 0 2 a b LEFT => ["a" "b"]
        MULTI => OK
        BLPOP none 0 => QUEUED
        BLMOVE none m LEFT LEFT 0 => QUEUED
        RPUSH l 1 => QUEUED
        BLPOP l 0 => QUEUED
        BZPOPMIN none 0 => QUEUED
        EXEC => [nil array nil :1 ["l" "1"] nil array]
        BEGIN => OK
        BLPOP none 0 => nil array
        RPUSH l 2 => :1
        BLPOP l 0 => ["l" "2"]
        COMMIT => OK
        "#,
    );
    assert!(client.ask("COMMAND INFO blpop").contains("blocking"));
}

#[test]
fn every_way_to_fill_a_list_serves_the_client_that_waits_for_it() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    for fill in [
        "LPUSH q x",
        "RPUSH q x",
        "MULTI\nRPUSH other y\nRPUSH q x\nDEL other\nEXEC",
        "BEGIN\nRPUSH q x\nCOMMIT",
        "RPUSH p x\nRENAME p q",
        "RPUSH p x\nCOPY p q\nDEL p",
        "RPUSH p x\nLMOVE p q LEFT LEFT",
        "RPUSH p x\nSORT p ALPHA STORE q\nDEL p",
        "SELECT 1\nRPUSH q x\nMOVE q 0\nSELECT 0",
        "SELECT 1\nRPUSH q x\nSELECT 0\nSWAPDB 0 1",
        "SET q text\nDEL q\nLPUSH q x",
    ] {
        block(&mut one, &mut two, "BLPOP q 0", 1);
        for line in fill.lines() {
            let reply = two.ask(line);
            assert!(!reply.starts_with('-'), "{line}: {reply}");
        }
        assert_eq!(one.reply(), "[\"q\" \"x\"]", "{fill}");
        two.script("EXISTS q => :0\nFLUSHALL => OK");
    }
    block(&mut one, &mut two, "BZPOPMAX z 0", 1);
    two.script("ZUNIONSTORE z 1 none => :0\nZADD s 1 a 2 b => :2\nZRANGESTORE z s 0 -1 => :2");
    assert_eq!(one.reply(), "[\"z\" \"b\" \"2\"]");
    // A list in place of the sorted set does not serve a client that waits for a sorted set.
    two.script("DEL z => :1");
    block(&mut one, &mut two, "BZPOPMIN z 0", 1);
    two.script("RPUSH z a => :1\nSET z text => OK\nDEL z => :1\nZADD z 5 m => :1");
    assert_eq!(one.reply(), "[\"z\" \"m\" \"5\"]");
}

#[test]
fn clients_are_served_in_the_order_in_which_they_began_to_wait() {
    let fixture = Fixture::new();
    let mut asking = fixture.client();
    let mut waiting: Vec<Client> = (0..40).map(|_| fixture.client()).collect();
    for (index, client) in waiting.iter_mut().enumerate() {
        let line = match index % 3 {
            0 => "BLPOP q 0",
            1 => "BRPOP none q 0",
            _ => "BLMOVE q r LEFT RIGHT 0",
        };
        block(client, &mut asking, line, index + 1);
    }
    for index in 0..20 {
        let reply = asking.ask(&format!("RPUSH q {index}"));
        assert_eq!(reply, ":1");
        assert_eq!(asking.ask("LLEN q"), ":0", "the element is gone before the reply");
    }
    asking.send_bytes(b"MULTI\r\n");
    for index in 20..40 {
        asking.send_bytes(format!("RPUSH q {index}\r\n").as_bytes());
    }
    asking.send_bytes(b"EXEC\r\n");
    (0..22).for_each(|_| drop(asking.reply()));
    // Those of the last twenty that pop at the right take the newest first.
    let (mut left, mut right) = (20, 39);
    for (index, client) in waiting.iter_mut().enumerate() {
        let element = match index {
            0..20 => index,
            _ if index % 3 == 1 => {
                right -= 1;
                right + 1
            }
            _ => {
                left += 1;
                left - 1
            }
        };
        let expected = match index % 3 {
            2 => format!("\"{element}\""),
            _ => format!("[\"q\" \"{element}\"]"),
        };
        assert_eq!(client.reply(), expected, "client {index}");
    }
    assert_eq!(asking.ask("LLEN r"), ":13");
}

#[test]
fn a_pipeline_goes_on_after_the_wait_and_does_not_overtake_those_who_wait() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    one.send_bytes(b"SET a 1\r\nBLPOP q 0\r\nINCR a\r\nBLPOP q 0\r\nGET a\r\n");
    wait_for_blocked(&mut two, 1);
    assert_eq!(one.reply(), "OK");
    two.send_bytes(b"RPUSH q x\r\nLPOP q\r\nRPUSH q y\r\nRPOP q\r\nGET a\r\n");
    let replies: Vec<String> = (0..3).map(|_| two.reply()).collect();
    assert_eq!(replies[..2], [":1", "nil"]);
    assert_eq!(one.reply(), "[\"q\" \"x\"]");
    assert_eq!(one.reply(), ":2");
    // The second wait begins after some of the pipeline, so either of them may have the element.
    let (popped, _) = (two.reply(), two.reply());
    match &popped[..] {
        "nil" => assert_eq!(one.reply(), "[\"q\" \"y\"]"),
        other => {
            assert_eq!(other, "\"y\"");
            assert_eq!(two.ask("RPUSH q z"), ":1");
            assert_eq!(one.reply(), "[\"q\" \"z\"]");
        }
    }
    assert_eq!(one.reply(), "\"2\"");
}

#[test]
fn a_moved_element_serves_the_next_queue_and_a_target_of_another_type_is_an_error() {
    let fixture = Fixture::new();
    let mut asking = fixture.client();
    let (mut one, mut two, mut three) = (fixture.client(), fixture.client(), fixture.client());
    block(&mut one, &mut asking, "BLMOVE a b LEFT RIGHT 0", 1);
    block(&mut two, &mut asking, "BLMOVE b c LEFT RIGHT 0", 2);
    block(&mut three, &mut asking, "BRPOP c 0", 3);
    asking.script("RPUSH a x => :1\nEXISTS a b c => :0");
    assert_eq!(
        (one.reply(), two.reply()),
        ("\"x\"".to_owned(), "\"x\"".to_owned())
    );
    assert_eq!(three.reply(), "[\"c\" \"x\"]");
    block(&mut one, &mut asking, "BLMOVE a text LEFT RIGHT 0", 1);
    block(&mut two, &mut asking, "BLPOP a 0", 2);
    asking.script("SET text 1 => OK\nRPUSH a x => :1");
    assert!(one.reply().starts_with("-WRONGTYPE"));
    assert_eq!(two.reply(), "[\"a\" \"x\"]");
    // A client that waits for its own target rotates the list.
    block(&mut one, &mut asking, "BLMOVE a a LEFT RIGHT 0", 1);
    asking.script("RPUSH a 1 2 3 => :3\nLRANGE a 0 -1 => [\"2\" \"3\" \"1\"]");
    assert_eq!(one.reply(), "\"1\"");
}

#[test]
fn waits_end_by_time_by_other_clients_and_with_their_connections() {
    let fixture = Fixture::new();
    let mut asking = fixture.client();
    let mut one = fixture.client();
    let id = one.ask("CLIENT ID")[1..].to_owned();
    let began = Instant::now();
    assert_eq!(one.ask("BLPOP q 0.05"), "nil array");
    assert!(began.elapsed() >= Duration::from_millis(50));
    block(&mut one, &mut asking, "BLPOP q 0", 1);
    assert!(asking.ask(&format!("CLIENT LIST ID {id}")).contains("flags=b"));
    assert_eq!(asking.ask(&format!("CLIENT UNBLOCK {id}")), ":1");
    assert_eq!(one.reply(), "nil array");
    block(&mut one, &mut asking, "BZPOPMIN q 0", 1);
    assert_eq!(asking.ask(&format!("CLIENT UNBLOCK {id} ERROR")), ":1");
    assert_eq!(one.reply(), "-UNBLOCKED client unblocked via CLIENT UNBLOCK");
    assert_eq!(asking.ask(&format!("CLIENT UNBLOCK {id} TIMEOUT")), ":0");
    assert_eq!(asking.ask("CLIENT UNBLOCK 999"), ":0");
    // A connection that ends leaves the queue, and takes no element.
    block(&mut one, &mut asking, "BLPOP q 0", 1);
    drop(one);
    wait_for_blocked(&mut asking, 0);
    asking.script("RPUSH q x => :1\nLLEN q => :1\nDEL q => :1");
    let mut two = fixture.client();
    block(&mut two, &mut asking, "BLPOP q 0", 1);
    assert_eq!(asking.ask("CLIENT KILL TYPE normal"), ":1");
    wait_for_blocked(&mut asking, 0);
    assert_eq!(two.try_reply(), None);
    asking.script("RPUSH q x => :1\nLLEN q => :1");
}

#[test]
fn a_pause_holds_elements_and_waits_alike() {
    let fixture = Fixture::new();
    let (mut one, mut two, mut asking) = (fixture.client(), fixture.client(), fixture.client());
    block(&mut one, &mut asking, "BLPOP q 0", 1);
    asking.script("CLIENT PAUSE 60000 WRITE => OK");
    two.send(&words("RPUSH q x"));
    let mut three = fixture.client();
    three.send(&words("BLPOP q 0"));
    std::thread::sleep(Duration::from_millis(30));
    wait_for_blocked(&mut asking, 1);
    asking.script("CLIENT UNPAUSE => OK");
    assert_eq!(one.reply(), "[\"q\" \"x\"]");
    assert_eq!(two.reply(), ":1");
    asking.script("RPUSH q y => :1");
    assert_eq!(three.reply(), "[\"q\" \"y\"]");
}

#[test]
fn a_server_that_stops_ends_all_waits() {
    let fixture = Fixture::new();
    let mut asking = fixture.client();
    let mut waiting: Vec<Client> = (0..5).map(|_| fixture.client()).collect();
    for (index, client) in waiting.iter_mut().enumerate() {
        block(client, &mut asking, "BLPOP q 0", index + 1);
    }
    let began = Instant::now();
    fixture.server.stop();
    fixture.server.join().unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "no client waits for its grace"
    );
    for client in &mut waiting {
        assert_eq!(client.try_reply(), None);
    }
}

/// Pops elements until one is named "end", or until `is_over` for a client that does not wait.
fn consume(fixture: &Fixture, number: usize, is_over: &AtomicBool) -> Vec<String> {
    let mut client = fixture.client();
    let mut found = Vec::new();
    loop {
        let reply = client.ask(["BLPOP p q 0", "BRPOP q p 0", "BLMPOP 0 2 q p LEFT", "LPOP q"][number % 4]);
        match reply.split('"').rfind(|part| part.starts_with('e')) {
            Some("end") => return found,
            Some(element) => found.push(element.to_owned()),
            None if is_over.load(Ordering::Acquire) => return found,
            None => std::thread::yield_now(),
        }
    }
}

fn produce(fixture: &Fixture, producer: usize, each: usize) {
    let mut client = fixture.client();
    for index in 0..each {
        let name = format!("e{producer}-{index}");
        let reply = match index % 5 {
            0 => client.ask(&format!("RPUSH q {name}")),
            1 => client.ask(&format!("LPUSH p {name}")),
            2 => {
                client.script(&format!("MULTI => OK\nRPUSH q {name} => QUEUED"));
                client.ask("EXEC")
            }
            3 => loop {
                client.script("BEGIN => OK");
                let _ = client.ask(&format!("RPUSH q {name}"));
                match client.ask("COMMIT") {
                    reply if reply == "OK" => break reply,
                    reply => assert!(reply.starts_with("-CONFLICT"), "{reply}"),
                }
            },
            _ => {
                let _ = client.ask(&format!("RPUSH own{producer} {name}"));
                client.ask(&format!("LMOVE own{producer} q LEFT RIGHT"))
            }
        };
        assert!(!reply.starts_with('-'), "{reply}");
    }
}

#[test]
fn every_element_reaches_one_client_whoever_pushes_and_pops() {
    let fixture = Fixture::new();
    let (producers, consumers, each) = (4, 8, 150);
    let is_over = AtomicBool::new(false);
    let popped: Vec<String> = std::thread::scope(|scope| {
        let (fixture, is_over) = (&fixture, &is_over);
        let consumers: Vec<_> = (0..consumers)
            .map(|number| scope.spawn(move || consume(fixture, number, is_over)))
            .collect();
        let producers: Vec<_> = (0..producers)
            .map(|producer| scope.spawn(move || produce(fixture, producer, each)))
            .collect();
        producers.into_iter().for_each(|one| one.join().unwrap());
        is_over.store(true, Ordering::Release);
        let mut client = fixture.client();
        wait_for_blocked(&mut client, consumers.len() / 4 * 3);
        client.script("EXISTS p q => :0");
        for _ in 0..consumers.len() {
            let _ = client.ask("RPUSH q end");
        }
        consumers
            .into_iter()
            .flat_map(|one| one.join().unwrap())
            .collect()
    });
    let distinct: BTreeSet<&String> = popped.iter().collect();
    let all = producers * each;
    assert_eq!((popped.len(), distinct.len()), (all, all));
}

#[test]
fn replies_have_the_version_of_the_client_that_waits() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    let _ = one.ask("HELLO 3");
    block(&mut one, &mut two, "BZPOPMIN z 0", 1);
    two.script("ZADD z 1.5 m => :1");
    assert_eq!(one.reply(), "[\"z\" \"m\" ,1.5]");
    assert_eq!(one.ask("BLPOP none 0.001"), "nil");
    one.send(&words("CLIENT REPLY SKIP"));
    one.send(&words("BLPOP q 0"));
    wait_for_blocked(&mut two, 1);
    two.script("RPUSH q a => :1\nEXISTS q => :0");
    assert_eq!(one.ask("PING"), "PONG");
}

#[test]
fn commands_that_wait_count_once() {
    let fixture = Fixture::new();
    let (mut one, mut two) = (fixture.client(), fixture.client());
    block(&mut one, &mut two, "BLPOP q 0", 1);
    two.script("RPUSH q a => :1");
    let _ = one.reply();
    let stats = two.ask("INFO commandstats");
    assert!(stats.contains("cmdstat_blpop:calls=1"), "{stats}");
}
