//! Memory that a command allocates during execution counts towards the clients' memory limit, even
//! if the request is small.

use crate::client::{Client, Fixture, request};
use alluvium_device::{heap, machine};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

const MIB: usize = 1 << 20;

fn ask_all(client: &mut Client, words: &[&[u8]]) -> String {
    client.send(words);
    client.reply()
}

fn refusals(client: &mut Client) -> u64 {
    let text = client.ask("INFO stats").replace("\\r\\n", "\n");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("alluvium_memory_refusals:"));
    line.expect("INFO has it").parse().unwrap()
}

#[test]
fn strings_grow_no_longer_than_clients_have_memory_for() {
    let fixture = Fixture::bounded(4 * MIB);
    let mut client = fixture.client();
    for command in [
        "SETBIT long 200000000 1",
        "SETRANGE long 25000000 x",
        "BITFIELD long SET u8 200000000 1",
        "BITFIELD long INCRBY i5 #30000000 1",
    ] {
        let reply = client.ask(command);
        assert!(reply.starts_with("-OOM the command needs "), "{command}: {reply}");
    }
    client.script(
        "EXISTS long => :0
         SETBIT short 8000 1 => :0
         SETRANGE short 999999 x => :1000000
         BITOP OR made short short short => :1000000
         BITOP NOT made short => :1000000",
    );
    let part = vec![b'v'; 300_000];
    let refused = (0..20)
        .map(|_| ask_all(&mut client, &[b"APPEND", b"grows", &part]))
        .find(|reply| reply.starts_with("-OOM"));
    assert!(refused.is_some(), "a string grows and grows");
    assert!(refusals(&mut client) >= 5);
    // The memory must have been released.
    client.script("SETRANGE short 999999 y => :1000000");
}

#[test]
fn the_longest_common_subsequence_of_long_strings_is_refused() {
    let fixture = Fixture::bounded(4 * MIB);
    let mut client = fixture.client();
    client.script("SETRANGE a 4000 x => :4001\nSETRANGE b 4000 x => :4001\nSETRANGE c 100 x => :101");
    let reply = client.ask("LCS a b LEN");
    assert!(reply.starts_with("-OOM the command needs 64"), "{reply}");
    client.script("LCS a c LEN => :101");
}

#[test]
fn a_transaction_makes_no_more_than_clients_have_memory_for() {
    let fixture = Fixture::bounded(8 * MIB);
    let mut client = fixture.client();
    client.script("MULTI => OK");
    for index in 0..40 {
        let reply = client.ask(&format!("SETRANGE k{index} 1000000 x"));
        assert_eq!(reply, "QUEUED");
    }
    // Commands that get memory are executed, because the commands of a transaction fail
    // independently.
    let reply = client.ask("EXEC");
    let made = reply.matches(":1000001").count();
    assert_eq!(reply.matches("-OOM the command needs ").count(), 40 - made);
    assert!((1..=8).contains(&made), "{made}");
    client.script("EXISTS k0 k39 => :1\nSETRANGE k39 1000000 x => :1000001");
}

#[test]
fn a_field_that_is_asked_for_often_is_not_in_memory_as_often() {
    let fixture = Fixture::bounded(4 * MIB);
    let mut client = fixture.client();
    assert_eq!(
        ask_all(&mut client, &[b"HSET", b"h", b"f", &vec![b'v'; MIB]]),
        ":1"
    );
    let mut words: Vec<&[u8]> = vec![b"HMGET", b"h"];
    words.extend(std::iter::repeat_n(&b"f"[..], 10_000));
    let reply = ask_all(&mut client, &words);
    assert!(
        reply.starts_with("-OOM") || reply.starts_with("-ERR the reply exceeds"),
        "{reply}"
    );
    client.script("HMGET h none none2 => [nil nil]\nHMGET none f => [nil]");
    let reply = client.ask("HMGET h f f");
    assert_eq!(reply.len(), 2 * (MIB + 2) + 3);
}

/// Adds members to a set or a sorted set in long requests.
fn fill(client: &mut Client, command: &str, key: &str, members: std::ops::Range<u32>) {
    for first in members.clone().step_by(1000) {
        let mut words = vec![command.as_bytes().to_vec(), key.as_bytes().to_vec()];
        for number in first..(first + 1000).min(members.end) {
            if command == "ZADD" {
                words.push(number.to_string().into_bytes());
            }
            words.push(format!("member:{number:0>64}").into_bytes());
        }
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        assert!(ask_all(client, &words).starts_with(':'));
    }
}

#[test]
fn what_is_made_of_sorted_sets_is_gathered_within_the_memory_of_clients() {
    let fixture = Fixture::bounded(4 * MIB);
    let mut client = fixture.client();
    fill(&mut client, "ZADD", "large", 0..20_000);
    fill(&mut client, "ZADD", "small", 19_000..20_500);
    for command in [
        "ZUNION 2 large small",
        "ZDIFF 2 large small WITHSCORES",
        "ZINTER 2 large large",
        "ZPOPMIN large 20000",
        "SORT large BY nosort GET #",
    ] {
        let reply = client.ask(command);
        assert!(
            reply.starts_with("-OOM") || reply.starts_with("-ERR the reply exceeds"),
            "{command}: {}",
            &reply[..reply.len().min(100)]
        );
    }
    client.script("ZCARD large => :20000\nZUNIONSTORE to 2 large small => :20500");
    let reply = client.ask("ZINTER 2 large small");
    assert_eq!(reply.matches("member:").count(), 1000);
    fill(&mut client, "SADD", "set", 0..20_000);
    let reply = client.ask("SPOP set 19999");
    assert!(reply.starts_with("-OOM") || reply.starts_with("-ERR the reply exceeds"));
    client.script("SCARD set => :20000");
    assert_eq!(client.ask("SPOP set 100").matches("member:").count(), 100);
}

#[test]
fn elements_are_taken_from_a_list_only_if_clients_have_memory_for_the_reply() {
    let fixture = Fixture::bounded(4 * MIB);
    let mut client = fixture.client();
    let element = vec![b'v'; 100_000];
    for _ in 0..60 {
        assert!(ask_all(&mut client, &[b"RPUSH", b"l", &element]).starts_with(':'));
    }
    for command in ["LPOP l 60", "RPOP l 60", "LMPOP 1 l LEFT COUNT 60"] {
        let reply = client.ask(command);
        assert!(
            reply.starts_with("-ERR the reply exceeds"),
            "{command}: {}",
            &reply[..40]
        );
    }
    client.script("LLEN l => :60");
    assert_eq!(client.ask("LPOP l 10").len(), 10 * 100_003 + 1);
}

#[test]
fn watched_keys_are_refused_beyond_the_memory_of_clients() {
    let fixture = Fixture::bounded(MIB);
    let (mut watcher, mut client) = (fixture.client(), fixture.client());
    let (mut watched, mut refused) = (0, None);
    while watched < 20_000 && refused.is_none() {
        let keys: Vec<String> = (watched..watched + 100).map(|key| format!("k{key}")).collect();
        let reply = watcher.ask(&format!("WATCH {}", keys.join(" ")));
        match reply.as_str() {
            "OK" => watched += 100,
            _ => refused = Some(reply),
        }
    }
    let refused = refused.expect("it is refused some time");
    assert!(
        refused.starts_with("-OOM the list of watched keys does not fit"),
        "{refused}"
    );
    assert!(watched > 1000, "{watched}");
    // Existing watches remain in force.
    client.script("SET k5 1 => OK");
    watcher.script("MULTI => OK\nEXEC => nil array\nWATCH k1 => OK");
}

#[test]
fn a_key_that_is_watched_often_is_watched_once() {
    let fixture = Fixture::bounded(MIB);
    let mut watcher = fixture.client();
    for _ in 0..200 {
        watcher.send_bytes(&request(&[b"WATCH", b"same", b"same", b"same"]).repeat(100));
        for _ in 0..100 {
            assert_eq!(watcher.reply(), "OK");
        }
    }
}

/// Environment variable that makes the test below act as the child process. Without it, the test
/// does nothing.
const CHILD: &str = "ALLUVIUM_BOUNDS_CHILD";

#[test]
fn a_child_serves_clients_that_send_large_numbers() {
    let Ok(_) = std::env::var(CHILD) else { return };
    heap::give_freed_memory_back();
    let fixture = Fixture::new();
    let all: Vec<_> = (0..8)
        .map(|name| {
            let mut client = fixture.client();
            std::thread::spawn(move || {
                for round in 0..6 {
                    for command in [
                        format!("SETBIT b{name} {} 1", 2_100_000_000 - round),
                        format!("SETRANGE r{name} 250000000 x"),
                        format!("BITFIELD f{name} INCRBY u63 2000000000 1"),
                        format!("SETRANGE a{name} {} x", 1_000_000 * (round + 1)),
                        format!("BITOP XOR d{name} a0 a1 a2 a3 a4 a5 a6 a7 a0 a1 a2 a3 a4 a5 a6 a7"),
                        format!("LCS a{name} a0 IDX"),
                        format!("SETRANGE s{name} 2500 x"),
                        format!("LCS s{name} s0 LEN"),
                    ] {
                        let reply = client.ask(&command);
                        assert!(reply.starts_with([':', '-', '[']), "{command}: {reply}");
                    }
                }
            })
        })
        .collect();
    for one in all {
        one.join().unwrap();
    }
    let peak = machine::memory_of_process("VmHWM").expect("Linux says how much memory a process has had");
    println!("peak {peak}");
}

#[test]
fn long_values_that_many_ask_for_at_once_are_told_whole_or_refused() {
    // Together, the values exceed the store's memory.
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let value = vec![b'v'; 4_000_000];
    for number in 0..30 {
        let reply = ask_all(&mut client, &[b"SET", format!("v{number}").as_bytes(), &value]);
        assert_eq!(reply, "OK");
        let hash = format!("h{number}");
        let words: [&[u8]; 4] = [b"HSET", hash.as_bytes(), b"f", &value];
        assert!(ask_all(&mut client, &words).starts_with(':'));
    }
    let all: Vec<_> = (0..20)
        .map(|name| {
            let mut client = fixture.client();
            std::thread::spawn(move || {
                for round in 0..2 {
                    let key = (name * 7 + round) % 30;
                    for command in [format!("GET v{key}"), format!("HGET h{key} f")] {
                        // The server may close the slowest readers when the clients' memory is
                        // exhausted.
                        client.send_bytes(format!("{command}\r\n").as_bytes());
                        let Some(reply) = client.try_reply() else {
                            return 0;
                        };
                        assert!(reply.len() == 4_000_002 || reply.starts_with("-OOM"), "{command}");
                    }
                }
                1
            })
        })
        .collect();
    let answered: usize = all.into_iter().map(|one| one.join().unwrap()).sum();
    assert!(answered > 0);
}

#[test]
fn large_numbers_take_no_more_memory_than_the_store_was_given() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "bounds::a_child_serves_clients_that_send_large_numbers",
            "--nocapture",
        ])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let peak = text
        .lines()
        .find_map(|line| line.split("peak ").nth(1)?.trim().parse::<u64>().ok());
    let peak = peak.unwrap_or_else(|| panic!("{text}\n{}", String::from_utf8_lossy(&output.stderr)));
    println!("large numbers: {} MiB", peak >> 20);
    // Each request asks for at least a quarter of a gigabyte. Smaller excesses are not checked,
    // because a varying number of threads hold a copy of a few megabytes at the same time.
    assert!(peak <= 2 * (64 << 20), "{} MiB resident", peak >> 20);
}

#[test]
fn all_items_are_told_in_pages() {
    let fixture = Fixture::new();
    let socket = TcpStream::connect(fixture.server.memcached_addr().unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut items = BufReader::new(socket);
    let mut line = |send: &str| {
        items.get_mut().write_all(send.as_bytes()).unwrap();
        let mut line = String::new();
        items.read_line(&mut line).unwrap();
        line
    };
    assert_eq!(line("lru_crawler metadump all\r\n"), "END\r\n");
    for number in 0..3000 {
        let key = format!("{number:0>200}/");
        assert_eq!(line(&format!("set {key} 0 3600 2\r\nok\r\n")), "STORED\r\n");
    }
    assert_eq!(line("set gone 0 -1 1\r\nx\r\n"), "STORED\r\n");
    // The reply to `version` comes after the complete dump.
    let mut told = line("lru_crawler metadump all\r\nversion\r\n");
    for number in 0..3000 {
        let key = format!("key={number:0>200}%2F exp=");
        assert!(told.starts_with(&key) && told.ends_with('\n'), "{told}");
        assert!(
            told.contains(" la=") && told.contains(" fetch=no cls=1 size="),
            "{told}"
        );
        told = line("");
    }
    assert_eq!(told, "END\r\n");
    assert!(line("").starts_with("VERSION "));
    assert_eq!(line("lru_crawler metadump 2\r\n"), "END\r\n");
    for (send, reply) in [
        ("lru_crawler metadump 0", "BADCLASS invalid class id"),
        ("lru_crawler metadump", "ERROR"),
        ("lru_crawler metadump all all", "ERROR"),
        ("lru_crawler", "ERROR"),
        ("lru_crawler enable", "OK"),
        ("lru_crawler crawl all", "OK"),
        ("lru_crawler tocrawl 5", "OK"),
        (
            "lru_crawler sleep 1000001",
            "CLIENT_ERROR sleep must be one second or less",
        ),
    ] {
        assert_eq!(line(&format!("{send}\r\n")), format!("{reply}\r\n"), "{send}");
    }
}
